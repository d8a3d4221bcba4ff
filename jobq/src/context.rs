//! JobContext: what a running job may ask and tell, and the line on which its worker tells it to stop.

use crate::{
    job::{JobId, Lease, LogLevel, line},
    store::{Claimed, Note, Store, Ties},
    time::Clock,
};
use news::News;
use std::{
    fmt,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Waker},
};
use steps::Names;
use tokio::sync::Notify;

#[cfg(feature = "tracing-output")]
mod capture;
mod completing;
mod news;
mod parked;
mod steps;

#[cfg(feature = "tracing-output")]
pub use capture::{tracing_layer, tracing_layer_at};
pub use completing::CompleteError;
pub use news::Amount;
pub(crate) use parked::block_on;
pub use steps::StepError;

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
    /// A person has cancelled the job and its grace is over: an async handler is dropped.
    TakenBack,
    /// The lease is lost: `ctx.cancelled()` fires, an async handler is dropped.
    Lost,
    /// The worker's time is up: whatever still runs is let go.
    Drop,
}

/// Where running jobs of one worker turn to: its store, its clock, and the bell that says that one has news.
pub(crate) struct Office {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) bell: Notify,
}

impl fmt::Debug for Office {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Office").field(&self.store.describe()).finish()
    }
}

/// A job that runs: all that its handler, its executor and its worker share, in one allocation.
#[derive(Debug)]
struct Running {
    job: Claimed,
    /// `None`: no worker runs it.
    office: Option<Arc<Office>>,
    news: News,
    steps: Names,
    fired: AtomicBool,
    waiting: Notify,
    order: Mutex<(Order, Option<Waker>)>,
    overdue: AtomicBool,
    unwanted: AtomicBool,
    promised: AtomicBool,
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

    /// A person has cancelled the job: `ctx.cancelled()` fires, and however the attempt ends now, unless it completes,
    /// the job is cancelled. Only the first time is heard, and `true` is given.
    pub fn take_back(&self) -> bool {
        let first = !self.0.unwanted.swap(true, Ordering::AcqRel);
        if first {
            self.0.fire();
        }
        first
    }

    /// Whether the attempt's time is over and its `blocking` body has not returned.
    pub fn is_overdue(&self) -> bool {
        self.0.overdue.load(Ordering::Relaxed)
    }

    /// The job at the other end.
    pub(crate) fn job(&self) -> &Claimed {
        &self.0.job
    }

    /// Takes the job's news since the last time.
    pub(crate) fn take_news(&self, notes: &mut Vec<Note>) {
        self.0.news.take(&self.0.job, false, notes);
    }

    /// Takes the job's last news; whatever it says later is not heard.
    pub(crate) fn take_last_news(&self, notes: &mut Vec<Note>) {
        self.0.news.take(&self.0.job, true, notes);
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
    /// The context of a claimed job that no worker runs, and the switch that cancels it: what the job tells of itself
    /// goes nowhere.
    pub fn new(job: Claimed) -> (Self, CancelSwitch) {
        Self::made(job, None)
    }

    /// The context of a job that a worker runs.
    pub(crate) fn in_office(job: Claimed, office: &Arc<Office>) -> (Self, CancelSwitch) {
        Self::made(job, Some(office.clone()))
    }

    fn made(job: Claimed, office: Option<Arc<Office>>) -> (Self, CancelSwitch) {
        let running = Arc::new(Running {
            job,
            office,
            news: News::default(),
            steps: Names::default(),
            fired: AtomicBool::new(false),
            waiting: Notify::new(),
            order: Mutex::default(),
            overdue: AtomicBool::new(false),
            unwanted: AtomicBool::new(false),
            promised: AtomicBool::new(false),
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

    /// Tells how far the job is: `done` of `total` items, any integers. People see it as `processed_items`,
    /// `total_items` and, derived from them, `progress_percent`; a `total` of 0 says that it is not known.
    ///
    /// May be called as often as one likes: a call costs some nanoseconds, and what was said last is written a few times
    /// a second, and before the job's end. It stays as it is when the attempt ends, so that people see how far the job
    /// came; a completed job is at 100 percent whatever it said, and a retry by a person clears it.
    ///
    /// ```
    /// # use jobq::prelude::*;
    /// #[job]
    /// async fn import(ctx: &JobContext, rows: Vec<String>) -> Result<(), JobError> {
    ///     for (done, row) in rows.iter().enumerate() {
    ///         ctx.progress(done, rows.len());
    ///         println!("imported {row}");
    ///     }
    ///     Ok(())
    /// }
    /// ```
    pub fn progress(&self, done: impl Amount, total: impl Amount) {
        if self.0.news.progress(news::items(done), news::items(total)) {
            self.ring();
        }
    }

    /// Writes a line into the job's output, for people: [`JobQueue::output`](crate::JobQueue::output) reads it. Several
    /// lines in one text stay together.
    ///
    /// Of one attempt 10,000 lines and 1 MiB are kept: the first ones, the latest 1,000 (128 KiB), and between them a
    /// line that says how many were left out. A line is cut to 16 KiB. What was written is stored a few times a second,
    /// and before the job's end; the latest lines of an output with lines left out, before its end alone. The output of
    /// the job's ten latest claims is kept, and deleted with the job.
    ///
    /// ```
    /// # use jobq::prelude::*;
    /// #[job]
    /// async fn greet(ctx: &JobContext, name: String) {
    ///     ctx.log(format_args!("greeting {name}"));
    /// }
    /// ```
    pub fn log(&self, text: impl fmt::Display) {
        self.log_at(LogLevel::Info, text);
    }

    /// Writes a line of this level into the job's output, as [`log`](Self::log) does. A `tracing::Level` will do as
    /// well.
    pub fn log_at(&self, level: impl Into<LogLevel>, text: impl fmt::Display) {
        // Without a worker nobody would ever take it.
        let Some(office) = &self.0.office else { return };
        if self.0.news.write(office.clock.now(), level.into(), line(text)) {
            self.ring();
        }
    }

    /// Nobody listens to what it tells `tracing`.
    #[cfg(not(feature = "tracing-output"))]
    pub(crate) fn heard(&self) {}

    fn ring(&self) {
        if let Some(office) = &self.0.office {
            office.bell.notify_one();
        }
    }

    /// Ends when the attempt is to stop: its time is up, the job was cancelled, its lease is lost, or its worker stops.
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

    /// Whether the handler has completed the job in a transaction, which may have committed or not.
    pub(crate) fn has_promised(&self) -> bool {
        self.0.promised.load(Ordering::Acquire)
    }

    /// What the job's settle has to look at.
    pub(crate) fn ties(&self) -> Ties {
        Ties { promised: self.has_promised(), ..self.0.job.ties }
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

    /// Whether a person has cancelled the job.
    pub(crate) fn is_unwanted(&self) -> bool {
        self.0.unwanted.load(Ordering::Acquire)
    }

    /// From here on [`Orders::is_overdue`].
    pub(crate) fn set_overdue(&self) {
        self.0.overdue.store(true, Ordering::Relaxed);
    }
}
