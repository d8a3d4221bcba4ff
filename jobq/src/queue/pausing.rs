//! Pauses: a queue or a job type whose jobs are accepted and not run, until a time or until somebody resumes it.

use super::{JobQueue, QueueError, check_queue_name};
use crate::{
    job::{Job, MAX_NAME},
    store::{Pause, Paused},
    time::{Millis, millis, whole_millis},
};
use chrono::{DateTime, Utc};
use std::{
    future::{Future, IntoFuture},
    pin::Pin,
    time::Duration,
};

/// Jobs of what is paused are accepted, and not run.
///
/// A pause is a row in the store: it holds for the workers of all processes from their next claim on, and outlives all
/// of them. Jobs that run when it begins run on. Jobs that wait keep their places, and are first claimed when it has
/// ended: at the time that was given with it, or when somebody resumes. A job is paused where its queue is, or its type,
/// or both.
///
/// ```standalone_crate
/// use jobq::prelude::*;
///
/// #[job(queue = "mail")]
/// async fn send_newsletter(number: u32) {
///     println!("newsletter {number}");
/// }
///
/// # use std::sync::Arc;
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let store = Arc::new(jobq::MemoryStore::new());
/// # let queue = JobQueue::with_store(store, Arc::new(jobq::SystemClock));
/// # let worker = || Worker::new(&queue).jobs(send_newsletter);
/// queue.pause_queue("mail").note("the mail server moves").by("ada").lasting(hours(2)).await?;
/// queue.pause_type::<SendNewsletter>().await?; // until somebody resumes it
///
/// send_newsletter.enqueue(7).on(&queue).await?;
/// assert_eq!(worker().drain().await?.completed, 0);
/// for pause in queue.pauses().await? {
///     println!("{} is paused by {:?}: {:?}", pause.what, pause.by, pause.note);
/// }
///
/// assert!(queue.resume_queue("mail").await?); // it was paused
/// assert!(queue.resume_type::<SendNewsletter>().await?);
/// assert_eq!(worker().drain().await?.completed, 1);
/// # Ok(()) }
/// ```
impl JobQueue {
    /// Starts to pause a queue; awaiting the builder does it.
    pub fn pause_queue(&self, name: impl Into<String>) -> Pausing {
        Pausing::of(self, Paused::Queue(name.into()))
    }

    /// Starts to pause the jobs of one type; awaiting the builder does it. Rows that carry an older name of the type,
    /// an alias, go on: pause these by [`pause_job_type`](Self::pause_job_type).
    pub fn pause_type<J: Job>(&self) -> Pausing {
        self.pause_job_type(J::TYPE)
    }

    /// Starts to pause the jobs of one stored name, known to this program or not; awaiting the builder does it.
    pub fn pause_job_type(&self, name: impl Into<String>) -> Pausing {
        Pausing::of(self, Paused::JobType(name.into()))
    }

    /// Ends the pause of a queue; `false`: it was not paused.
    ///
    /// # Errors
    /// [`QueueError::Store`].
    ///
    /// # Cancel safety
    /// Dropping it loses the answer, and neither undoes nor half-does the act.
    pub async fn resume_queue(&self, name: impl Into<String>) -> Result<bool, QueueError> {
        self.resume(Paused::Queue(name.into())).await
    }

    /// Ends the pause of a job type; `false`: it was not paused.
    ///
    /// # Errors
    /// [`QueueError::Store`].
    ///
    /// # Cancel safety
    /// As [`resume_queue`](Self::resume_queue).
    pub async fn resume_type<J: Job>(&self) -> Result<bool, QueueError> {
        self.resume_job_type(J::TYPE).await
    }

    /// Ends the pause of a stored name; `false`: it was not paused.
    ///
    /// # Errors
    /// [`QueueError::Store`].
    ///
    /// # Cancel safety
    /// As [`resume_queue`](Self::resume_queue).
    pub async fn resume_job_type(&self, name: impl Into<String>) -> Result<bool, QueueError> {
        self.resume(Paused::JobType(name.into())).await
    }

    /// Reads all pauses: those of queues first, by name.
    ///
    /// # Errors
    /// [`QueueError::Store`].
    pub async fn pauses(&self) -> Result<Vec<Pause>, QueueError> {
        Ok(self.store().pauses().await?)
    }

    /// Ends one of the [`pauses`](Self::pauses); `false`: it has ended already.
    ///
    /// # Errors
    /// [`QueueError::Store`].
    ///
    /// # Cancel safety
    /// As [`resume_queue`](Self::resume_queue).
    pub async fn resume(&self, what: Paused) -> Result<bool, QueueError> {
        Ok(self.store().resume(what, self.now()).await?)
    }
}

/// A pause on its way into the store. Awaiting it pauses; dropping it before does nothing.
///
/// # Errors
/// Awaiting it gives [`QueueError::Settings`] where a name can't be one or the end has passed, and
/// [`QueueError::Store`], also for a note of more than 1,000 characters. Then nothing is paused.
///
/// # Cancel safety
/// Dropping it while it is awaited loses the answer only.
#[derive(Clone, Debug)]
#[must_use = "nothing is paused before this is awaited"]
pub struct Pausing {
    queue: JobQueue,
    what: Paused,
    note: Option<String>,
    by: Option<String>,
    end: Option<End>,
}

#[derive(Clone, Copy, Debug)]
enum End {
    At(Millis),
    After(Duration),
}

impl Pausing {
    fn of(queue: &JobQueue, what: Paused) -> Self {
        Self { queue: queue.clone(), what, note: None, by: None, end: None }
    }

    /// Why, for people; at most 1,000 characters.
    pub fn note(mut self, note: impl Into<String>) -> Self {
        self.note = Some(note.into());
        self
    }

    /// Who, for people; at most 255 characters.
    pub fn by(mut self, who: impl Into<String>) -> Self {
        self.by = Some(who.into());
        self
    }

    /// Ends by itself at this instant. The last of `until` and `lasting` holds; without either it ends when somebody
    /// resumes.
    pub fn until(mut self, at: DateTime<Utc>) -> Self {
        self.end = Some(End::At(whole_millis(at)));
        self
    }

    /// Ends by itself after this time, by the queue's clock.
    pub fn lasting(mut self, time: Duration) -> Self {
        self.end = Some(End::After(time));
        self
    }

    fn pause(self) -> Result<Pause, QueueError> {
        let refuse = |why: String| Err(QueueError::Settings(format!("{} can't be paused: {why}", self.what)));
        let paused_at = self.queue.now();
        match &self.what {
            Paused::Queue(name) => {
                if let Err(bad) = check_queue_name(name) {
                    return refuse(bad.to_string());
                }
            }
            Paused::JobType(name) if name.is_empty() || name.len() > MAX_NAME => {
                return refuse(format!("the name of a job type has 1 to {MAX_NAME} bytes"));
            }
            Paused::JobType(_) => {}
        }
        let ends_at = self.end.map(|end| match end {
            End::At(at) => at,
            End::After(time) => paused_at.saturating_add(millis(time)),
        });
        if ends_at.is_some_and(|end| end <= paused_at) {
            return refuse("its end has passed; give one that is to come, or none".into());
        }
        Ok(Pause { what: self.what, paused_at, ends_at, by: self.by, note: self.note })
    }
}

impl IntoFuture for Pausing {
    type Output = Result<(), QueueError>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move {
            let queue = self.queue.clone();
            Ok(queue.store().pause(self.pause()?).await?)
        })
    }
}
