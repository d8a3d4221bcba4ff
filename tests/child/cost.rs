//! What acts cost: the statements of the writing thread, transaction by transaction, as `jobq::sql` tells them.

use jobq::{
    JobQueue, ManualClock, Worker, WorkerHandle,
    job::NewJob,
    prelude::*,
    store::sqlite::{SqliteOptions, SqliteStore},
};
use std::{
    future::poll_fn,
    path::Path,
    pin::pin,
    sync::{
        Arc, Condvar, LazyLock, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst},
    },
    task::Poll,
    time::{Duration, Instant},
};
use tokio::{sync::watch, task::yield_now};
use tracing_subscriber::{Layer, filter::Targets, layer::SubscriberExt, util::SubscriberInitExt};

/// What no log may ever show.
const ADDRESS: &str = "ada.lovelace.of.the.analytical.engine@example.org";

/// The job whose cost is told; its payload is about 100 bytes.
#[job(type = "cost:mail")]
async fn mail(number: u64, to: String, template: String) {
    let _ = (number, to, template);
    RUNNING.fetch_add(1, SeqCst);
    // Those of one claim end together, when they are let.
    LET_GO.subscribe().wait_for(|let_go| *let_go).await.expect("the sender is a static");
}

static RUNNING: AtomicUsize = AtomicUsize::new(0);
static LET_GO: LazyLock<watch::Sender<bool>> = LazyLock::new(|| watch::Sender::new(false));

fn payload(number: u64) -> Mail {
    Mail { number, to: ADDRESS.into(), template: "welcome to the service".into() }
}

// ---- what the writing thread is heard to do --------------------------------------------------------------

/// The transactions so far: the statements of each, its BEGIN and its COMMIT included.
static DONE: Mutex<Vec<Vec<String>>> = Mutex::new(Vec::new());
/// Those since the latest BEGIN, or looks without a transaction.
static SINCE: Mutex<Vec<String>> = Mutex::new(Vec::new());
/// Whether the writing thread is to stop at its next BEGIN, until it is not.
static SHUT: Mutex<bool> = Mutex::new(false);
static OPENED: Condvar = Condvar::new();
static AT_THE_DOOR: AtomicBool = AtomicBool::new(false);
/// Whether a commit takes longer than it is from one sign of life to the next.
static SLOW_COMMITS: AtomicBool = AtomicBool::new(false);
const BEAT: Duration = Duration::from_millis(10);

struct Ear;

impl<S: tracing::Subscriber> Layer<S> for Ear {
    fn on_event(&self, event: &tracing::Event<'_>, _: tracing_subscriber::layer::Context<'_, S>) {
        if std::thread::current().name() != Some("jobq-write") {
            return;
        }
        let mut told = String::new();
        event.record(&mut |field: &tracing::field::Field, value: &dyn std::fmt::Debug| {
            assert_eq!(field.name(), "message");
            told = format!("{value:?}");
        });
        let mut since = lock(&SINCE);
        match told.as_str() {
            // Looks before it hold no lock; an earlier one was refused.
            "BEGIN IMMEDIATE" => {
                *since = vec![told];
                drop(since);
                AT_THE_DOOR.store(true, SeqCst);
                drop(OPENED.wait_while(lock(&SHUT), |shut| *shut));
                AT_THE_DOOR.store(false, SeqCst);
            }
            "COMMIT" => {
                let began = Instant::now();
                while SLOW_COMMITS.load(SeqCst) && began.elapsed() < 2 * BEAT {
                    std::hint::spin_loop();
                }
                since.push(told);
                lock(&DONE).push(std::mem::take(&mut since));
            }
            _ => since.push(told),
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Listens to all that this process's queues run from now on.
pub fn listen() {
    let statements = Targets::new().with_target("jobq::sql", tracing::Level::TRACE);
    tracing_subscriber::registry().with(Ear.with_filter(statements)).init();
}

// ---- the acts ---------------------------------------------------------------------------------------------

/// Does what `act` names when it is told to, and tells the transactions of that.
pub async fn cost(path: &str, act: &str) {
    let clock = Arc::new(ManualClock::default());
    let store = SqliteStore::open(SqliteOptions::new(Path::new(path)).clock(clock.clone())).await.unwrap();
    let queue = JobQueue::with_store(Arc::new(store), clock);
    let bystander = NewJob::new("nobody:knows", r#"{"untouched":true}"#);
    let bystander = queue.store().enqueue(vec![bystander], 1).await.unwrap()[0].id;
    let before = queue.get(bystander).await.unwrap();
    // Lanes are laid once, and that is nobody's cost.
    queue.enqueue_all([payload(0)]).await.unwrap();
    queue.store().delete(cancelled(&queue).await, 1).await.unwrap();
    match act {
        "one" => {
            told_to().await;
            queue.enqueue_all([payload(1)]).await.unwrap();
        }
        "all" => {
            told_to().await;
            queue.enqueue_all((0..100).map(payload)).await.unwrap();
        }
        "together" => together(&queue).await,
        "idle" => idle(&queue).await,
        "backlog" => backlog(&queue).await,
        "alone" => alone(&queue).await,
        "large" => large(&queue).await,
        "beats" => beats(&queue).await,
        "slow" => slow(path, &queue).await,
        _ => panic!("unknown: {act}"),
    }
    println!("did {}", serde_json::to_string(&*lock(&DONE)).unwrap());
    crate::heard();
    assert_eq!(queue.get(bystander).await.unwrap(), before, "the bystander was touched");
    println!("well");
}

async fn cancelled(queue: &JobQueue) -> Vec<jobq::JobId> {
    let filter = jobq::JobFilter { job_type: Some("cost:mail".into()), ..Default::default() };
    let ids: Vec<_> = queue.list(filter).await.unwrap().iter().map(|row| row.id).collect();
    queue.store().cancel(ids.clone(), 1).await.unwrap();
    ids
}

/// What comes before is not counted.
async fn told_to() {
    println!("ready");
    crate::heard();
    lock(&DONE).clear();
}

async fn until(so: impl Fn() -> bool) {
    while !so() {
        yield_now().await;
    }
}

/// Holds the writing thread in a transaction of one act, has these enqueue meanwhile, and lets it go on.
async fn behind_the_door(queue: &JobQueue, waiting: Vec<Vec<Mail>>) {
    *lock(&SHUT) = true;
    let enqueue = |jobs: Vec<Mail>| {
        let queue = queue.clone();
        async move {
            let mut enqueued = pin!(queue.enqueue_all(jobs).into_future());
            // From its first poll on it is in the writing thread's hand.
            let polled = poll_fn(|cx| Poll::Ready(enqueued.as_mut().poll(cx))).await;
            RUNNING.fetch_add(1, SeqCst);
            match polled {
                Poll::Ready(landed) => landed,
                Poll::Pending => enqueued.await,
            }
        }
    };
    let first = tokio::spawn(enqueue(vec![payload(0)]));
    until(|| AT_THE_DOOR.load(SeqCst)).await;
    let tasks = waiting.len();
    let waiting: Vec<_> = waiting.into_iter().map(|jobs| tokio::spawn(enqueue(jobs))).collect();
    until(|| RUNNING.load(SeqCst) == tasks + 1).await;
    *lock(&SHUT) = false;
    OPENED.notify_one();
    for landed in [first].into_iter().chain(waiting) {
        landed.await.unwrap().unwrap();
    }
}

/// Behind one act, 64 tasks with one job each.
async fn together(queue: &JobQueue) {
    told_to().await;
    behind_the_door(queue, (0..64).map(|number| vec![payload(number)]).collect()).await;
}

/// Behind one act, 25 with 1,000 jobs each.
async fn large(queue: &JobQueue) {
    told_to().await;
    behind_the_door(queue, (0..25).map(|_| (0..1000).map(payload).collect()).collect()).await;
}

/// Behind one act, four with 1,000 jobs each, which take longer than a transaction takes up new ones.
async fn slow(path: &str, queue: &JobQueue) {
    crate::connection(path)
        .execute_batch(
            "CREATE TRIGGER slow AFTER INSERT ON jobs BEGIN SELECT (WITH RECURSIVE counted(n) AS
                (SELECT 1 UNION ALL SELECT n + 1 FROM counted WHERE n < 1000) SELECT sum(n) FROM counted); END",
        )
        .unwrap();
    told_to().await;
    behind_the_door(queue, (0..4).map(|_| (0..1000).map(payload).collect()).collect()).await;
}

/// Twenty, each awaited before the next.
async fn alone(queue: &JobQueue) {
    told_to().await;
    for number in 0..20 {
        queue.enqueue_all([payload(number)]).await.unwrap();
    }
}

async fn worker(queue: &JobQueue, slots: usize) -> WorkerHandle {
    let hour = Duration::from_secs(3600);
    beating(queue, slots, hour).await
}

async fn beating(queue: &JobQueue, slots: usize, beat: Duration) -> WorkerHandle {
    let worker = Worker::new(queue).jobs((mail,)).concurrency(slots).heartbeat(beat).rescue_after(beat * 3);
    worker.start().await.unwrap()
}

/// Lets the jobs that were claimed end, together and without another claim.
async fn end(worker: &WorkerHandle, jobs: usize) {
    until(|| RUNNING.load(SeqCst) == jobs).await;
    worker.pause();
    LET_GO.send_replace(true);
    assert!(worker.wait_for_active(Duration::from_secs(20)).await);
    assert_eq!(worker.stats().completed, jobs as u64);
}

/// One job for a worker whose claim stands.
async fn idle(queue: &JobQueue) {
    let worker = worker(queue, 1).await;
    // A claim that comes to nothing begins no transaction, but is heard to look.
    let looks = || lock(&SINCE).iter().any(|sql| sql.contains("jobs_ready"));
    until(looks).await;
    told_to().await;
    queue.enqueue_all([payload(1)]).await.unwrap();
    end(&worker, 1).await;
}

/// A hundred jobs that wait for a worker that takes as many at once, half of its slots; the first transaction is its signing in.
async fn backlog(queue: &JobQueue) {
    queue.enqueue_all((0..100).map(payload)).await.unwrap();
    told_to().await;
    let worker = worker(queue, 200).await;
    end(&worker, 100).await;
}

/// Twenty beside a worker, one after the other, each after a slow commit.
async fn beats(queue: &JobQueue) {
    let _worker = beating(queue, 1, BEAT).await;
    let enqueue = || queue.store().enqueue(vec![NewJob::new("nobody:knows", "{}")], 1);
    SLOW_COMMITS.store(true, SeqCst);
    enqueue().await.unwrap();
    told_to().await;
    for _ in 0..20 {
        enqueue().await.unwrap();
    }
    SLOW_COMMITS.store(false, SeqCst);
}
