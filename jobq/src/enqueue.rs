//! The Enqueue builder, JobHandle, and JobFn: how a job function gets its `enqueue`.
//!
//! A job function is enqueued with its arguments, a payload with its named fields; both give the same builder, and
//! awaiting it stores the job:
//!
//! ```
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
    job::{Defaults, Job, JobId, MAX_LABEL, MAX_PAYLOAD, NewJob, Timeout},
    queue::{BadName, JobQueue, NoQueue, check_queue_name},
    registry::{DecodeError, Registry, RegistryError},
    retry::Backoff,
    store::{StoreError, Tx},
    time::{Millis, millis},
};
use chrono::{DateTime, Utc};
use std::{borrow::Cow, fmt, future::Future, marker::PhantomData, pin::Pin, sync::Arc, time::Duration};

mod function;
mod many;

pub use function::{Call, EnqueueExt, JobFn, JobSet};
pub use many::{EnqueueAll, EnqueueAllError};

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
        let Self { job, options, tx } = self;
        Box::pin(async move {
            let queue = options.target()?;
            let new = fill(options.template(J::TYPE, &J::DEFAULTS, &queue, queue.now())?, &job)?;
            drop(job);
            let id = store_one(&queue, new, tx).await?;
            Ok(JobHandle { id, job: PhantomData })
        })
    }
}

/// What an enqueue says beyond the job itself; `None`: as the job type, then the queue, says.
#[derive(Clone, Debug, Default)]
struct Options {
    priority: Option<i16>,
    max_attempts: Option<u32>,
    queue: Option<Cow<'static, str>>,
    timeout: Option<Timeout>,
    backoff: Option<Backoff>,
    retain: Option<Duration>,
    label: Option<String>,
    due: Option<Due>,
    on: Option<JobQueue>,
}

#[derive(Clone, Copy, Debug)]
enum Due {
    After(Duration),
    At(Millis),
}

/// The options are the same on every builder.
macro_rules! options {
    ($([$($generics:tt)*] $builder:ty;)*) => { $(
        impl<$($generics)*> $builder {
            /// Larger runs first; any `i16`.
            pub fn priority(mut self, priority: i16) -> Self {
                self.options.priority = Some(priority);
                self
            }

            /// Counted starts at most, the first included; at least 1.
            pub fn max_attempts(mut self, max_attempts: u32) -> Self {
                self.options.max_attempts = Some(max_attempts);
                self
            }

            /// The named lane of work, such as `mail`; at most 64 bytes.
            pub fn queue(mut self, name: impl Into<Cow<'static, str>>) -> Self {
                self.options.queue = Some(name.into());
                self
            }

            /// How long one attempt may take: a duration above zero, or [`Timeout::Never`].
            pub fn timeout(mut self, timeout: impl Into<Timeout>) -> Self {
                self.options.timeout = Some(timeout.into());
                self
            }

            /// The wait between attempts, after every kind of failure.
            pub fn backoff(mut self, backoff: Backoff) -> Self {
                self.options.backoff = Some(backoff);
                self
            }

            /// How long the row is kept once the job has ended.
            pub fn retain(mut self, retain: Duration) -> Self {
                self.options.retain = Some(retain);
                self
            }

            /// A title for people; cut at 255 characters.
            pub fn label(mut self, label: impl Into<String>) -> Self {
                self.options.label = Some(label.into());
                self
            }

            /// Not before this long after the enqueue, by the queue's clock. The last of `delay` and `run_at` holds.
            pub fn delay(mut self, delay: Duration) -> Self {
                self.options.due = Some(Due::After(delay));
                self
            }

            /// Not before this instant; one in the past means now.
            pub fn run_at(mut self, at: DateTime<Utc>) -> Self {
                self.options.due = Some(Due::At(whole_millis(at)));
                self
            }

            /// The queue to enqueue in, whatever is installed or in scope.
            pub fn on(mut self, queue: &JobQueue) -> Self {
                self.options.on = Some(queue.clone());
                self
            }
        }
    )* };
}

options! {
    ['t, J: Job] Enqueue<'t, J>;
    ['t, J: Job] EnqueueAll<'t, J>;
    ['t] EnqueueRaw<'t>;
}

impl Options {
    fn on(queue: &JobQueue) -> Self {
        Self { on: Some(queue.clone()), ..Self::default() }
    }

    /// The queue that is meant.
    fn target(&self) -> Result<JobQueue, NoQueue> {
        self.on.clone().map_or_else(JobQueue::current, Ok)
    }

    /// A job of this type with everything but its own payload and label, checked.
    fn template(
        &self,
        job_type: &'static str,
        defaults: &Defaults,
        queue: &JobQueue,
        now: Millis,
    ) -> Result<NewJob, EnqueueError> {
        let name = self.queue.clone().unwrap_or(Cow::Borrowed(defaults.queue));
        check_queue_name(&name)?;
        let max_attempts = self.max_attempts.or(defaults.max_attempts);
        let timeout = self.timeout.or(defaults.timeout);
        if max_attempts == Some(0) {
            return Err(EnqueueError::NoAttempts);
        }
        if timeout == Some(Timeout::After(Duration::ZERO)) {
            return Err(EnqueueError::NoTime);
        }
        self.backoff.map_or(Ok(()), check_backoff)?;
        Ok(NewJob {
            job_type: Cow::Borrowed(job_type),
            queue: name,
            payload: String::new(),
            priority: self.priority.unwrap_or(defaults.priority),
            run_at: self.due.map(|due| due.instant(now)),
            max_attempts: max_attempts.unwrap_or_else(|| queue.default_max_attempts()),
            timeout,
            backoff: self.backoff,
            label: self.label.as_deref().map(cut_label),
            retain: self.retain.or(defaults.retain),
        })
    }
}

impl Due {
    /// Never before what was asked: parts of a millisecond are rounded up, and what is out of range is "never".
    fn instant(self, now: Millis) -> Millis {
        match self {
            Self::At(at) => at,
            Self::After(delay) => {
                now.saturating_add(millis(delay.saturating_add(Duration::from_nanos(999_999))))
            }
        }
    }
}

/// The first whole millisecond that is not before `at`.
fn whole_millis(at: DateTime<Utc>) -> Millis {
    let begun = at.timestamp_subsec_nanos() % 1_000_000 != 0;
    at.timestamp_millis().saturating_add(begun.into())
}

/// The template, filled with this payload and, unless the enqueue gave one, its label.
fn fill<J: Job>(mut new: NewJob, job: &J) -> Result<NewJob, EnqueueError> {
    let written = serde_json::to_string(job)
        .map_err(|why| EnqueueError::Unwritable { job_type: J::TYPE, why: Arc::new(why) });
    new.payload = checked_size(J::TYPE, written?)?;
    new.label = new.label.or_else(|| job.label().as_deref().map(cut_label));
    Ok(new)
}

fn checked_size(job_type: &'static str, payload: String) -> Result<String, EnqueueError> {
    match payload.len() {
        bytes if bytes > MAX_PAYLOAD => Err(EnqueueError::TooLarge { job_type, bytes }),
        _ => Ok(payload),
    }
}

/// At most [`MAX_LABEL`] characters; a cut is marked.
fn cut_label(label: &str) -> String {
    let whole = label.replace('\0', "\u{fffd}");
    match whole.char_indices().nth(MAX_LABEL) {
        None => whole,
        Some(_) => whole.chars().take(MAX_LABEL - 1).chain(['…']).collect(),
    }
}

/// Numbers that JSON can't hold, or that mean nothing, would make a row that can't be read back.
fn check_backoff(backoff: Backoff) -> Result<(), EnqueueError> {
    let (factor, jitter) = match backoff {
        Backoff::Exponential { factor, jitter, .. } => (factor, jitter),
        Backoff::Fixed { jitter, .. } => (1.0, jitter),
    };
    if !(factor.is_finite() && factor >= 1.0) {
        return Err(EnqueueError::BadBackoff(format!("its factor is {factor}; it must be at least 1")));
    }
    if !(0.0..=1.0).contains(&jitter) {
        return Err(EnqueueError::BadBackoff(format!("its jitter is {jitter}; it must be from 0 to 1")));
    }
    Ok(())
}

async fn store(queue: &JobQueue, jobs: Vec<NewJob>, tx: Option<Tx<'_>>) -> Result<Vec<JobId>, StoreError> {
    match tx {
        Some(tx) => queue.store().enqueue_in(tx, jobs, queue.now()).await,
        None => queue.store().enqueue(jobs, queue.now()).await,
    }
}

async fn store_one(queue: &JobQueue, job: NewJob, tx: Option<Tx<'_>>) -> Result<JobId, StoreError> {
    let ids = store(queue, vec![job], tx).await?;
    ids.first().copied().ok_or_else(|| StoreError::Invalid("the store took the job and gave no id".into()))
}

/// A stored job, known by its type.
pub struct JobHandle<J> {
    id: JobId,
    job: PhantomData<fn() -> J>,
}

impl<J> JobHandle<J> {
    /// The job's name.
    pub fn id(&self) -> JobId {
        self.id
    }
}

impl<J> Clone for JobHandle<J> {
    fn clone(&self) -> Self {
        Self { id: self.id, job: PhantomData }
    }
}

impl<J: Job> fmt::Debug for JobHandle<J> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "JobHandle({} {})", J::TYPE, self.id)
    }
}

/// A job given by its stored name, on its way into a queue: [`JobQueue::enqueue_raw`]. Awaiting it stores the job.
///
/// # Errors
/// Awaiting it gives an [`EnqueueError`]; then nothing is stored.
///
/// # Cancel safety
/// Dropping it while it is awaited loses the answer only: the job is stored whole or not at all.
#[must_use = "an enqueue does nothing until it is awaited"]
pub struct EnqueueRaw<'t> {
    job_type: String,
    payload: serde_json::Value,
    options: Options,
    tx: Option<Tx<'t>>,
}

impl EnqueueRaw<'_> {
    /// Enqueues inside the caller's own transaction on the same database: see [`Enqueue::in_tx`].
    pub fn in_tx<'u>(self, tx: impl Into<Tx<'u>>) -> EnqueueRaw<'u> {
        EnqueueRaw {
            job_type: self.job_type,
            payload: self.payload,
            options: self.options,
            tx: Some(tx.into()),
        }
    }

    fn new_job(&self, queue: &JobQueue) -> Result<NewJob, EnqueueError> {
        let registry = Registry::linked()?;
        let entry = registry.get(&self.job_type).ok_or_else(|| EnqueueError::UnknownType {
            job_type: self.job_type.clone(),
            known: registry.iter().map(|entry| entry.job_type).collect(),
        })?;
        let mut new = self.options.template(entry.job_type, &entry.defaults, queue, queue.now())?;
        new.payload = checked_size(entry.job_type, self.payload.to_string())?;
        let label = (entry.check)(&new.payload).map_err(|source| EnqueueError::Unfit(Arc::new(source)))?;
        new.label = new.label.or_else(|| label.as_deref().map(cut_label));
        Ok(new)
    }
}

impl<'t> IntoFuture for EnqueueRaw<'t> {
    type Output = Result<JobId, EnqueueError>;
    type IntoFuture = Enqueuing<'t, JobId>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move {
            let queue = self.options.target()?;
            let new = self.new_job(&queue)?;
            Ok(store_one(&queue, new, self.tx).await?)
        })
    }
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
        EnqueueRaw { job_type: job_type.into(), payload, options: Options::on(self), tx: None }
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
    /// A payload given as JSON is not what the job function takes.
    #[error(transparent)]
    Unfit(Arc<DecodeError>),
    /// No job of this name is linked into this program.
    #[error("no job `{job_type}` in this program; it knows {}", known.join(", "))]
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
    Store(#[from] StoreError),
}
