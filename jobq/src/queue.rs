//! JobQueue: the one door for applications, admin and command line.
//!
//! A [`JobQueue`] is a handle to the jobs in one store. Enqueueing lives in [`enqueue`](crate::enqueue), running in
//! [`worker`](crate::worker); everything that people do to jobs (look, cancel, retry, delete) is here.
//!
//! # Where the words of other queues live
//!
//! | Elsewhere | Here |
//! |---|---|
//! | `enqueue(type, payload, opts)` | `send_mail.enqueue(args)`, [`JobQueue::enqueue`], by name [`JobQueue::enqueue_raw`] |
//! | `opts.runAt`, `opts.priority`, `opts.maxAttempts` | [`run_at`](crate::enqueue::Enqueue::run_at), [`priority`](crate::enqueue::Enqueue::priority), [`max_attempts`](crate::enqueue::Enqueue::max_attempts) on the builder |
//! | `enqueue_delayed(job, run_after)` | `.run_at(run_after)` or [`.delay(duration)`](crate::enqueue::Enqueue::delay) on the builder |
//! | `start()` | [`Worker::start`](crate::worker::Worker::start), or [`run`](crate::worker::Worker::run) until a signal |
//! | `pause()`, `resume()` | [`pause`](crate::worker::WorkerHandle::pause), [`resume`](crate::worker::WorkerHandle::resume) on the handle that `start` gives; for all workers: [`JobQueue::pause_queue`], [`JobQueue::pause_type`] |
//! | `waitForActive(timeoutMs)` | [`wait_for_active(timeout)`](crate::worker::WorkerHandle::wait_for_active) on the same handle |
//! | `dequeue(limit)` | [`Store::claim`], called by the worker; each claim gives a lease |
//! | `complete(id)` | [`Store::complete`], from a job function's `Ok`; fenced by the lease |
//! | `fail(id, error)` | [`Store::fail`], from a job function's `Err`, panic or time-out |
//! | `dead(id, error)` | [`JobError::dead`](crate::job::JobError::dead) in the job function, or the last attempt failed |
//! | `retry_count(status)` | [`JobQueue::counts`]; attempts of one job: [`JobRow::attempts`], [`JobQueue::attempts`] |
//! | `JobEnqueuer::spawn(&eventbus, queue)` | [`queue.emit(event)`](JobQueue::emit); for a bus that is there: [`queue.bus().forward(receiver)`](crate::event::EventBus::forward) |
//! | a cron-driven `queue_worker` | [`Worker::drain`](crate::worker::Worker::drain) |

use crate::{
    job::{Attempt, JobId, JobRow, Lease, MAX_NAME, OutputLine},
    registry::RegistryError,
    secret::{OpenError, SecretKeys},
    state::{Edge, JobState},
    store::{Acted, Count, JobFilter, Retention, Step, Store, StoreError},
    time::{Clock, Millis},
};
use std::{
    any::{Any, TypeId},
    collections::HashMap,
    fmt,
    sync::{Arc, Mutex, PoisonError},
};

mod current;
mod limiting;
mod open;
mod pausing;
mod results;
mod secrets;
mod subscriptions;

pub(crate) use current::worker_here;
pub use current::{NoQueue, spawn};
use open::Settings;
pub(crate) use open::environment;
pub use open::{EnvError, JobQueueOptions};
pub use pausing::Pausing;
use results::Lobby;
pub use results::{Wait, WaitError};
pub(crate) use secrets::redacted;

/// A handle to a queue of jobs in a store. Cloning it is cheap and gives the same queue.
#[derive(Clone)]
pub struct JobQueue(Arc<Inner>);

struct Inner {
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    settings: Settings,
    keys: Option<Arc<SecretKeys>>,
    lobby: Arc<Lobby>,
    attached: Attached,
}

/// What rooms above keep with a queue.
type Attached = Mutex<HashMap<TypeId, Arc<dyn Any + Send + Sync>>>;

impl JobQueue {
    /// A queue on any store, with the default settings.
    pub fn with_store(store: Arc<dyn Store>, clock: Arc<dyn Clock>) -> Self {
        let settings = Settings::default();
        Self::of(store, clock, settings, None)
    }

    fn of(
        store: Arc<dyn Store>,
        clock: Arc<dyn Clock>,
        settings: Settings,
        keys: Option<SecretKeys>,
    ) -> Self {
        let (keys, lobby, attached) = (keys.map(Arc::new), Arc::default(), Attached::default());
        Self(Arc::new(Inner { store, clock, settings, keys, lobby, attached }))
    }

    /// Settings for a queue that is to be opened.
    pub fn options() -> JobQueueOptions {
        JobQueueOptions::default()
    }

    /// The storage.
    pub fn store(&self) -> &Arc<dyn Store> {
        &self.0.store
    }

    /// Where this queue takes the time from.
    pub fn clock(&self) -> &Arc<dyn Clock> {
        &self.0.clock
    }

    /// What the storage is, for logs and errors: kind, full path, versions, durability.
    pub fn describe(&self) -> String {
        self.0.store.describe()
    }

    /// Counted starts at most, for jobs whose enqueue and type say nothing. It acts at the enqueue.
    pub fn default_max_attempts(&self) -> u32 {
        self.0.settings.default_max_attempts
    }

    /// How long finished jobs are kept where their row says nothing.
    pub fn retention(&self) -> Retention {
        self.0.settings.retention
    }

    /// What a room above keeps with this queue and all its clones: one value of each type, made when it is first asked
    /// for.
    pub(crate) fn attached<T: Any + Send + Sync + Default>(&self) -> Arc<T> {
        let mut attached = self.0.attached.lock().unwrap_or_else(PoisonError::into_inner);
        let kept = attached.entry(TypeId::of::<T>()).or_insert_with(|| Arc::new(T::default())).clone();
        drop(attached);
        kept.downcast().unwrap_or_default()
    }

    pub(crate) fn now(&self) -> Millis {
        self.0.clock.now()
    }
}

impl fmt::Debug for JobQueue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("JobQueue").field(&self.describe()).finish()
    }
}

/// Whether a queue can have this name.
pub(crate) fn check_queue_name(name: &str) -> Result<(), BadName> {
    let why = if name.is_empty() {
        "it is empty"
    } else if name.len() > MAX_NAME {
        "it is longer than 64 bytes"
    } else if name.chars().any(char::is_control) {
        "it has a control character in it"
    } else if name.trim() != name {
        "it begins or ends with white space"
    } else {
        return Ok(());
    };
    let name = name.chars().take(MAX_NAME).collect();
    Err(BadName { name, why })
}

/// A name that no queue can have.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{name:?} can't be the name of a queue: {why}; a name such as \"mail\" is meant")]
pub struct BadName {
    /// The name, cut to 64 characters.
    pub name: String,
    /// What is wrong with it.
    pub why: &'static str,
}

// ---- what people do to jobs ------------------------------------------------------------------------------------

impl JobQueue {
    /// Reads one job, named by its id or its handle; `None` where there is none of this id. In the place of each
    /// `#[secret]` parameter its payload has `"[redacted]"`; [`reveal`](Self::reveal) shows them.
    ///
    /// # Errors
    /// [`QueueError::Store`], as every method here where the storage fails.
    pub async fn get(&self, job: impl Into<JobId>) -> Result<Option<JobRow>, QueueError> {
        Ok(self.0.store.get(job.into()).await?.map(redacted))
    }

    /// Reads the attempts of one job, first to latest; empty for an unknown job.
    ///
    /// # Errors
    /// [`QueueError::Store`].
    pub async fn attempts(&self, job: impl Into<JobId>) -> Result<Vec<Attempt>, QueueError> {
        Ok(self.0.store.attempts(job.into()).await?)
    }

    /// Reads what one job wrote while it ran, page by page, first to latest, through all attempts whose output is kept;
    /// nothing for an unknown job.
    ///
    /// ```
    /// # async fn show(queue: jobq::JobQueue, id: jobq::JobId) -> Result<(), jobq::QueueError> {
    /// let mut output = queue.output(id);
    /// while let Some(lines) = output.next().await? {
    ///     for line in lines {
    ///         println!("{} {}", line.level, line.text);
    ///     }
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn output(&self, job: impl Into<JobId>) -> OutputPages {
        OutputPages { queue: self.clone(), id: job.into(), after: None }
    }

    /// Reads which steps one job has taken, in the order of their time; empty for an unknown job.
    ///
    /// # Errors
    /// [`QueueError::Store`].
    pub async fn steps(&self, job: impl Into<JobId>) -> Result<Vec<Step>, QueueError> {
        Ok(self.0.store.steps(job.into()).await?)
    }

    /// Reads one page of jobs, newest first, without their secrets: see [`get`](Self::get).
    ///
    /// # Errors
    /// [`QueueError::Store`].
    pub async fn list(&self, filter: JobFilter) -> Result<Vec<JobRow>, QueueError> {
        let rows = self.0.store.list(filter).await?;
        Ok(rows.into_iter().map(redacted).collect())
    }

    /// Reads all jobs of the filter, page by page, newest first; a job that stays is never missed and never given
    /// twice, whatever is added or deleted meanwhile.
    pub fn pages(&self, filter: JobFilter) -> Pages {
        Pages { queue: self.clone(), filter, ended: false, reveals: false }
    }

    /// The same with the payloads as functions take them, for tests.
    pub(crate) fn revealed_pages(&self, filter: JobFilter) -> Pages {
        Pages { reveals: true, ..self.pages(filter) }
    }

    /// Counts the jobs of each (queue, job_type, state); empty groups are left out.
    ///
    /// # Errors
    /// [`QueueError::Store`].
    pub async fn counts(&self) -> Result<Vec<Count>, QueueError> {
        Ok(self.0.store.counts().await?)
    }

    /// Deletes finished jobs older than their retention, in short transactions, and says how many. Workers do it by
    /// themselves.
    ///
    /// # Errors
    /// [`QueueError::Store`]; what was deleted before stays deleted.
    ///
    /// # Cancel safety
    /// What was deleted stays deleted, what was not begun is left to the next prune.
    pub async fn prune(&self) -> Result<usize, QueueError> {
        Ok(self.0.store.prune(self.retention(), self.now()).await?)
    }
}

/// Each act comes for one job, where a refusal is an error, and for many, with an answer for each in the order given.
macro_rules! acts {
    ($($(#[$doc:meta])* $edge:ident $one:ident $(#[$docs:meta])* $many:ident;)*) => {
        impl JobQueue { $(
            $(#[$doc])*
            ///
            /// # Errors
            /// [`QueueError::NotFound`]: no such job. [`QueueError::WrongState`]: the job is in another state, and
            /// untouched. [`QueueError::Store`]: as it says.
            ///
            /// # Cancel safety
            /// Dropping it loses the answer, and neither undoes nor half-does the act.
            pub async fn $one(&self, job: impl Into<JobId>) -> Result<(), QueueError> {
                let id = job.into();
                let acted = self.0.store.$one(vec![id], self.now()).await?;
                match acted.first() {
                    Some(Acted::Done | Acted::Asked) => Ok(()),
                    Some(&Acted::WrongState(state)) => Err(QueueError::WrongState { id, state, edge: Edge::$edge }),
                    Some(&Acted::KeyHeld(holder)) => Err(QueueError::KeyHeld { id, holder }),
                    Some(Acted::NotFound) | None => Err(QueueError::NotFound { id }),
                }
            }

            $(#[$docs])*
            ///
            /// # Errors
            /// [`QueueError::Store`]; a job that can't is an answer, not an error.
            ///
            /// # Cancel safety
            /// Dropping it loses the answers, and neither undoes nor half-does the acts.
            pub async fn $many(&self, jobs: impl IntoIterator<Item = impl Into<JobId>>) -> Result<Vec<Acted>, QueueError> {
                let ids = jobs.into_iter().map(Into::into).collect();
                Ok(self.0.store.$one(ids, self.now()).await?)
            }
        )* }
    };
}

impl JobQueue {
    /// Takes a job back: one that waits is cancelled and never runs, [`Acted::Done`].
    ///
    /// Of a running one its worker is asked, whatever process it is in: [`Acted::Asked`]. It hears of it within a second;
    /// then `ctx.cancelled()` fires, and a handler that has not ended after the worker's
    /// [`cancel_grace`](crate::worker::Worker::cancel_grace) is dropped where it awaits. The job is cancelled when the
    /// attempt has ended, however it did; only where it completed before it heard of it, or all the same, it is completed.
    ///
    /// # Errors
    /// [`QueueError::NotFound`]: no such job. [`QueueError::WrongState`]: the job has ended, and is untouched.
    /// [`QueueError::Store`]: as it says.
    ///
    /// # Cancel safety
    /// Dropping it loses the answer, and neither undoes nor half-does the act.
    pub async fn cancel(&self, job: impl Into<JobId>) -> Result<Acted, QueueError> {
        let id = job.into();
        let acted = self.0.store.cancel(vec![id], self.now()).await?;
        match acted.first() {
            Some(&acted @ (Acted::Done | Acted::Asked)) => Ok(acted),
            Some(&Acted::WrongState(state)) => Err(QueueError::WrongState { id, state, edge: Edge::Cancel }),
            Some(&Acted::KeyHeld(holder)) => Err(QueueError::KeyHeld { id, holder }),
            Some(Acted::NotFound) | None => Err(QueueError::NotFound { id }),
        }
    }

    /// Takes jobs back, each as [`cancel`](Self::cancel) does, with an answer for each in the order given.
    ///
    /// # Errors
    /// [`QueueError::Store`]; a job that can't is an answer, not an error.
    ///
    /// # Cancel safety
    /// Dropping it loses the answers, and neither undoes nor half-does the acts.
    pub async fn cancel_all(
        &self,
        jobs: impl IntoIterator<Item = impl Into<JobId>>,
    ) -> Result<Vec<Acted>, QueueError> {
        let ids = jobs.into_iter().map(Into::into).collect();
        Ok(self.0.store.cancel(ids, self.now()).await?)
    }
}

acts! {
    /// Runs a job again that has ended: dead, cancelled or completed → pending; attempts start at 0 again, the history
    /// stays, and so do the steps that it has taken, but of a completed job. Not where another job holds its unique key:
    /// [`QueueError::KeyHeld`].
    Retry retry
    /// Runs jobs again that have ended: dead, cancelled or completed → pending.
    retry_all;

    /// Runs a job before its time: scheduled → pending.
    RunNow run_now
    /// Runs jobs before their time: scheduled → pending.
    run_now_all;

    /// Deletes a job that has ended, with history and output.
    Delete delete
    /// Deletes jobs that have ended, with history and output.
    delete_all;
}

/// All jobs of a filter, page by page: [`JobQueue::pages`].
#[derive(Debug)]
pub struct Pages {
    queue: JobQueue,
    filter: JobFilter,
    ended: bool,
    reveals: bool,
}

impl Pages {
    /// The next page, newest jobs first; `None` after the last one.
    ///
    /// # Errors
    /// [`QueueError::Store`]; the next call tries the same page again.
    pub async fn next(&mut self) -> Result<Option<Vec<JobRow>>, QueueError> {
        if self.ended {
            return Ok(None);
        }
        let page = match self.reveals {
            false => self.queue.list(self.filter.clone()).await?,
            true => self.queue.list_opened(self.filter.clone()).await?,
        };
        self.ended = page.len() < self.filter.page();
        self.filter.after = page.last().map(|job| job.id).or(self.filter.after);
        Ok((!page.is_empty()).then_some(page))
    }
}

/// The output of a job, page by page: [`JobQueue::output`].
#[derive(Debug)]
pub struct OutputPages {
    queue: JobQueue,
    id: JobId,
    after: Option<(Lease, i64)>,
}

impl OutputPages {
    /// The lines of a page.
    const PAGE: usize = 1000;

    /// Begins after the line at this [place](OutputLine::place) instead of with the first one.
    pub fn after(mut self, place: (Lease, i64)) -> Self {
        self.after = Some(place);
        self
    }

    /// The next lines, 1,000 at most; `None` where there are no more for now. Asked again later, it gives what was
    /// written meanwhile.
    ///
    /// # Errors
    /// [`QueueError::Store`]; the next call tries the same page again.
    pub async fn next(&mut self) -> Result<Option<Vec<OutputLine>>, QueueError> {
        let page = self.queue.store().output(self.id, self.after, Self::PAGE).await?;
        self.after = page.last().map(OutputLine::place).or(self.after);
        Ok((!page.is_empty()).then_some(page))
    }
}

/// What a queue can answer instead of doing what it was asked.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum QueueError {
    /// No such job: it never was in this queue, or it was deleted.
    #[error("there is no job {id} in this queue")]
    NotFound {
        /// The job.
        id: JobId,
    },
    /// The job is in a state that the act can't leave; it is untouched.
    #[error("job {id} is {state}; only {} jobs can {}", either(JobState::left_by(*edge)), verb(*edge))]
    WrongState {
        /// The job.
        id: JobId,
        /// Where it stands.
        state: JobState,
        /// The act.
        edge: Edge,
    },
    /// Another job holds the job's unique key; it is untouched.
    #[error(
        "job {id} can't be retried: job {holder} holds its unique key; it has to end, or be cancelled, first"
    )]
    KeyHeld {
        /// The job.
        id: JobId,
        /// Who holds its key.
        holder: JobId,
    },
    /// A setting can't be used.
    #[error("{0}")]
    Settings(String),
    /// A secret is sealed with a key that is not here.
    #[error(transparent)]
    Sealed(#[from] OpenError),
    /// An environment variable can't be used.
    #[error(transparent)]
    Env(#[from] EnvError),
    /// The linked jobs can't be told apart.
    #[error(transparent)]
    Registry(#[from] RegistryError),
    /// The storage failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

fn either(states: &[JobState]) -> String {
    match states {
        [] => String::new(),
        [one] => one.to_string(),
        [first @ .., last] => {
            let first: Vec<_> = first.iter().map(|state| state.as_str()).collect();
            format!("{} or {last}", first.join(", "))
        }
    }
}

fn verb(edge: Edge) -> &'static str {
    match edge {
        Edge::Promote => "be promoted",
        Edge::Claim => "be claimed",
        Edge::Complete => "complete",
        Edge::Fail => "fail",
        Edge::Snooze => "be snoozed",
        Edge::Release => "be released",
        Edge::Rescue => "be rescued",
        Edge::Cancel => "be cancelled",
        Edge::Retry => "be retried",
        Edge::RunNow => "be run before their time",
        Edge::Delete => "be deleted",
    }
}
