//! The ground of the worker's tests: a queue in memory under a clock that only the test moves, jobs that wait at gates,
//! a store that fails on demand, and the log.

pub use crate::rigged::{Rigged, busy};
use jobq::{
    Clock, JobRow, JobState, ManualClock, MemoryStore, WorkerId,
    job::{Attempt, JobId, NewJob},
    prelude::*,
    store::*,
    worker::{Worker, WorkerHandle},
};
use std::{
    collections::HashMap,
    future::Future,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};
use tokio::sync::Notify;

/// A queue that stands on nothing else.
pub struct Ground {
    pub clock: ManualClock,
    pub memory: MemoryStore,
    pub rig: Rigged,
    pub queue: JobQueue,
    pub stage: Stage,
}

pub fn ground() -> Ground {
    let clock = ManualClock::default();
    let memory = MemoryStore::new();
    let rig = Rigged::over(memory.clone());
    let queue = JobQueue::with_store(Arc::new(rig.clone()), Arc::new(clock.clone()));
    Ground { clock, memory, rig, queue, stage: Stage::default() }
}

impl Ground {
    /// A worker with the stage for its jobs.
    pub fn worker(&self) -> Worker {
        Worker::new(&self.queue).data(self.stage.clone())
    }

    /// One that knows `gated` and `says`, with this many slots.
    pub async fn start(&self, concurrency: usize) -> WorkerHandle {
        self.worker().jobs((gated, says, stubborn)).concurrency(concurrency).start().await.unwrap()
    }

    /// Enqueues a job that waits at its gate.
    pub async fn gated(&self, n: u32) -> JobId {
        gated.enqueue(n).on(&self.queue).await.unwrap().id()
    }

    /// Enqueues a job that ends as `what` says.
    pub async fn says(&self, what: &str) -> JobId {
        says.enqueue(what.to_owned()).on(&self.queue).await.unwrap().id()
    }

    /// A job that no worker here knows: whatever happens, it is not to be touched.
    pub async fn bystander(&self) -> Bystander {
        let new = NewJob::new("nobody:knows", "{}");
        let id = self.memory.enqueue(vec![new], self.clock.now()).await.unwrap()[0].id;
        Bystander(self.row(id).await)
    }

    pub async fn untouched(&self, Bystander(before): Bystander) {
        assert_eq!(self.row(before.id).await, before, "the bystander was touched");
    }

    pub async fn row(&self, id: JobId) -> JobRow {
        self.memory.get(id).await.unwrap().expect("the row is there")
    }

    pub async fn state(&self, id: JobId) -> JobState {
        self.row(id).await.state
    }

    pub async fn attempts(&self, id: JobId) -> Vec<Attempt> {
        self.memory.attempts(id).await.unwrap()
    }

    pub async fn workers(&self) -> Vec<WorkerId> {
        self.memory.workers().await.unwrap().into_iter().map(|worker| worker.id).collect()
    }

    /// Waits until the job is in this state.
    pub async fn until_state(&self, id: JobId, state: JobState) {
        until(format!("{id} is {state}"), async || self.state(id).await == state).await;
    }

    /// Moves the clock on, in steps that let everything that wakes come to rest in between.
    pub async fn pass(&self, time: Duration) {
        let step = Duration::from_millis(50);
        let mut left = time;
        while !left.is_zero() {
            self.clock.advance(left.min(step));
            left = left.saturating_sub(step);
            rest().await;
        }
    }

    /// Moves the clock on until this is so, at most an hour.
    pub async fn pass_until(&self, what: &str, so: impl AsyncFn() -> bool) {
        for _ in 0..72_000 {
            if so().await {
                return;
            }
            self.pass(Duration::from_millis(50)).await;
        }
        panic!("an hour has passed and it is not so: {what}");
    }

    /// Takes a running job from its worker and gives it to nobody, as a rescuer would.
    pub async fn rob(&self, id: JobId, next: Next) {
        let lease = self.row(id).await.lease;
        let rescue = Rescue {
            id,
            lease,
            error: "robbed by the test".into(),
            next,
            ties: jobq::store::Ties::ALL,
            on_dead: None,
        };
        let settled = self.memory.rescue(vec![rescue], self.clock.now()).await.unwrap();
        assert_eq!(settled, [Settled::Applied]);
    }
}

pub struct Bystander(JobRow);

/// Lets all tasks of a current-thread runtime run until they wait for something.
pub async fn rest() {
    for _ in 0..30 {
        tokio::task::yield_now().await;
    }
}

/// Waits in real time, without moving the manual clock, until this is so.
pub async fn until(what: impl std::fmt::Display, so: impl AsyncFn() -> bool) {
    let patience = Instant::now() + Duration::from_secs(30);
    while !so().await {
        assert!(Instant::now() < patience, "30 s have passed and it is not so: {what}");
        tokio::task::yield_now().await;
    }
}

/// This future ends without the manual clock being moved.
pub async fn at_once<F: Future>(what: &str, future: F) -> F::Output {
    let real = tokio::time::timeout(Duration::from_secs(30), future).await;
    real.unwrap_or_else(|_| panic!("does not end by itself: {what}"))
}

// ---- jobs ------------------------------------------------------------------------------------------------------

/// What the jobs of one test share: who is on, and who may go on.
#[derive(Clone, Default)]
pub struct Stage(Arc<Inside>);

#[derive(Default)]
struct Inside {
    entered: Mutex<Vec<u32>>,
    open: Mutex<HashMap<u32, bool>>,
    opened: Notify,
    told: AtomicUsize,
    dropped: AtomicUsize,
    on: AtomicUsize,
    most: AtomicUsize,
}

impl Stage {
    /// Who has come on, in order.
    pub fn entered(&self) -> Vec<u32> {
        self.0.entered.lock().unwrap().clone()
    }

    pub fn enter(&self, n: u32) -> OnStage {
        self.0.entered.lock().unwrap().push(n);
        let on = self.0.on.fetch_add(1, Ordering::SeqCst) + 1;
        self.0.most.fetch_max(on, Ordering::SeqCst);
        OnStage(self.clone())
    }

    /// Lets job `n` go on, now or when it comes.
    pub fn open(&self, n: u32) {
        self.0.open.lock().unwrap().insert(n, true);
        self.0.opened.notify_waiters();
    }

    pub async fn passes(&self, n: u32) {
        loop {
            let change = self.0.opened.notified();
            if self.is_open(n) {
                return;
            }
            change.await;
        }
    }

    pub fn is_open(&self, n: u32) -> bool {
        self.0.open.lock().unwrap().get(&n).copied().unwrap_or(false)
    }

    /// How many handlers saw `ctx.cancelled()` fire.
    pub fn told(&self) -> usize {
        self.0.told.load(Ordering::SeqCst)
    }

    /// How many handlers are over, in whatever way.
    pub fn left(&self) -> usize {
        self.0.dropped.load(Ordering::SeqCst)
    }

    /// The most handlers that were on at once.
    pub fn most(&self) -> usize {
        self.0.most.load(Ordering::SeqCst)
    }

    pub async fn until_entered(&self, count: usize) {
        until(format!("{count} jobs have started"), async || self.entered().len() >= count).await;
    }
}

pub struct OnStage(Stage);

impl Drop for OnStage {
    fn drop(&mut self) {
        self.0.0.on.fetch_sub(1, Ordering::SeqCst);
        self.0.0.dropped.fetch_add(1, Ordering::SeqCst);
    }
}

/// Comes on, waits at its gate, gives its number; told to stop, it says so and waits on.
#[job(type = "ground:gated", max_attempts = 3)]
pub async fn gated(ctx: &JobContext, #[data] stage: &Stage, n: u32) -> Result<u32, JobError> {
    let _on = stage.enter(n);
    tokio::select! {
        () = stage.passes(n) => return Ok(n),
        () = ctx.cancelled() => stage.0.told.fetch_add(1, Ordering::SeqCst),
    };
    stage.passes(n).await;
    Ok(n)
}

/// Comes on and does not end before its gate opens, on a thread of its own, whatever it is told.
#[job(type = "ground:stubborn", max_attempts = 3, blocking)]
pub fn stubborn(ctx: &JobContext, #[data] stage: &Stage, n: u32) -> Result<u32, JobError> {
    let _on = stage.enter(n);
    let mut told = false;
    while !stage.is_open(n) {
        if ctx.is_cancelled() && !told {
            told = true;
            stage.0.told.fetch_add(1, Ordering::SeqCst);
        }
        std::thread::yield_now();
    }
    Ok(n)
}

/// Ends at once, as it is told.
#[job(type = "ground:says", max_attempts = 3)]
pub async fn says(ctx: &JobContext, #[data] stage: &Stage, what: String) -> Result<String, JobError> {
    let _on = stage.enter(ctx.attempt());
    match what.as_str() {
        "panic" => panic!("out of luck"),
        "panic with a String" => panic!("{}", "ü".repeat(5000)),
        "panic with a number" => std::panic::panic_any(7),
        "dead" => Err(JobError::dead("never again")),
        "cancel" => Err(JobError::cancel("no longer wanted")),
        "snooze" => Err(JobError::snooze(secs(60))),
        "retry in 77 s" => Err(JobError::retry_in(secs(77), "later")),
        "too much" => Ok("x".repeat(2 << 20)),
        "a long story" => Err(JobError::new("ü".repeat(100_000))),
        "unwritable" => Err(JobError::new(Unwritable)),
        "fails" => Err(JobError::new("no luck")),
        "fails twice" if ctx.attempt() < 3 => Err(JobError::new("not yet")),
        "io error" => Err(std::io::Error::other("no such device"))?,
        "never" => std::future::pending().await,
        _ => Ok(what),
    }
}

#[derive(Debug)]
struct Unwritable;

impl std::fmt::Display for Unwritable {
    fn fmt(&self, _: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        panic!("an error that can't be written")
    }
}

impl std::error::Error for Unwritable {}

// ---- the log ---------------------------------------------------------------------------------------------------

/// What is logged on this thread while it lives.
pub struct Log {
    lines: Arc<Mutex<Vec<u8>>>,
    _here: tracing::subscriber::DefaultGuard,
}

pub fn log() -> Log {
    log_of(tracing::Level::INFO)
}

/// The same, with all that is said at this level.
pub fn log_of(level: tracing::Level) -> Log {
    let lines: Arc<Mutex<Vec<u8>>> = Arc::default();
    let to = lines.clone();
    let subscriber = tracing_subscriber::fmt()
        .with_ansi(false)
        .with_writer(move || Writing(to.clone()))
        .with_max_level(level)
        .finish();
    Log { lines, _here: tracing::subscriber::set_default(subscriber) }
}

struct Writing(Arc<Mutex<Vec<u8>>>);

impl std::io::Write for Writing {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl Log {
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.lines.lock().unwrap()).into_owned()
    }

    pub fn lines_with(&self, word: &str) -> usize {
        self.text().lines().filter(|line| line.contains(word)).count()
    }
}
