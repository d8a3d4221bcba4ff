//! JobContext: what a running job may ask about itself.

use crate::{
    job::{JobId, Lease},
    store::Claimed,
};
use std::sync::Arc;
use tokio::sync::watch;

/// The job that runs, seen from inside. A parameter `ctx: &JobContext` of a job function is given one.
#[derive(Clone, Debug)]
pub struct JobContext {
    job: Arc<Claimed>,
    cancelled: watch::Receiver<bool>,
}

/// Tells a running job to stop.
#[derive(Clone, Debug)]
pub struct CancelSwitch(Arc<watch::Sender<bool>>);

impl CancelSwitch {
    /// Fires [`JobContext::cancelled`]. Firing twice is firing once.
    pub fn fire(&self) {
        self.0.send_replace(true);
    }
}

impl JobContext {
    /// The context of a claimed job, and the switch that cancels it.
    pub fn new(job: Arc<Claimed>) -> (Self, CancelSwitch) {
        let (switch, cancelled) = watch::channel(false);
        (Self { job, cancelled }, CancelSwitch(Arc::new(switch)))
    }

    /// The job's name.
    pub fn id(&self) -> JobId {
        self.job.id
    }

    /// The lease that this attempt runs under.
    pub fn lease(&self) -> Lease {
        self.job.lease
    }

    /// 1 = first run.
    pub fn attempt(&self) -> u32 {
        self.job.attempt
    }

    /// Counted starts at most.
    pub fn max_attempts(&self) -> u32 {
        self.job.max_attempts
    }

    /// Whether a failure now makes the job dead.
    pub fn is_last_attempt(&self) -> bool {
        self.job.attempt >= self.job.max_attempts
    }

    /// The queue that the job came through.
    pub fn queue_name(&self) -> &str {
        &self.job.queue
    }

    /// The stored name of the job's function.
    pub fn job_type(&self) -> &str {
        &self.job.job_type
    }

    /// Ends when the attempt is to stop: its time is up, its lease is lost, or its worker stops.
    ///
    /// # Cancel safety
    /// May be dropped and called again at will.
    pub async fn cancelled(&self) {
        let mut cancelled = self.cancelled.clone();
        // A switch that is gone can't fire any more: wait for ever.
        if cancelled.wait_for(|fired| *fired).await.is_err() {
            std::future::pending::<()>().await;
        }
    }

    /// Whether [`cancelled`](Self::cancelled) has fired: for loops of `blocking` jobs.
    pub fn is_cancelled(&self) -> bool {
        *self.cancelled.borrow()
    }
}
