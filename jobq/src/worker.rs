//! Worker: claims jobs, has them executed, settles them; stops gracefully.
//!
//! ```text
//!            ┌───────────── a slot is free ─────────────┐
//!   claiming ──► running: one task a job ──► outbox ──► settling ──► Store::complete / fail / snooze / release
//!      ▲                                                                │
//!      └───────────────────────── room ◄────────────────────────────────┘
//! ```
//! Three tasks do it: the *claiming* one keeps one standing [`Store::claim`] for as many jobs as there are free slots;
//! each claimed job runs in a task of its own; the *settling* one gathers what ended meanwhile and writes it in one call
//! a kind. A slot is free again when its job's end is handed to the settling task, so that the write of that end and the
//! next claim can share one commit; so that a store that can't be written to is not run ahead of, jobs that run and
//! ends that wait are together never more than twice the slots. Sweeps ([`maintenance`](crate::maintenance)) run beside.
//!
//! [`Store::claim`]: crate::store::Store::claim

use crate::{
    enqueue::JobSet,
    executor::{Executor, Watch},
    job::{Timeout, WorkerId},
    limit::Limited,
    maintenance::{Identity, Liveness, Promotion, Prune, RollCall, Sweep, promote_due, repeat, trouble_wait},
    queue::{EnvError, JobQueue, check_queue_name, environment},
    registry::{DataMap, MissingData, Registry, RegistryError},
    store::{NewWorker, Store, StoreError},
    time::Millis,
};
use core::Core;
use std::{any::Any, fmt, sync::Arc, time::Duration};
use tokio::{sync::oneshot, task::JoinSet};

mod claiming;
mod core;
mod settling;
mod stopping;
mod telling;
#[cfg(feature = "cron")]
mod ticking;

pub use core::WorkerStats;
pub use stopping::EXIT_STUCK;
#[cfg(feature = "cron")]
pub(crate) use ticking::lay as lay_schedules;

/// A worker on its way: what it knows, what it lends to its jobs, how much it does at once.
///
/// ```no_run
/// # async fn example(queue: jobq::queue::JobQueue) -> Result<(), Box<dyn std::error::Error>> {
/// use jobq::worker::Worker;
/// Worker::new(&queue).concurrency(8).run().await?; // until SIGTERM or ctrl-c, then a graceful stop
/// # Ok(()) }
/// ```
#[must_use = "a worker does nothing until it is run, started or drained"]
pub struct Worker {
    queue: JobQueue,
    data: DataMap,
    jobs: Option<Vec<&'static str>>,
    expected: Vec<&'static str>,
    settings: Settings,
    own: Option<Registry>,
    watch: Option<Watch>,
}

/// How a worker works.
#[derive(Clone, Debug)]
struct Settings {
    queues: Option<Vec<String>>,
    concurrency: usize,
    timeout: Timeout,
    grace: Duration,
    cancel_grace: Duration,
    poll_interval: Duration,
    heartbeat: Duration,
    rescue_after: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            queues: None,
            concurrency: 2,
            timeout: Timeout::After(Duration::from_secs(3600)),
            grace: Duration::from_secs(30),
            cancel_grace: Duration::from_secs(5),
            poll_interval: Duration::from_millis(500),
            heartbeat: Duration::from_secs(5),
            rescue_after: Duration::from_secs(300),
        }
    }
}

impl Worker {
    /// A worker for all jobs that are linked into this program, on all queues, two jobs at a time.
    pub fn new(queue: &JobQueue) -> Self {
        Self {
            queue: queue.clone(),
            data: DataMap::default(),
            jobs: None,
            expected: Vec::new(),
            settings: Settings::default(),
            own: None,
            watch: None,
        }
    }

    /// The worker of a test: knows exactly these jobs, whether they are linked as they are or not, lends this data, and
    /// `watch` sees how each attempt ends.
    pub(crate) fn watched(queue: &JobQueue, known: Registry, data: DataMap, watch: Watch) -> Self {
        Self { data, own: Some(known), watch: Some(watch), ..Self::new(queue) }
    }

    /// A worker as the environment says; `None` where `WORKER_ENABLED` says that there is to be none.
    ///
    /// | Variable | Unset | |
    /// |---|---|---|
    /// | `WORKER_ENABLED` | `true` | `true`, `1`, `yes`, `on` or `false`, `0`, `no`, `off` |
    /// | `WORKER_CONCURRENCY` | 2 | jobs at a time, 1 to 100,000 |
    /// | `WORKER_POLL_INTERVAL_MS` | 500 | see [`poll_interval`](Self::poll_interval), 1 to 3,600,000 |
    ///
    /// # Errors
    /// [`WorkerError::Env`] names the variable and says what to write.
    pub fn from_env(queue: &JobQueue) -> Result<Option<Self>, WorkerError> {
        Self::from_vars(queue, environment)
    }

    /// The same from wherever a program keeps its settings: `look_up` gives the value of a variable.
    ///
    /// # Errors
    /// As [`from_env`](Self::from_env).
    pub fn from_vars(
        queue: &JobQueue,
        look_up: impl Fn(&str) -> Option<String>,
    ) -> Result<Option<Self>, WorkerError> {
        let number = |most: u64| {
            move |value: &str| match value.parse() {
                Ok(number) if (1..=most).contains(&number) => Ok(number),
                _ => Err(format!("write a whole number from 1 to {most}")),
            }
        };
        let enabled = EnvError::read("WORKER_ENABLED", &look_up, switch)?;
        let concurrency = EnvError::read("WORKER_CONCURRENCY", &look_up, number(MOST_CONCURRENCY as u64))?;
        let poll = EnvError::read("WORKER_POLL_INTERVAL_MS", &look_up, number(3_600_000))?;
        if enabled == Some(false) {
            return Ok(None);
        }
        let mut worker = Self::new(queue);
        if let Some(concurrency) = concurrency {
            worker.settings.concurrency = concurrency as usize;
        }
        if let Some(poll) = poll {
            worker.settings.poll_interval = Duration::from_millis(poll);
        }
        Ok(Some(worker))
    }

    /// Lends `value` to every job with a `#[data]` parameter of this type; a second value of one type replaces the first.
    pub fn data<T: Any + Send + Sync>(mut self, value: T) -> Self {
        self.data.insert(value);
        self
    }

    /// Serves these queues only.
    pub fn queues<Q: Into<String>>(mut self, queues: impl IntoIterator<Item = Q>) -> Self {
        self.settings.queues = Some(queues.into_iter().map(Into::into).collect());
        self
    }

    /// Knows these jobs only: one job function, `.jobs(send_mail)`, or a tuple of them,
    /// `.jobs((send_mail, convert_webp))`. Said twice, both hold.
    pub fn jobs<P>(mut self, jobs: impl JobSet<P>) -> Self {
        self.jobs.get_or_insert_default().extend(jobs.job_types());
        self
    }

    /// Refuses to start where one of these jobs, given as for [`jobs`](Self::jobs), is not linked into the program.
    pub fn expect<P>(mut self, jobs: impl JobSet<P>) -> Self {
        self.expected.extend(jobs.job_types());
        self
    }

    /// Runs up to this many jobs at a time, 1 to 100,000; by default 2. No job is claimed before there is a free slot.
    pub fn concurrency(mut self, jobs: usize) -> Self {
        self.settings.concurrency = jobs;
        self
    }

    /// How long one attempt may take where neither enqueue nor attribute says it; by default one hour.
    pub fn timeout(mut self, timeout: impl Into<Timeout>) -> Self {
        self.settings.timeout = timeout.into();
        self
    }

    /// How long running jobs are let run at a graceful stop before they are cancelled; by default 30 s.
    pub fn grace(mut self, grace: Duration) -> Self {
        self.settings.grace = grace;
        self
    }

    /// How long the handler of a job that was [cancelled](JobQueue::cancel) while it ran may take to end by itself, once
    /// `ctx.cancelled()` has fired; by default 5 s. Then it is dropped where it awaits. A `blocking` one keeps its slot, as
    /// [`WorkerStats::stuck`], until it returns.
    pub fn cancel_grace(mut self, grace: Duration) -> Self {
        self.settings.cancel_grace = grace;
        self
    }

    /// How often the store is looked at although nothing was heard of it; by default every 500 ms, 15 % more or less.
    /// Work is normally heard of at once; this is the net below.
    pub fn poll_interval(mut self, every: Duration) -> Self {
        self.settings.poll_interval = every;
        self
    }

    /// How often the store beats for this worker; by default every 5 s.
    pub fn heartbeat(mut self, every: Duration) -> Self {
        self.settings.heartbeat = every;
        self
    }

    /// After how long without a beat a worker of another machine is lost and its jobs are taken; by default 5 min, at
    /// least two heartbeats. A worker that was killed on this machine is noticed at once.
    pub fn rescue_after(mut self, silence: Duration) -> Self {
        self.settings.rescue_after = silence;
        self
    }

    /// Starts it, in tasks of the runtime that this is called in.
    ///
    /// While the storage is in trouble (locked, full) this waits, and says so in the log.
    ///
    /// # Errors
    /// [`WorkerError::Registry`]: two jobs share a name, or an expected one is not linked. [`WorkerError::MissingData`]:
    /// a job needs `#[data]` that was not given; all such are named. [`WorkerError::Settings`]: times that contradict
    /// one another. [`WorkerError::Store`]: the storage can't be used at all.
    ///
    /// # Cancel safety
    /// Dropped before it has ended, it leaves no worker.
    pub async fn start(self) -> Result<WorkerHandle, WorkerError> {
        self.begin(false).await
    }

    /// Runs what is due and returns: claims until nothing is due and nothing runs, jobs included that became due
    /// meanwhile; does not wait for those of the future. Jobs of lost workers are rescued first, old finished jobs are
    /// pruned last.
    ///
    /// This is the worker to be started every minute by cron. It does not listen to signals.
    ///
    /// # Errors
    /// As [`start`](Self::start).
    ///
    /// # Cancel safety
    /// Dropped, it stops as a dropped [`WorkerHandle`] does.
    pub async fn drain(self) -> Result<WorkerStats, WorkerError> {
        let queue = self.queue.clone();
        let handle = self.begin(true).await?;
        handle.ended().await?;
        // It may be the only worker that there ever is.
        if let Err(error) = queue.prune().await {
            tracing::warn!(%error, "old finished jobs could not be deleted; the next worker tries again");
        }
        Ok(handle.stats())
    }

    async fn begin(self, drains: bool) -> Result<WorkerHandle, WorkerError> {
        self.settings.check()?;
        let known = self.known()?;
        let (ready, started) = oneshot::channel();
        tokio::spawn(attend(self, known, drains, ready));
        started.await.map_err(|_| WorkerError::Store(StoreError::Closed))?
    }

    /// The jobs of its set, if all that they and it ask for is there.
    fn known(&self) -> Result<Registry, WorkerError> {
        let linked = Registry::linked()?;
        linked.pick(&self.expected)?;
        let known = match (&self.own, &self.jobs) {
            (Some(own), _) => own.clone(),
            (None, Some(jobs)) => linked.pick(jobs)?,
            (None, None) => linked.clone(),
        };
        if known.is_empty() {
            tracing::warn!(
                "this worker knows no job: is the crate that has them named anywhere in the program?"
            );
        }
        let missing = known.missing(&self.data);
        if !missing.is_empty() {
            return Err(WorkerError::MissingData(missing));
        }
        Ok(known)
    }
}

fn switch(value: &str) -> Result<bool, String> {
    match value.to_ascii_lowercase().as_str() {
        "true" | "1" | "yes" | "on" => Ok(true),
        "false" | "0" | "no" | "off" => Ok(false),
        _ => Err("write true or false".to_owned()),
    }
}

const MOST_CONCURRENCY: usize = 100_000;

impl Settings {
    fn check(&self) -> Result<(), WorkerError> {
        let wrong = |why: String| Err(WorkerError::Settings(why));
        if !(1..=MOST_CONCURRENCY).contains(&self.concurrency) {
            return wrong(format!("concurrency is {}; it is 1 to {MOST_CONCURRENCY}", self.concurrency));
        }
        let times = [
            ("poll_interval", self.poll_interval),
            ("heartbeat", self.heartbeat),
            ("rescue_after", self.rescue_after),
        ];
        for (name, time) in times {
            if time < Duration::from_millis(1) {
                return wrong(format!("{name} is {time:?}; it is at least 1 ms"));
            }
        }
        if self.timeout == Timeout::After(Duration::ZERO) {
            return wrong("timeout is 0, and every job would fail; Timeout::Never means none".into());
        }
        if self.rescue_after < self.heartbeat.saturating_mul(2) {
            let (rescue, beat) = (self.rescue_after, self.heartbeat);
            return wrong(format!(
                "rescue_after is {rescue:?} and heartbeat {beat:?}: one late beat would cost a living worker its \
                 jobs; make rescue_after at least twice the heartbeat"
            ));
        }
        match &self.queues {
            Some(queues) if queues.is_empty() => {
                wrong("queues is empty; name one, or leave it out for all".into())
            }
            Some(queues) => queues
                .iter()
                .try_for_each(|queue| check_queue_name(queue))
                .or_else(|bad| wrong(format!("queues: {bad}"))),
            None => Ok(()),
        }
    }

    fn sign(&self) -> NewWorker {
        let queues = self.queues.as_ref().map_or_else(|| "all".to_owned(), |queues| queues.join(", "));
        NewWorker { beat: self.heartbeat, queues }
    }
}

// ---- a started worker --------------------------------------------------------------------------------------

/// The handle goes with the answer: should nobody take it, it is dropped, and the worker stops.
type Ready = oneshot::Sender<Result<WorkerHandle, WorkerError>>;

/// The life of a worker, from signing in to signing out.
async fn attend(worker: Worker, known: Registry, drains: bool, ready: Ready) {
    let core = match sign_in(worker, known, &ready).await {
        Ok(Some(core)) => core,
        Ok(None) => return,
        Err(error) => return drop(ready.send(Err(error))),
    };
    let _guard = core::SignOut(core.clone());
    // Whoever started it may be gone: what nobody can stop is not to run.
    if ready.send(Ok(WorkerHandle { core: core.clone() })).is_ok() {
        let ended = work(&core, drains).await;
        let WorkerStats { completed, failed, released, .. } = core.stats();
        tracing::info!(worker = %core.identity().id(), completed, failed, released, "the worker has stopped");
        core.end(ended.map_err(WorkerError::Store));
    }
}

/// Claims, runs and settles until a stop, or until the store can't be used any more.
async fn work(core: &Arc<Core>, drains: bool) -> Result<(), StoreError> {
    let mut sweeps = JoinSet::new();
    start_sweeps(core, &mut sweeps, drains).await?;
    // Neither is ended by force: a claim's answer that comes late is given back, an end that is not stored yet is
    // tried until the store takes it, both also after the worker has ended.
    let mut settling = tokio::spawn(settling::settle(core.clone()));
    let mut claiming = tokio::spawn(claiming::claim(core.clone(), drains));
    let ended = tokio::select! {
        () = core.stop_asked(core::Stop::Graceful) => Ok(()),
        claimed = &mut claiming => claimed.unwrap_or(Err(StoreError::Closed)),
        _ = &mut settling => Err(StoreError::Closed),
    };
    stopping::wind_down(core).await;
    sweeps.shutdown().await;
    ended
}

/// Signs in; trouble of the store is waited out. `None`: nobody waits for it any more.
async fn sign_in(worker: Worker, known: Registry, ready: &Ready) -> Result<Option<Arc<Core>>, WorkerError> {
    let Worker { queue, data, settings, watch, .. } = worker;
    let (store, clock) = (queue.store().clone(), queue.clock().clone());
    let mut failures = 0;
    let id = loop {
        let entered = async {
            declare_limits(&*store, &known, clock.now()).await?;
            store.register(settings.sign(), clock.now()).await
        };
        match entered.await {
            Ok(id) => break id,
            Err(error) if !error.is_transient() => return Err(WorkerError::Store(error)),
            Err(_) if ready.is_closed() => return Ok(None),
            Err(error) => {
                failures += 1;
                let wait = trouble_wait(failures);
                tracing::warn!(%error, failures, ?wait, "the worker waits for the store to sign in");
                clock.sleep(wait).await;
            }
        }
    };
    let (jobs, concurrency) = (known.len(), settings.concurrency);
    tracing::info!(worker = %id, store = store.describe(), jobs, concurrency, "the worker has started");
    let key = core::next_key();
    let scope = core::scope(key, queue.clone());
    let keys = queue.secret_keys().cloned();
    let executor = Executor::new(Arc::new(data), clock, settings.timeout, scope).watched(watch).opening(keys);
    let identity = Identity::new(settings.sign(), id);
    Ok(Some(Core::new(key, queue, settings, known, identity, executor)))
}

/// Says what the types of this worker limit, before its first claim. Where the store knows it, nothing is written.
async fn declare_limits(store: &dyn Store, known: &Registry, now: Millis) -> Result<(), StoreError> {
    let rows = store.limits(now).await?;
    let declared = |job_type: &str| {
        let row = rows.iter().find(|row| row.of == Limited::JobType(job_type.to_owned()));
        row.and_then(|row| row.declared).unwrap_or_default()
    };
    let types = known.iter().flat_map(|entry| entry.names().map(|name| (name, entry.defaults.limits)));
    let changed = types.filter(|(job_type, bounds)| declared(job_type) != *bounds);
    let changed: Vec<_> = changed.map(|(job_type, bounds)| (job_type.to_owned(), bounds)).collect();
    if changed.is_empty() {
        return Ok(());
    }
    store.declare_limits(changed, now).await
}

/// Starts what runs beside the loop. A worker that drains rescues and promotes first, since it may not be there for
/// long.
async fn start_sweeps(core: &Arc<Core>, sweeps: &mut JoinSet<()>, drains: bool) -> Result<(), StoreError> {
    let (store, clock) = (core.store().clone(), core.clock().clone());
    let settings = core.settings();
    let liveness = Liveness::new(settings.rescue_after, settings.heartbeat);
    let identity = core.identity().clone();
    let mut roll_call = RollCall {
        store: store.clone(),
        clock: clock.clone(),
        identity,
        liveness,
        max_attempts: core.queue().default_max_attempts(),
        left: Default::default(),
    };
    #[cfg(feature = "cron")]
    let mut ticking = ticking::Ticking::new(core.clone());
    if drains {
        let first = async {
            roll_call.call().await?;
            #[cfg(feature = "cron")]
            ticking.tick().await?;
            promote_due(&*store, &*clock).await
        };
        match first.await {
            Err(error) if core::is_final(&error) => return Err(error),
            Err(error) => {
                tracing::warn!(%error, "the first rescue, ticks and promotion failed and will be tried again")
            }
            Ok(_) => {}
        }
    }
    let promotion = Promotion {
        store: store.clone(),
        clock: clock.clone(),
        set: core.set().clone(),
        identity: core.identity().clone(),
        asking: core.asking().clone(),
        changed: store.changed(),
        poll: settings.poll_interval,
        polled: false,
        next_start_at: None,
    };
    let prune = Prune { store, clock, keep: core.queue().retention() };
    spawn_sweep(core, sweeps, roll_call);
    spawn_sweep(core, sweeps, promotion);
    spawn_sweep(core, sweeps, prune);
    #[cfg(feature = "cron")]
    spawn_sweep(core, sweeps, ticking);
    spawn_sweep(core, sweeps, claiming::LeaseCheck::new(core.clone()));
    spawn_sweep(core, sweeps, telling::Telling { core: core.clone() });
    spawn_sweep(core, sweeps, claiming::CancelCheck::new(core.clone()));
    Ok(())
}

fn spawn_sweep(core: &Core, sweeps: &mut JoinSet<()>, sweep: impl Sweep) {
    sweeps.spawn(repeat(sweep, core.clock().clone(), core.quiet().clone()));
}

/// A started worker.
///
/// Dropping the handle stops the worker without waiting: its beats end, async handlers are dropped and their jobs given
/// back as far as the runtime still runs. To let running jobs finish, [`stop`](Self::stop) it.
#[derive(Debug)]
pub struct WorkerHandle {
    core: Arc<Core>,
}

impl WorkerHandle {
    /// Its name in the store. A worker that was taken for lost signs in anew and has another one then.
    pub fn id(&self) -> WorkerId {
        self.core.identity().id()
    }

    /// Claims no more; jobs that run go on. What a claim under way brings is given back, so that no job starts after
    /// this returns.
    pub fn pause(&self) {
        self.core.set_paused(true);
    }

    /// Claims again.
    pub fn resume(&self) {
        self.core.set_paused(false);
    }

    /// Waits until no job runs and every end is stored, at most `timeout`; whether it came to that. Of use after
    /// [`pause`](Self::pause).
    pub async fn wait_for_active(&self, timeout: Duration) -> bool {
        tokio::select! {
            biased;
            () = self.core.all_settled() => true,
            () = self.core.clock().sleep(timeout) => false,
        }
    }

    /// Stops gracefully: claims no more, lets running jobs finish for the grace while the store beats on, then cancels
    /// them, within 2 s drops those that go on, gives their jobs back and signs out.
    ///
    /// May be called at any time, more than once and in parallel; each call returns when the worker has ended. Called
    /// from one of its own handlers it returns at once, since it would wait for itself.
    ///
    /// # Errors
    /// The reason, where the worker had already ended because the storage could not be used any more.
    ///
    /// # Cancel safety
    /// The stop goes on when the future is dropped.
    pub async fn stop(&self) -> Result<(), WorkerError> {
        self.core.ask_stop(core::Stop::Graceful);
        if self.core.is_inside() { Ok(()) } else { self.ended().await }
    }

    /// Stops within 2 s: as [`stop`](Self::stop) after its grace. Also hurries a stop that is under way.
    ///
    /// # Errors
    /// As [`stop`](Self::stop).
    ///
    /// # Cancel safety
    /// As [`stop`](Self::stop).
    pub async fn stop_now(&self) -> Result<(), WorkerError> {
        self.core.ask_stop(core::Stop::Now);
        if self.core.is_inside() { Ok(()) } else { self.ended().await }
    }

    /// Waits until the worker has ended, by a stop or because the storage can't be used any more.
    ///
    /// # Errors
    /// [`WorkerError::Store`] in the latter case.
    pub async fn ended(&self) -> Result<(), WorkerError> {
        self.core.ended().await
    }

    /// What it does and what it has done so far.
    pub fn stats(&self) -> WorkerStats {
        self.core.stats()
    }
}

impl Drop for WorkerHandle {
    fn drop(&mut self) {
        self.core.ask_stop(core::Stop::Dropped);
    }
}

/// Why a worker did not start, or ended.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WorkerError {
    /// Two jobs share a name, or one that is expected is not linked.
    #[error(transparent)]
    Registry(#[from] RegistryError),
    /// `#[data]` that jobs of the worker's set need and that it was not given.
    #[error("the worker lacks data for its jobs, give it with `.data(value)`: {}", Listed(.0))]
    MissingData(Vec<MissingData>),
    /// Settings that can't be used together.
    #[error("{0}")]
    Settings(String),
    /// An environment variable can't be used.
    #[error(transparent)]
    Env(#[from] EnvError),
    /// The signals of the process can't be listened to.
    #[error("signals can't be listened to: {0}")]
    Signals(Arc<std::io::Error>),
    /// The storage can't be used.
    #[error(transparent)]
    Store(#[from] StoreError),
}

struct Listed<'a>(&'a [MissingData]);

impl fmt::Display for Listed<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, missing) in self.0.iter().enumerate() {
            let between = if place == 0 { "" } else { "; " };
            write!(f, "{between}{missing}")?;
        }
        Ok(())
    }
}
