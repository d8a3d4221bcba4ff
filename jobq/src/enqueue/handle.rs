//! JobHandle: a stored job, known by its type and its queue.

use crate::{
    job::{Job, JobId, Output, Readable},
    queue::{JobQueue, Wait, WaitError},
    store::{Enqueued, Landed},
};
use std::{fmt, marker::PhantomData};

/// A stored job, known by its type.
pub struct JobHandle<J> {
    queue: JobQueue,
    enqueued: Enqueued,
    job: PhantomData<fn() -> J>,
}

impl<J> JobHandle<J> {
    pub(crate) fn new(queue: JobQueue, enqueued: Enqueued) -> Self {
        Self { queue, enqueued, job: PhantomData }
    }

    /// The job's name.
    pub fn id(&self) -> JobId {
        self.enqueued.id
    }

    /// Whether the enqueue added this job; else it was there and holds the unique key.
    pub fn is_new(&self) -> bool {
        self.enqueued.is_new()
    }

    /// How the enqueue landed: in a new job, in one that was there, or in one that was there and took something over.
    pub fn landed(&self) -> Landed {
        self.enqueued.landed
    }

    /// The queue that it is in.
    pub fn queue(&self) -> &JobQueue {
        &self.queue
    }
}

impl<J: Job> JobHandle<J> {
    /// Starts to wait for the job's end; awaiting it gives what the job's function returned:
    /// `let sent: MessageId = handle.wait().timeout(secs(30)).await?`.
    ///
    /// Any number may wait for one job, in any process, also before it runs and long after it has ended: its row is kept
    /// for its retention. A job that was enqueued in a transaction is there when that has committed. A handler may wait
    /// for another job, but it keeps its slot meanwhile: where all slots wait for jobs that have none, nothing goes on.
    pub fn wait(&self) -> Wait<J>
    where
        Output<J>: Readable,
    {
        self.queue.wait(self.id())
    }
}

impl JobQueue {
    /// The handle of a job that is stored, as from an id that was kept elsewhere.
    ///
    /// # Errors
    /// [`WaitError::Gone`]: there is no such job. [`WaitError::OtherType`]: it is one of another function.
    /// [`WaitError::Store`].
    pub async fn job_handle<J: Job>(&self, job: impl Into<JobId>) -> Result<JobHandle<J>, WaitError> {
        let id = job.into();
        self.expect_type::<J>(id).await?;
        Ok(JobHandle::new(self.clone(), Enqueued { id, landed: Landed::Existing }))
    }
}

impl<J> Clone for JobHandle<J> {
    fn clone(&self) -> Self {
        Self { queue: self.queue.clone(), enqueued: self.enqueued, job: PhantomData }
    }
}

impl<J> From<&JobHandle<J>> for JobId {
    fn from(handle: &JobHandle<J>) -> Self {
        handle.id()
    }
}

impl<J> From<JobHandle<J>> for JobId {
    fn from(handle: JobHandle<J>) -> Self {
        handle.id()
    }
}

impl<J: Job> fmt::Debug for JobHandle<J> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "JobHandle({} {})", J::TYPE, self.id())
    }
}
