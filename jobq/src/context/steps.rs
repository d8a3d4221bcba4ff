//! Steps: what a job does once, its result recorded before it goes on, and given again to its later attempts.

use super::{JobContext, Office, parked::block_on};
use crate::{
    job::{JobError, MAX_NAME, MAX_RESULT, MAX_STEPS},
    retry::trouble_wait,
    store::{Answer, NewStep, Recorded, StoreError},
};
use serde::{Serialize, de::DeserializeOwned};
use std::{
    collections::BTreeSet,
    error::Error,
    future::{Future, ready},
    sync::{Mutex, MutexGuard, PoisonError},
};

/// The names of the steps that were taken in this attempt, and of those that are under way.
#[derive(Debug, Default)]
pub(super) struct Names(Mutex<BTreeSet<String>>);

impl Names {
    fn lock(&self) -> MutexGuard<'_, BTreeSet<String>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A name is used once in an attempt: a second step of that name would silently be given what the first one gave.
    fn take<'a>(&'a self, name: &'a str) -> Result<Turn<'a>, StepError> {
        let told = || name.chars().take(MAX_NAME).collect();
        if name.is_empty() || name.len() > MAX_NAME || name.contains('\0') {
            return Err(StepError::Name { name: told() });
        }
        let mut names = self.lock();
        if names.contains(name) {
            return Err(StepError::Taken { name: told() });
        }
        if names.len() >= MAX_STEPS {
            return Err(StepError::TooMany { name: told() });
        }
        names.insert(name.to_owned());
        Ok(Turn { names: self, name, taken: false })
    }
}

/// A step under way; its name is free again when it comes to nothing.
struct Turn<'a> {
    names: &'a Names,
    name: &'a str,
    taken: bool,
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        if !self.taken {
            self.names.lock().remove(self.name);
        }
    }
}

impl JobContext {
    /// Runs `step` once for this job, however often the job is tried: its result is recorded under `name` before this
    /// returns, and given again to later attempts, which do not run it. A step that fails, panics or is dropped is not
    /// recorded, and runs again.
    ///
    /// What is recorded survives the process; a step whose process dies between its effect and the record runs again, so
    /// an effect outside should bear that, by an idempotency key made of the job's [`id`](Self::id), for example. The
    /// result goes through JSON in any case, so that all attempts are given the same. Steps stay when a person retries a
    /// dead or cancelled job; a completed one begins anew. In a `blocking` job it is
    /// [`blocking_step`](Self::blocking_step).
    ///
    /// ```
    /// # use jobq::prelude::*;
    /// # async fn charge(order: u64) -> std::io::Result<u64> { Ok(order) }
    /// # async fn ship(receipt: u64) -> std::io::Result<()> { Ok(()) }
    /// #[job]
    /// async fn fulfil(ctx: &JobContext, order: u64) -> Result<(), JobError> {
    ///     let receipt = ctx.step("charge", || async { Ok(charge(order).await?) }).await?;
    ///     ship(receipt).await?; // tried again without charging again
    ///     Ok(())
    /// }
    /// ```
    ///
    /// # Errors
    /// [`StepError`]; with `?` it becomes a [`JobError`], and [`StepError::Failed`] keeps what the step's own error says
    /// about further attempts. Trouble of the store is waited out.
    ///
    /// # Cancel safety
    /// Dropped while `step` runs, nothing is recorded. Dropped while the result is recorded, it is recorded, and later
    /// attempts are given it; in this attempt the name stays taken.
    pub async fn step<T, F, S>(&self, name: &str, step: F) -> Result<T, StepError>
    where
        T: Serialize + DeserializeOwned,
        F: FnOnce() -> S,
        S: Future<Output = Result<T, JobError>>,
    {
        let mut turn = self.0.steps.take(name)?;
        if let Some(json) = self.recorded(name).await? {
            turn.taken = true;
            let undecodable = |source| StepError::Undecodable { name: name.to_owned(), source };
            return serde_json::from_str(&json).map_err(undecodable);
        }
        let result = step().await;
        let result = result.map_err(|error| StepError::Failed {
            name: name.to_owned(),
            source: Box::new(error.into_error()),
        })?;
        let (json, again) = through_json(name, result)?;
        turn.taken = true;
        self.record(name, json).await?;
        Ok(again)
    }

    /// [`step`](Self::step) for `blocking` jobs: waits on its thread.
    ///
    /// ```
    /// # use jobq::prelude::*;
    /// # fn charge(order: u64) -> std::io::Result<u64> { Ok(order) }
    /// #[job(blocking)]
    /// fn fulfil(ctx: &JobContext, order: u64) -> Result<u64, JobError> {
    ///     let receipt = ctx.blocking_step("charge", || Ok(charge(order)?))?;
    ///     Ok(receipt)
    /// }
    /// ```
    ///
    /// # Errors
    /// As [`step`](Self::step).
    pub fn blocking_step<T, F>(&self, name: &str, step: F) -> Result<T, StepError>
    where
        T: Serialize + DeserializeOwned,
        F: FnOnce() -> Result<T, JobError>,
    {
        block_on(self.step(name, || ready(step())))
    }

    /// What an earlier attempt has recorded.
    async fn recorded(&self, name: &str) -> Result<Option<String>, StepError> {
        // Leases count claims and never start again: before the first attempt there was none.
        let Some(office) = self.0.office.as_ref().filter(|_| self.lease() > 1) else { return Ok(None) };
        let read = answered(office, || office.store.step(self.id(), name.to_owned()));
        read.await.map_err(|source| StepError::Store { name: name.to_owned(), source })
    }

    async fn record(&self, name: &str, result: String) -> Result<(), StepError> {
        let Some(office) = &self.0.office else { return Ok(()) };
        let step =
            NewStep { id: self.id(), lease: self.lease(), name: name.to_owned(), result, most: MAX_STEPS };
        let name = name.to_owned();
        match answered(office, || office.store.record_step(step.clone(), office.clock.now())).await {
            // Recorded before is recorded by this call: a try whose answer was lost.
            Ok(Recorded::Stored | Recorded::Before) => Ok(()),
            Ok(Recorded::LeaseLost) => Err(StepError::LeaseLost { name }),
            Ok(Recorded::Full) => Err(StepError::TooMany { name }),
            Err(source) => Err(StepError::Store { name, source }),
        }
    }
}

/// The result as it is recorded, and as it will be read.
fn through_json<T: Serialize + DeserializeOwned>(name: &str, result: T) -> Result<(String, T), StepError> {
    let unstorable = |source| StepError::Unstorable { name: name.to_owned(), source };
    let json = serde_json::to_string(&result).map_err(unstorable)?;
    if json.len() > MAX_RESULT {
        return Err(StepError::TooLarge { name: name.to_owned(), bytes: json.len() });
    }
    let again = serde_json::from_str(&json).map_err(unstorable)?;
    Ok((json, again))
}

/// Waits out trouble of the store: by now the step has run, and to give up would be to run it again.
async fn answered<'a, T>(office: &'a Office, ask: impl Fn() -> Answer<'a, T>) -> Result<T, StoreError> {
    let mut failures = 0;
    loop {
        match ask().await {
            Err(error) if error.is_transient() => {
                failures += 1;
                office.clock.sleep(trouble_wait(failures)).await;
            }
            answer => return answer,
        }
    }
}

/// Why a step gave no result. It becomes a [`JobError`] with `?`.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StepError {
    /// The step returned an error; nothing was recorded.
    #[error("step {name:?} failed")]
    Failed {
        /// The step.
        name: String,
        /// Its error; what it says about further attempts holds for the job.
        source: Box<dyn Error + Send + Sync>,
    },
    /// No step can have this name. It did not run.
    #[error("a step can't be named {name:?}: a name is 1 to {MAX_NAME} bytes of text")]
    Name {
        /// The name, cut.
        name: String,
    },
    /// A step of this name was taken before in this attempt, or is under way in it. It did not run.
    #[error(
        "there was a step {name:?} in this attempt already, and a step runs once for a job: put what differs into the \
         name, such as \"{name} 17\""
    )]
    Taken {
        /// The step.
        name: String,
    },
    /// The job has as many steps as it may have. It was not recorded.
    #[error(
        "step {name:?} is one too many, a job has at most {MAX_STEPS}: do more in each, or make jobs of them"
    )]
    TooMany {
        /// The step.
        name: String,
    },
    /// The step ran, and its result is too large to be recorded.
    #[error(
        "the result of step {name:?} is {bytes} bytes of JSON, at most {MAX_RESULT} are stored: return less, or a \
         reference to it"
    )]
    TooLarge {
        /// The step.
        name: String,
        /// The size of its result.
        bytes: usize,
    },
    /// The step ran, and its result can't be written as JSON, or not be read back from it.
    #[error("the result of step {name:?} can't be stored as JSON and read back")]
    Unstorable {
        /// The step.
        name: String,
        /// Why.
        source: serde_json::Error,
    },
    /// What an earlier attempt recorded is not what this build takes. The step did not run.
    #[error(
        "what step {name:?} gave in an earlier attempt can't be read by this build: read both forms, or give the step \
         another name, such as \"{name} v2\", and it runs again"
    )]
    Undecodable {
        /// The step.
        name: String,
        /// Why.
        source: serde_json::Error,
    },
    /// The step ran, and meanwhile the job has gone to another worker: nothing was recorded.
    #[error("step {name:?} was not recorded: the job was given to another worker meanwhile")]
    LeaseLost {
        /// The step.
        name: String,
    },
    /// The store failed so that waiting does not mend it.
    #[error("step {name:?} could not be read or recorded")]
    Store {
        /// The step.
        name: String,
        /// Why.
        source: StoreError,
    },
}
