//! JobContext: what a running job may ask about itself.

use crate::{
    job::{JobId, Lease},
    store::Claimed,
};
use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};
use tokio::sync::Notify;

/// The job that runs, seen from inside. A parameter `ctx: &JobContext` of a job function is given one.
#[derive(Clone, Debug)]
pub struct JobContext {
    job: Arc<Claimed>,
    cancel: CancelSwitch,
}

/// Tells a running job to stop.
#[derive(Clone, Debug, Default)]
pub struct CancelSwitch(Arc<Signal>);

#[derive(Debug, Default)]
struct Signal {
    fired: AtomicBool,
    waiting: Notify,
}

impl CancelSwitch {
    /// Fires [`JobContext::cancelled`]. Firing twice is firing once.
    pub fn fire(&self) {
        self.0.fired.store(true, Ordering::Release);
        self.0.waiting.notify_waiters();
    }

    /// Whether it has fired.
    pub fn has_fired(&self) -> bool {
        self.0.fired.load(Ordering::Acquire)
    }
}

impl JobContext {
    /// The context of a claimed job, and the switch that cancels it.
    pub fn new(job: Arc<Claimed>) -> (Self, CancelSwitch) {
        let cancel = CancelSwitch::default();
        (Self { job, cancel: cancel.clone() }, cancel)
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
        // Made before the look, so that a switch fired in between is not missed.
        let fired = self.cancel.0.waiting.notified();
        if !self.cancel.has_fired() {
            fired.await;
        }
    }

    /// Whether [`cancelled`](Self::cancelled) has fired: for loops of `blocking` jobs.
    pub fn is_cancelled(&self) -> bool {
        self.cancel.has_fired()
    }
}
