//! The Enqueue builder, JobHandle, and JobFn: how a job function gets its `enqueue`.
//!
//! A job function is enqueued with its arguments, a payload with its named fields; both give the same builder, and
//! awaiting it stores the job:
//!
//! ```standalone_crate
//! use jobq::prelude::*;
//! use serde_json::json;
//!
//! #[job(type = "report:generate", queue = "reports")]
//! async fn generate_report(year: i32, title: String) -> Result<(), JobError> {
//!     println!("{title}: {year}");
//!     Ok(())
//! }
//!
//! # use std::sync::Arc;
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let store = Arc::new(jobq::MemoryStore::new());
//! # let queue = JobQueue::with_store(store, Arc::new(jobq::SystemClock));
//! queue.install();
//! generate_report.enqueue((2026, "Sales".into())).priority(9).delay(mins(5)).await?;
//! GenerateReport { year: 2026, title: "Costs".into() }.enqueue().label("Costs of 2026").await?;
//! queue.enqueue_all((1990..2026).map(|year| GenerateReport { year, title: "Sales".into() })).await?;
//! queue.enqueue_raw("report:generate", json!({ "year": 2026, "title": "Staff" })).await?;
//! # let jobs: u64 = queue.counts().await?.iter().map(|count| count.count).sum();
//! # assert_eq!(jobs, 39);
//! # Ok(()) }
//! ```

use crate::{
    job::{Job, JobId, MAX_PAYLOAD, NewJob},
    queue::{BadName, JobQueue, NoQueue},
    registry::{DecodeError, RegistryError},
    store::{Enqueued, StoreError, Tx},
    time::Millis,
};
use std::{future::Future, pin::Pin, sync::Arc};

mod function;
mod handle;
mod link;
mod many;
mod options;
mod raw;
#[cfg(feature = "cron")]
mod schedule;

pub use function::{Call, CallJob, EnqueueExt, JobFn, JobSet};
pub use handle::JobHandle;
pub use link::{Follows, JobLink, LinkExt};
pub use many::{EnqueueAll, EnqueueAllError};
pub(crate) use options::Options;
use options::fill;
pub use raw::EnqueueRaw;
pub(crate) use raw::job_of;
#[cfg(feature = "cron")]
pub(crate) use schedule::tick_job;
#[cfg(feature = "cron")]
pub use schedule::{Schedule, ScheduleError};

/// An enqueue under way.
pub type Enqueuing<'t, T, E = EnqueueError> = Pin<Box<dyn Future<Output = Result<T, E>> + Send + 't>>;

/// A job on its way into a queue. Awaiting it stores the job; dropping it before stores nothing.
///
/// `'t` is the life of the transaction where [`in_tx`](Self::in_tx) gave one.
///
/// # Errors
/// Awaiting it gives an [`EnqueueError`]; then nothing is stored.
///
/// # Cancel safety
/// Dropping it while it is awaited loses the answer only: the job is stored whole or not at all.
#[must_use = "an enqueue does nothing until it is awaited"]
pub struct Enqueue<'t, J: Job> {
    job: J,
    options: Options,
    tx: Option<Tx<'t>>,
}

impl<'t, J: Job> Enqueue<'t, J> {
    fn new(job: J) -> Self {
        Self { job, options: Options::default(), tx: None }
    }

    pub(crate) fn into_parts(self) -> (J, Options, Option<Tx<'t>>) {
        (self.job, self.options, self.tx)
    }

    /// Enqueues inside the caller's own transaction on the same database: the job is there when it commits, and never
    /// there when it does not. It is as durable as that connection's commits are.
    pub fn in_tx<'u>(self, tx: impl Into<Tx<'u>>) -> Enqueue<'u, J> {
        Enqueue { job: self.job, options: self.options, tx: Some(tx.into()) }
    }
}

impl<'t, J: Job> IntoFuture for Enqueue<'t, J> {
    type Output = Result<JobHandle<J>, EnqueueError>;
    type IntoFuture = Enqueuing<'t, JobHandle<J>>;

    fn into_future(self) -> Self::IntoFuture {
        let Self { job, mut options, tx } = self;
        Box::pin(async move {
            let queue = options.target()?;
            let now = queue.now();
            let new = fill(&options.template(J::TYPE, &J::DEFAULTS, &queue, now)?, &job)?;
            drop(job);
            let enqueued = only(store(&queue, vec![new], now, tx).await?)?;
            Ok(JobHandle::new(queue, enqueued))
        })
    }
}

/// The job that the end of another one brings with it, with the options of its type, but never unique: it is one for
/// each end, whatever is there already.
pub(crate) fn brought<J: Job>(job: &J, max_attempts: u32) -> Result<NewJob, EnqueueError> {
    fill(&Options::default().not_unique().template_of(J::TYPE, &J::DEFAULTS, max_attempts, 0)?, job)
}

/// A job of a flow, with these options and else those of its type, but never unique: a flow has all of its jobs.
pub(crate) fn made<J: Job>(
    job: &J,
    options: Options,
    queue: &JobQueue,
    now: Millis,
) -> Result<NewJob, EnqueueError> {
    fill(&options.not_unique().template(J::TYPE, &J::DEFAULTS, queue, now)?, job)
}

pub(crate) async fn store(
    queue: &JobQueue,
    mut jobs: Vec<NewJob>,
    now: Millis,
    tx: Option<Tx<'_>>,
) -> Result<Vec<Enqueued>, StoreError> {
    queue.seal(&mut jobs)?;
    match tx {
        Some(tx) => queue.store().enqueue_in(tx, jobs, now).await,
        None => queue.store().enqueue(jobs, now).await,
    }
}

/// What became of the one job.
fn only(enqueued: Vec<Enqueued>) -> Result<Enqueued, StoreError> {
    enqueued
        .first()
        .copied()
        .ok_or_else(|| StoreError::Invalid("the store took the job and gave no answer".into()))
}

impl JobQueue {
    /// Starts to enqueue a job in this queue; awaiting the builder stores it.
    pub fn enqueue<J: Job>(&self, job: J) -> Enqueue<'static, J> {
        Enqueue::new(job).on(self)
    }

    /// Starts to enqueue many jobs of one type in this queue; awaiting the builder stores them, in the order given.
    pub fn enqueue_all<J: Job>(&self, jobs: impl IntoIterator<Item = J>) -> EnqueueAll<'static, J> {
        EnqueueAll::new(jobs.into_iter().collect(), Options::on(self))
    }

    /// Starts to enqueue a job by its stored name (or an alias) in this queue; awaiting the builder stores it.
    ///
    /// The type must be linked into this program, and the payload must be one that its function takes.
    pub fn enqueue_raw(
        &self,
        job_type: impl Into<String>,
        payload: serde_json::Value,
    ) -> EnqueueRaw<'static> {
        EnqueueRaw::new(job_type.into(), payload, Options::on(self))
    }
}

/// Why a job was not enqueued. Nothing was stored.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EnqueueError {
    /// No queue is meant where none is named.
    #[error(transparent)]
    NoQueue(#[from] NoQueue),
    /// The queue's name can't be used.
    #[error(transparent)]
    BadQueueName(#[from] BadName),
    /// The job would never run.
    #[error("max_attempts is 0, and such a job never runs; 1 means one run and no retry")]
    NoAttempts,
    /// No attempt could succeed.
    #[error("the timeout is zero, and no attempt can be that fast; for none write `Timeout::Never`")]
    NoTime,
    /// The backoff can't be used.
    #[error("the backoff can't be used: {0}")]
    BadBackoff(String),
    /// The unique key, or its rules, can't be used.
    #[error("the unique key can't be used: {0}")]
    BadUnique(String),
    /// Another job holds the unique key, and the job is to be rejected then.
    #[error(
        "{} has the unique key {key:?} already; nothing was enqueued",
        existing.map_or("an earlier job of the same call".into(), |id| format!("job {id}"))
    )]
    Duplicate {
        /// The key.
        key: String,
        /// Who holds it; `None`: an earlier job of the same call.
        existing: Option<JobId>,
    },
    /// The payload is too large.
    #[error(
        "the payload of `{job_type}` is {bytes} bytes of JSON, at most {MAX_PAYLOAD} are taken; store the content \
         elsewhere and enqueue where it is"
    )]
    TooLarge {
        /// The stored name.
        job_type: &'static str,
        /// Its size.
        bytes: usize,
    },
    /// The payload can't be written as JSON.
    #[error("the payload of `{job_type}` can't be written as JSON: {why}")]
    Unwritable {
        /// The stored name.
        job_type: &'static str,
        /// What serde says.
        why: Arc<serde_json::Error>,
    },
    /// The payload's JSON can't be read back: no attempt could run.
    #[error(
        "the payload of `{job_type}` can't be read back from its JSON: {why}; NaN and infinities have no JSON and become \
         `null`"
    )]
    Unreadable {
        /// The stored name.
        job_type: &'static str,
        /// What serde says.
        why: Arc<serde_json::Error>,
    },
    /// A payload given as JSON is not what the job function takes.
    #[error(transparent)]
    Unfit(Arc<DecodeError>),
    /// No job of this name is linked into this program.
    #[error("no job `{job_type}` in this program{} It knows {}", hint(job_type, known), listed(known))]
    UnknownType {
        /// The name that was asked for.
        job_type: String,
        /// The stored names of all linked jobs.
        known: Vec<&'static str>,
    },
    /// The linked jobs can't be told apart.
    #[error(transparent)]
    Registry(#[from] RegistryError),
    /// The storage did not take it.
    #[error(transparent)]
    Store(StoreError),
}

impl From<StoreError> for EnqueueError {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Duplicate { key, existing, .. } => Self::Duplicate { key, existing },
            error => Self::Store(error),
        }
    }
}

/// What may be wrong with a name that no job has.
fn hint(job_type: &str, known: &[&'static str]) -> String {
    let near = known.iter().map(|known| (strsim::jaro_winkler(job_type, known), known));
    let near = near.filter(|(likeness, _)| *likeness > 0.8).max_by(|a, b| a.0.total_cmp(&b.0));
    let meant = near.map(|(_, known)| format!("; did you mean `{known}`?")).unwrap_or_default();
    let or = if meant.is_empty() { "; is" } else { " Or is" };
    format!("{meant}{or} the crate that has it named anywhere in this program, as in `use that_crate as _`?")
}

fn listed(known: &[&'static str]) -> String {
    if known.is_empty() { "none".to_owned() } else { known.join(", ") }
}
