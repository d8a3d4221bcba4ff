//! Completing a job in the application's own transaction, so that its effects there happen exactly once.

use super::JobContext;
use crate::{
    job::MAX_RESULT,
    store::{Completion, Promised, StoreError, Tx},
};
use serde::Serialize;
use std::{
    future::Future,
    sync::{Arc, atomic::Ordering},
};

impl JobContext {
    /// Completes the job, with this output, in the application's own transaction on the queue's database: the job is
    /// completed if that transaction commits, together with the rows that the handler wrote in it, and is not if it does
    /// not. So these effects happen exactly once, wherever the process is killed.
    ///
    /// ```
    /// # use jobq::prelude::*;
    /// # use jobq::sqlx::SqlitePool;
    /// #[job]
    /// async fn pay(ctx: &JobContext, #[data] app: &SqlitePool, account: i64, cents: i64) -> Result<i64, JobError> {
    ///     let mut tx = app.begin_with("BEGIN IMMEDIATE").await?;
    ///     jobq::sqlx::query("UPDATE accounts SET cents = cents + ? WHERE id = ?")
    ///         .bind(cents)
    ///         .bind(account)
    ///         .execute(&mut *tx)
    ///         .await?;
    ///     ctx.complete_in(&mut *tx, &cents).await?;
    ///     tx.commit().await?;
    ///     Ok(cents)
    /// }
    /// ```
    ///
    /// What the handler does after the commit changes nothing: an error, a panic or a time-out is told in the log, and the
    /// job is completed. Where it ends well and the transaction was rolled back, or dropped without a commit, the attempt
    /// has failed with [`CompletionRolledBack`](crate::job::CompletionRolledBack). The worker takes the job out of
    /// `running` right after the handler has ended; should its process be gone by then, whoever rescues the job does.
    ///
    /// A connection that is in no transaction commits at once.
    ///
    /// # Errors
    /// [`CompleteError`]; then nothing was laid in the transaction.
    ///
    /// # Cancel safety
    /// Dropped before it has ended, the completion may be in the transaction or not: roll that back.
    pub fn complete_in<'t, T: Serialize + ?Sized>(
        &self,
        tx: impl Into<Tx<'t>>,
        output: &T,
    ) -> impl Future<Output = Result<(), CompleteError>> + Send {
        let (tx, result) = (tx.into(), result(output));
        async move {
            let result = result?;
            let office = self.0.office.as_ref().ok_or(CompleteError::NoWorker)?;
            let (id, lease, ties) = (self.id(), self.lease(), self.ties());
            let before = self.0.promised.swap(true, Ordering::AcqRel);
            let ended = Completion { id, lease, result, ties };
            let error = match office.store.complete_in(tx, ended).await {
                Ok(Promised::Laid) => return Ok(()),
                Ok(Promised::Twice) => CompleteError::Twice,
                Ok(Promised::LeaseLost) => CompleteError::LeaseLost,
                Err(error) => error.into(),
            };
            self.0.promised.store(before, Ordering::Release);
            Err(error)
        }
    }
}

/// The output as a row holds it.
fn result<T: Serialize + ?Sized>(output: &T) -> Result<Option<String>, CompleteError> {
    let json = serde_json::to_string(output).map_err(|error| CompleteError::Unwritable(Arc::new(error)))?;
    match json.len() {
        bytes if bytes > MAX_RESULT => Err(CompleteError::TooLarge { bytes }),
        // `()`: nothing is stored of it, and it is read back from nothing.
        _ => Ok((json != "null").then_some(json)),
    }
}

/// Why a job was not completed in a transaction. Nothing was laid in it.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CompleteError {
    /// This attempt has completed before, in this transaction or in one that has committed.
    #[error("this attempt has completed already; call `complete_in` once")]
    Twice,
    /// The job has gone to another worker, has ended or was deleted: what this attempt does is not to count.
    #[error("the job is not this attempt's any more; roll the transaction back")]
    LeaseLost,
    /// The output is too large to be stored.
    #[error(
        "the output is {bytes} bytes of JSON, at most {MAX_RESULT} are stored; complete with a reference to it"
    )]
    TooLarge {
        /// Its size.
        bytes: usize,
    },
    /// The output can't be written as JSON.
    #[error("the output can't be written as JSON: {0}")]
    Unwritable(#[source] Arc<serde_json::Error>),
    /// No worker runs this job: its function was called with a context that was made by hand.
    #[error("no worker runs this job, so there is nothing to complete")]
    NoWorker,
    /// The storage did not take it: [`StoreError::OtherDatabase`] where the transaction is not on the queue's file,
    /// [`StoreError::NoTransactions`] where the store has none.
    #[error(transparent)]
    Store(#[from] StoreError),
}
