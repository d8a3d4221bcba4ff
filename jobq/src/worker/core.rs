//! What the tasks of one worker share: who it is, what runs, which ends wait to be stored.

use super::{Settings, WorkerError};
use crate::{
    context::{JobContext, Office},
    executor::{Body, Executor, Order, Orders, Verdict, following},
    job::{JobId, Lease, NewJob},
    maintenance::{Asking, Identity, Quiet, answered, trouble_wait},
    queue::{JobQueue, worker_here},
    registry::{JobEntry, Registry},
    store::{
        ClaimSet, Claimed, Completion, Failure, Next, Note, Promise, Release, Snooze, Store, StoreError, Ties,
    },
    time::Clock,
};
use std::{
    fmt,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};
use tokio::sync::{Notify, watch};

/// How far a stop goes; a later one only goes further.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Stop {
    /// Work on.
    #[default]
    No,
    /// Let running jobs finish for the grace.
    Graceful,
    /// End within 2 s.
    Now,
    /// Nobody waits for anything any more.
    Dropped,
}

/// What the handle asks of the worker.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Wish {
    pub(super) paused: bool,
    pub(super) stop: Stop,
}

impl Wish {
    pub(super) fn claims(&self) -> bool {
        !self.paused && self.stop == Stop::No
    }
}

/// A job that runs here.
#[derive(Clone)]
pub(super) struct Held {
    pub(super) entry: &'static JobEntry,
    /// When it was started, on the steady clock.
    pub(super) since: Duration,
    pub(super) orders: Orders,
    place: usize,
}

impl Held {
    pub(super) fn id(&self) -> JobId {
        self.orders.job().id
    }

    pub(super) fn lease(&self) -> Lease {
        self.orders.job().lease
    }
}

/// The jobs that run, each in a place of its own until it ends.
#[derive(Default)]
struct Places {
    taken: Vec<Option<Held>>,
    free: Vec<usize>,
}

impl Places {
    fn len(&self) -> usize {
        self.taken.len() - self.free.len()
    }

    fn iter(&self) -> impl Iterator<Item = &Held> {
        self.taken.iter().flatten()
    }

    fn put(&mut self, entry: &'static JobEntry, since: Duration, orders: Orders) -> usize {
        let place = self.free.pop().unwrap_or(self.taken.len());
        let held = Some(Held { entry, since, orders, place });
        match self.taken.get_mut(place) {
            Some(free) => *free = held,
            None => self.taken.push(held),
        }
        place
    }

    /// Takes the job of this context out of its place; `None`: it is not there any more.
    fn take(&mut self, place: usize, job: &JobContext) -> Option<Held> {
        let held = self.taken.get_mut(place)?.take_if(|held| held.orders.reach(job))?;
        self.free.push(place);
        Some(held)
    }

    fn has(&self, held: &Held) -> bool {
        let there = self.taken.get(held.place).and_then(Option::as_ref);
        there.is_some_and(|there| there.orders.are_as(&held.orders))
    }

    fn take_all(&mut self) -> Vec<Held> {
        std::mem::take(self).taken.into_iter().flatten().collect()
    }
}

/// Ends that wait to be stored, one list for each method of the store; and the news that go before them.
#[derive(Default)]
pub(super) struct Batch {
    pub(super) notes: Vec<Note>,
    pub(super) completions: Vec<Completion>,
    pub(super) failures: Vec<Failure>,
    pub(super) snoozes: Vec<Snooze>,
    pub(super) releases: Vec<Release>,
}

impl Batch {
    /// How many ends; news hold nothing up.
    pub(super) fn len(&self) -> usize {
        self.completions.len() + self.failures.len() + self.snoozes.len() + self.releases.len()
    }

    fn ids(&self) -> impl Iterator<Item = JobId> {
        let ends = self.completions.iter().map(|end| end.id).chain(self.failures.iter().map(|end| end.id));
        ends.chain(self.snoozes.iter().map(|end| end.id)).chain(self.releases.iter().map(|end| end.id))
    }

    fn push(&mut self, job: &Claimed, ties: Ties, verdict: Verdict, on_dead: Option<Box<NewJob>>) {
        let &Claimed { id, lease, .. } = job;
        match verdict {
            Verdict::Complete { result } => self.completions.push(Completion { id, lease, result, ties }),
            Verdict::Fail { outcome, error, next } => {
                self.failures.push(Failure { id, lease, outcome, error, next, ties, on_dead });
            }
            Verdict::Snooze { run_at } => self.snoozes.push(Snooze { id, lease, run_at, ties }),
            Verdict::Release => self.releases.push(Release { id, lease, ties }),
            Verdict::Forget => {}
        }
    }
}

/// Running jobs and ends on their way into the store: who leaves one list is in the next before the lock is let go.
#[derive(Default)]
struct Floor {
    held: Places,
    outbox: Batch,
    writing: Option<Arc<Batch>>,
    stuck_threads: usize,
}

impl Floor {
    /// How many ends are not stored.
    fn unsettled(&self) -> usize {
        self.outbox.len() + self.writing.as_ref().map_or(0, |batch| batch.len())
    }
}

#[derive(Default)]
pub(super) struct Counters {
    pub(super) completed: AtomicU64,
    pub(super) failed: AtomicU64,
    pub(super) snoozed: AtomicU64,
    pub(super) released: AtomicU64,
    pub(super) late: AtomicU64,
    pub(super) gone: AtomicU64,
}

/// What a worker does, and what it has done since its start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WorkerStats {
    /// Jobs that run.
    pub running: usize,
    /// Those of them that are `blocking`, past their time-out, lease or cancel, and have not returned.
    pub stuck: usize,
    /// Jobs that have ended and whose end is not stored yet.
    pub unsettled: usize,
    /// Attempts that ended well.
    pub completed: u64,
    /// Attempts that failed.
    pub failed: u64,
    /// Attempts that asked for a later time.
    pub snoozed: u64,
    /// Jobs given back by a stop or a pause.
    pub released: u64,
    /// Ends that were refused because the job had gone to another worker meanwhile.
    pub late: u64,
    /// Ends of jobs that were no longer there.
    pub gone: u64,
}

/// See the module.
pub(super) struct Core {
    key: u64,
    queue: JobQueue,
    settings: Settings,
    pub(super) known: Registry,
    set: Arc<ClaimSet>,
    identity: Arc<Identity>,
    executor: Executor,
    asking: Arc<Asking>,
    quiet: Arc<Quiet>,
    office: Arc<Office>,
    floor: Mutex<Floor>,
    wish: watch::Sender<Wish>,
    ended: watch::Sender<Option<Result<(), WorkerError>>>,
    /// The claiming task's cue: a slot may be free.
    pub(super) room: Notify,
    /// The settling task's cue: ends are in the outbox.
    pub(super) outbox: Notify,
    /// Held while news are stored: an end that has to be tried again waits until those before it are.
    pub(super) telling: tokio::sync::Mutex<()>,
    /// The cue of those who wait for everything to be settled.
    settled: Notify,
    /// Whether the claiming task will bring nothing more.
    claimed_all: AtomicBool,
    pub(super) counters: Counters,
}

impl Core {
    pub(super) fn new(
        key: u64,
        queue: JobQueue,
        settings: Settings,
        known: Registry,
        identity: Identity,
        executor: Executor,
    ) -> Arc<Self> {
        let set = ClaimSet {
            job_types: known.names().map(str::to_owned).collect(),
            queues: settings.queues.clone(),
        };
        let quiet = Arc::new(Quiet::new(queue.clock().clone()));
        let (store, clock) = (queue.store().clone(), queue.clock().clone());
        let office = Arc::new(Office { store, clock, bell: Notify::new() });
        Arc::new(Self {
            key,
            queue,
            settings,
            known,
            set: Arc::new(set),
            identity: Arc::new(identity),
            executor,
            asking: Arc::default(),
            quiet,
            office,
            floor: Mutex::default(),
            wish: watch::Sender::default(),
            ended: watch::Sender::default(),
            room: Notify::new(),
            outbox: Notify::new(),
            telling: tokio::sync::Mutex::default(),
            settled: Notify::new(),
            claimed_all: AtomicBool::new(false),
            counters: Counters::default(),
        })
    }

    pub(super) fn queue(&self) -> &JobQueue {
        &self.queue
    }

    pub(super) fn store(&self) -> &Arc<dyn Store> {
        self.queue.store()
    }

    pub(super) fn clock(&self) -> &Arc<dyn Clock> {
        self.queue.clock()
    }

    pub(super) fn settings(&self) -> &Settings {
        &self.settings
    }

    pub(super) fn known(&self) -> &Registry {
        &self.known
    }

    pub(super) fn set(&self) -> &Arc<ClaimSet> {
        &self.set
    }

    pub(super) fn identity(&self) -> &Arc<Identity> {
        &self.identity
    }

    pub(super) fn asking(&self) -> &Arc<Asking> {
        &self.asking
    }

    pub(super) fn quiet(&self) -> &Arc<Quiet> {
        &self.quiet
    }

    fn floor(&self) -> MutexGuard<'_, Floor> {
        self.floor.lock().unwrap_or_else(PoisonError::into_inner)
    }

    // ---- jobs ----------------------------------------------------------------------------------------------

    /// How many jobs may be claimed now.
    pub(super) fn room(&self) -> usize {
        let slots = self.settings.concurrency;
        let floor = self.floor();
        let (running, waiting) = (floor.held.len(), floor.unsettled());
        slots.saturating_sub(running).min((2 * slots).saturating_sub(running + waiting))
    }

    /// Starts claimed jobs, or gives them back where no job is to start any more.
    pub(super) fn take(self: &Arc<Self>, claimed: Vec<Claimed>) {
        // Kept until all are started: a pause returns after that, or none starts.
        let wish = self.wish.borrow();
        let since = self.clock().steady();
        let mut started = Vec::with_capacity(claimed.len());
        let mut given_back = false;
        let mut latest: Option<&'static JobEntry> = None;
        let mut floor = self.floor();
        for job in claimed {
            // Most jobs of one claim are of one type.
            let same = latest.filter(|entry| *entry.job_type == *job.job_type);
            latest = same.or_else(|| self.known.get(&job.job_type));
            let Some(entry) = latest.filter(|_| wish.claims()) else {
                floor.outbox.push(&job, job.ties, Verdict::Release, None);
                given_back = true;
                continue;
            };
            let (ctx, switch) = JobContext::in_office(job, &self.office);
            let place = floor.held.put(entry, since, Orders::new(switch));
            started.push((entry, ctx, place));
        }
        drop(floor);
        if given_back {
            self.outbox.notify_one();
        }
        for (entry, ctx, place) in started {
            let core = self.clone();
            tokio::spawn(self.queue.clone().enter(self.key, async move {
                let mut verdict = core.executor.attempt(entry, &ctx).await;
                if ctx.has_promised() {
                    verdict = Box::pin(core.hold_to_promise(entry, &ctx, verdict)).await;
                }
                core.executor.tell(ctx.job(), &verdict);
                core.leave(entry, place, &ctx, verdict);
            }));
        }
    }

    /// What follows from an attempt that completed in a transaction: whether that has committed is the truth, whatever
    /// the handler did after it.
    async fn hold_to_promise(&self, entry: &'static JobEntry, ctx: &JobContext, said: Verdict) -> Verdict {
        if said == Verdict::Forget {
            return said;
        }
        let mut failures = 0;
        let promise = loop {
            match answered(async { self.store().promised(ctx.id(), ctx.lease()).await }).await {
                Ok(promise) => break promise,
                Err(error) if error.is_transient() => {
                    failures += 1;
                    tracing::warn!(%error, id = %ctx.id(), failures, "whether a job has completed in a transaction could not be read; it is tried again");
                    self.clock().sleep(trouble_wait(failures)).await;
                }
                // The store can't be used; whoever rescues the job holds it to its promise.
                Err(_) => break None,
            }
        };
        let (id, job_type) = (ctx.id(), ctx.job_type());
        match (promise, said) {
            (Some(Promise { result }), Verdict::Complete { result: said }) => {
                let text = |result: &Option<String>| result.clone().unwrap_or_else(|| "null".into());
                if text(&result) != text(&said) {
                    tracing::warn!(%id, job_type, "a job returned another output than the one that it completed with in a transaction: the latter is its result");
                }
                Verdict::Complete { result }
            }
            (Some(Promise { result }), _) => {
                tracing::warn!(%id, job_type, "an attempt did not end well after it had completed in a transaction: the job is completed");
                Verdict::Complete { result }
            }
            (None, Verdict::Complete { .. }) => self.executor.rolled_back(entry, ctx.job()),
            (None, said) => said,
        }
    }

    /// Hands a job's end to the settling task and its slot to the claiming task. Nothing happens where the job was
    /// let go before: its end is settled already.
    fn leave(&self, entry: &JobEntry, place: usize, job: &JobContext, verdict: Verdict) {
        let forgotten = verdict == Verdict::Forget;
        let on_dead = match &verdict {
            Verdict::Fail { error, next: Next::Dead, .. } => {
                let max_attempts = self.queue.default_max_attempts();
                following::on_dead(entry, max_attempts, || following::dying(job.job(), error))
            }
            _ => None,
        };
        {
            let mut floor = self.floor();
            let Some(held) = floor.held.take(place, job) else {
                floor.stuck_threads -= usize::from(!entry.blocking);
                return;
            };
            if !forgotten {
                held.orders.take_last_news(&mut floor.outbox.notes);
            }
            floor.outbox.push(job.job(), job.ties(), verdict, on_dead);
        }
        self.room.notify_one();
        if forgotten {
            self.settled.notify_waiters();
        } else {
            self.outbox.notify_one();
        }
    }

    /// Ends when a running job has news.
    pub(super) async fn bell(&self) {
        self.office.bell.notified().await;
    }

    /// Hands the news of running jobs to the settling task, which stores them before an end that comes later.
    pub(super) fn gather_news(&self) {
        let mut floor = self.floor();
        let Floor { held, outbox, .. } = &mut *floor;
        // Where the store is slow, jobs keep their news, in bounds, and each has only its latest to tell.
        if outbox.notes.is_empty() {
            held.iter().for_each(|held| held.orders.take_news(&mut outbox.notes));
        } else {
            self.office.bell.notify_one();
        }
        drop(floor);
        self.outbox.notify_one();
    }

    /// How many ends wait.
    pub(super) fn outbox_len(&self) -> usize {
        self.floor().outbox.len()
    }

    /// Half of the slots: while these jobs are claimed or settled, the other half runs.
    pub(super) fn half(&self) -> usize {
        self.settings.concurrency.div_ceil(2)
    }

    /// The ends that wait; from here on they are being written.
    pub(super) fn take_outbox(&self) -> Option<Arc<Batch>> {
        let mut floor = self.floor();
        if floor.outbox.len() == 0 && floor.outbox.notes.is_empty() {
            return None;
        }
        let batch = Arc::new(std::mem::take(&mut floor.outbox));
        floor.writing = Some(batch.clone());
        Some(batch)
    }

    /// What was being written is stored, or never will be.
    pub(super) fn written(&self) {
        self.floor().writing = None;
        self.room.notify_one();
        self.settled.notify_waiters();
    }

    /// The jobs that run.
    pub(super) fn held(&self) -> Vec<Held> {
        self.floor().held.iter().cloned().collect()
    }

    /// Whether this job still runs.
    pub(super) fn still_holds(&self, held: &Held) -> bool {
        self.floor().held.has(held)
    }

    /// Gives an order to every running job.
    pub(super) fn order(&self, order: Order) {
        for held in self.held() {
            held.orders.give(order);
        }
    }

    /// Lets go of jobs whose handlers do not even notice that they are told to: they are given back all the same.
    pub(super) fn let_go(&self) -> Vec<Held> {
        let mut floor = self.floor();
        let stuck = floor.held.take_all();
        for held in &stuck {
            held.orders.take_last_news(&mut floor.outbox.notes);
            let job = held.orders.job();
            floor.outbox.push(job, job.ties, Verdict::Release, None);
        }
        floor.stuck_threads = stuck.iter().filter(|held| !held.entry.blocking).count();
        drop(floor);
        self.outbox.notify_one();
        stuck
    }

    /// How many of the jobs that were let go still hold a thread of the runtime, as far as is known.
    pub(super) fn stuck_threads(&self) -> usize {
        self.floor().stuck_threads
    }

    /// Jobs whose end is not stored.
    pub(super) fn unsettled(&self) -> Vec<JobId> {
        let floor = self.floor();
        floor.writing.iter().flat_map(|batch| batch.ids()).chain(floor.outbox.ids()).collect()
    }

    /// Whether no job runs and every end is stored.
    pub(super) fn is_settled(&self) -> bool {
        let floor = self.floor();
        floor.held.len() + floor.unsettled() == 0
    }

    /// Ends when no job runs and every end is stored.
    pub(super) async fn all_settled(&self) {
        loop {
            let change = self.settled.notified();
            if self.is_settled() {
                return;
            }
            change.await;
        }
    }

    /// The same for a worker that claims no more: what its last claim brings is given back before.
    pub(super) async fn all_done(&self) {
        loop {
            let change = self.settled.notified();
            if self.claimed_all.load(Ordering::Acquire) && self.is_settled() {
                return;
            }
            change.await;
        }
    }

    pub(super) fn stats(&self) -> WorkerStats {
        let floor = self.floor();
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let counters = &self.counters;
        WorkerStats {
            running: floor.held.len(),
            stuck: floor.held.iter().filter(|held| held.orders.is_overdue()).count(),
            unsettled: floor.unsettled(),
            completed: count(&counters.completed),
            failed: count(&counters.failed),
            snoozed: count(&counters.snoozed),
            released: count(&counters.released),
            late: count(&counters.late),
            gone: count(&counters.gone),
        }
    }

    // ---- wishes and the end --------------------------------------------------------------------------------

    pub(super) fn wishes(&self) -> watch::Receiver<Wish> {
        self.wish.subscribe()
    }

    pub(super) fn stop(&self) -> Stop {
        self.wish.borrow().stop
    }

    pub(super) fn set_paused(&self, paused: bool) {
        self.wish.send_modify(|wish| wish.paused = paused);
    }

    pub(super) fn ask_stop(&self, stop: Stop) {
        self.wish.send_modify(|wish| wish.stop = wish.stop.max(stop));
    }

    /// Ends when a stop that goes at least this far was asked for.
    pub(super) async fn stop_asked(&self, stop: Stop) {
        // The sender is in `self`: this can't fail.
        let mut wishes = self.wishes();
        let _asked = wishes.wait_for(|wish| wish.stop >= stop).await;
    }

    /// Whether this is called from a handler of this worker.
    pub(super) fn is_inside(&self) -> bool {
        worker_here() == Some(self.key)
    }

    /// Signs out and tells all who wait; only the first call counts.
    pub(super) fn end(&self, how: Result<(), WorkerError>) {
        let first = self.ended.send_if_modified(|ended| match ended {
            Some(_) => false,
            None => {
                *ended = Some(how);
                true
            }
        });
        if first {
            for id in self.identity.all() {
                self.store().withdraw(id);
                self.store().unregister(id);
            }
            self.outbox.notify_one();
        }
    }

    /// The claiming task brings nothing more.
    pub(super) fn no_more_claims(&self) {
        self.claimed_all.store(true, Ordering::Release);
        self.outbox.notify_one();
        self.settled.notify_waiters();
    }

    /// Whether nothing more will come into the outbox.
    pub(super) fn is_over(&self) -> bool {
        self.ended.borrow().is_some() && self.claimed_all.load(Ordering::Acquire)
    }

    pub(super) async fn ended(&self) -> Result<(), WorkerError> {
        let mut ended = self.ended.subscribe();
        match ended.wait_for(Option::is_some).await {
            Ok(how) => how.clone().unwrap_or(Ok(())),
            Err(_) => Ok(()),
        }
    }
}

impl fmt::Debug for Core {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (id, stats) = (self.identity.id(), self.stats());
        f.debug_struct("Worker").field("id", &id).field("stats", &stats).finish_non_exhaustive()
    }
}

/// Signs the worker out when its runtime drops it.
pub(super) struct SignOut(pub(super) Arc<Core>);

impl Drop for SignOut {
    fn drop(&mut self) {
        self.0.end(Err(WorkerError::Store(StoreError::Closed)));
    }
}

/// A number for a worker of this process.
pub(super) fn next_key() -> u64 {
    static KEYS: AtomicU64 = AtomicU64::new(0);
    KEYS.fetch_add(1, Ordering::Relaxed)
}

/// Surrounds a body on a thread of its own as the tasks of the others are.
pub(super) fn scope(key: u64, queue: JobQueue) -> impl Fn(Body) -> Body + Send + Sync + 'static {
    move |body| Box::pin(queue.clone().enter(key, body))
}

/// Lets other tasks run for as long as each turn of theirs makes `size` grow, at most to `enough`: what comes together
/// is taken together.
pub(super) async fn while_it_grows(enough: usize, size: impl Fn() -> usize) {
    let mut last = size();
    loop {
        after_the_others().await;
        let grown = size();
        if grown <= last || grown >= enough {
            return;
        }
        last = grown;
    }
}

/// Lets tasks run that can. Not tokio's `yield_now`: that sets a task aside on its thread until the thread is done
/// with all others, also with one that holds it for long; like this another thread may take it.
async fn after_the_others() {
    let mut waited = false;
    std::future::poll_fn(|cx| {
        if std::mem::replace(&mut waited, true) {
            return std::task::Poll::Ready(());
        }
        cx.waker().wake_by_ref();
        std::task::Poll::Pending
    })
    .await;
}

/// Whether an error will be the same until somebody does something about it: then a worker ends.
pub(super) fn is_final(error: &StoreError) -> bool {
    use StoreError::{Closed, Forked, Moved, Unusable};
    matches!(error, Moved { .. } | Forked { .. } | Unusable { .. } | Closed)
}
