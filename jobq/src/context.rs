//! JobContext: what a running job may ask about itself, and the line on which its worker tells it to stop.

use crate::{
    job::{JobId, Lease},
    store::Claimed,
};
use std::{
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Waker},
};
use tokio::sync::Notify;

/// The job that runs, seen from inside. A parameter `ctx: &JobContext` of a job function is given one.
#[derive(Clone, Debug)]
pub struct JobContext(Arc<Running>);

/// Tells a running job to stop.
#[derive(Clone, Debug)]
pub struct CancelSwitch(Arc<Running>);

/// The line on which a worker gives orders to one running attempt.
#[derive(Clone, Debug)]
pub struct Orders(Arc<Running>);

/// What a worker tells a running attempt; a later one only goes further.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Order {
    /// Go on.
    #[default]
    Run,
    /// The worker stops: `ctx.cancelled()` fires, the handler may still end by itself.
    Cancel,
    /// The lease is lost: `ctx.cancelled()` fires, an async handler is dropped.
    Lost,
    /// The worker's time is up: whatever still runs is let go.
    Drop,
}

/// A job that runs: all that its handler, its executor and its worker share, in one allocation.
#[derive(Debug)]
struct Running {
    job: Claimed,
    fired: AtomicBool,
    waiting: Notify,
    order: Mutex<(Order, Option<Waker>)>,
    overdue: AtomicBool,
}

impl CancelSwitch {
    /// Fires [`JobContext::cancelled`]. Firing twice is firing once.
    pub fn fire(&self) {
        self.0.fire();
    }

    /// Whether it has fired.
    pub fn has_fired(&self) -> bool {
        self.0.has_fired()
    }
}

impl Orders {
    /// The line to the attempt whose context `switch` belongs to.
    pub fn new(switch: CancelSwitch) -> Self {
        Self(switch.0)
    }

    /// Gives an order; one that does not go further than those before is none, and `false` is given.
    pub fn give(&self, order: Order) -> bool {
        let waker = {
            let mut latest = self.0.order.lock().unwrap_or_else(PoisonError::into_inner);
            if order <= latest.0 {
                return false;
            }
            latest.0 = order;
            latest.1.take()
        };
        self.0.fire();
        if let Some(waker) = waker {
            waker.wake();
        }
        true
    }

    /// Whether the attempt's time is over and its `blocking` body has not returned.
    pub fn is_overdue(&self) -> bool {
        self.0.overdue.load(Ordering::Relaxed)
    }

    /// The job at the other end.
    pub(crate) fn job(&self) -> &Claimed {
        &self.0.job
    }

    /// Whether they go to the attempt of this context.
    pub(crate) fn reach(&self, ctx: &JobContext) -> bool {
        Arc::ptr_eq(&self.0, &ctx.0)
    }

    /// Whether both go to one attempt.
    pub(crate) fn are_as(&self, others: &Self) -> bool {
        Arc::ptr_eq(&self.0, &others.0)
    }
}

impl Running {
    fn fire(&self) {
        self.fired.store(true, Ordering::Release);
        self.waiting.notify_waiters();
    }

    fn has_fired(&self) -> bool {
        self.fired.load(Ordering::Acquire)
    }
}

impl JobContext {
    /// The context of a claimed job, and the switch that cancels it.
    pub fn new(job: Claimed) -> (Self, CancelSwitch) {
        let running = Arc::new(Running {
            job,
            fired: AtomicBool::new(false),
            waiting: Notify::new(),
            order: Mutex::default(),
            overdue: AtomicBool::new(false),
        });
        (Self(running.clone()), CancelSwitch(running))
    }

    /// The job's name.
    pub fn id(&self) -> JobId {
        self.0.job.id
    }

    /// The lease that this attempt runs under.
    pub fn lease(&self) -> Lease {
        self.0.job.lease
    }

    /// 1 = first run.
    pub fn attempt(&self) -> u32 {
        self.0.job.attempt
    }

    /// Counted starts at most.
    pub fn max_attempts(&self) -> u32 {
        self.0.job.max_attempts
    }

    /// Whether a failure now makes the job dead.
    pub fn is_last_attempt(&self) -> bool {
        self.0.job.attempt >= self.0.job.max_attempts
    }

    /// The queue that the job came through.
    pub fn queue_name(&self) -> &str {
        &self.0.job.queue
    }

    /// The stored name of the job's function.
    pub fn job_type(&self) -> &str {
        &self.0.job.job_type
    }

    /// Ends when the attempt is to stop: its time is up, its lease is lost, or its worker stops.
    ///
    /// # Cancel safety
    /// May be dropped and called again at will.
    pub async fn cancelled(&self) {
        // Made before the look, so that a switch fired in between is not missed.
        let fired = self.0.waiting.notified();
        if !self.is_cancelled() {
            fired.await;
        }
    }

    /// Whether [`cancelled`](Self::cancelled) has fired: for loops of `blocking` jobs.
    pub fn is_cancelled(&self) -> bool {
        self.0.has_fired()
    }

    /// The job itself.
    pub(crate) fn job(&self) -> &Claimed {
        &self.0.job
    }

    /// The latest order; the next one wakes `cx`.
    pub(crate) fn order(&self, cx: &Context<'_>) -> Order {
        let mut latest = self.0.order.lock().unwrap_or_else(PoisonError::into_inner);
        match &mut latest.1 {
            Some(waker) => waker.clone_from(cx.waker()),
            empty => *empty = Some(cx.waker().clone()),
        }
        latest.0
    }

    /// The attempt's time is up: fires [`cancelled`](Self::cancelled).
    pub(crate) fn expire(&self) {
        self.0.fire();
    }

    /// From here on [`Orders::is_overdue`].
    pub(crate) fn set_overdue(&self) {
        self.0.overdue.store(true, Ordering::Relaxed);
    }
}
