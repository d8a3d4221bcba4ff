//! What the framework around the core takes: the wake of who waits for a result, what unique keys cost a bulk enqueue, and
//! what jobs that a limit holds back cost all others.
//!
//! `cargo run --release -p jobq-bench --bin features [-- WORKS… FOLDER]`, on files of their own at FULL, in the folder (by default
//! beside this program, since /tmp is in memory on many machines). Figures of one run go together; ratios are of rounds
//! that take turns.

use jobq::{
    JobHandle, JobQueue, Limit,
    prelude::*,
    store::{Claim, ClaimSet, NewWorker},
};
use std::{
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::Arc,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};
use tempfile::TempDir;

/// Gives the instant of its end, in nanoseconds since 1970.
#[job(type = "features:moment", retain = "1h")]
async fn moment() -> Result<u64, JobError> {
    Ok(nanos())
}

#[job(type = "features:plain")]
async fn plain(number: u64, to: String) {
    let _ = (number, to);
}

#[job(type = "features:keyed", unique(key = "{number}"))]
async fn keyed(number: u64, to: String) {
    let _ = (number, to);
}

const FILE: &str = "features.db";
/// At most one at once of each key; its jobs are never run here.
#[job(type = "features:tenant", concurrency = 1, concurrency_key = "{tenant}")]
async fn tenant_work(tenant: u64, n: u64) {
    let _ = (tenant, n);
}

const KEYS: u64 = 100_000;
const BLOCKED: u64 = 1_000_000;
const WAITS: usize = 500;
const AT_ONCE: usize = 1000;
const BULK: u64 = 100_000;
const ROUNDS: usize = 5;

#[tokio::main]
async fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    if let [word, file] = &words[..]
        && word == "work"
    {
        let queue = JobQueue::open(file).await.expect("the file can be opened");
        Worker::new(&queue).jobs((moment,)).run().await.expect("it works until it is killed");
        return;
    }
    let program = std::env::current_exe().expect("the name of this program");
    let beside = program.parent().map(Path::to_owned);
    const WORKS: [&str; 3] = ["waits", "keys", "blocked"];
    let (works, folder): (Vec<&str>, Vec<&str>) =
        words.iter().map(String::as_str).partition(|word| WORKS.contains(word));
    let folder = folder.first().map(PathBuf::from).or(beside).expect("a folder");
    for work in WORKS.into_iter().filter(|work| works.is_empty() || works.contains(work)) {
        match work {
            "waits" => waits(&folder).await,
            "keys" => keys(&folder).await,
            _ => blocked(&folder).await,
        }
    }
}

fn nanos() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos() as u64)
}

async fn open(folder: &Path) -> (TempDir, JobQueue) {
    let own = tempfile::tempdir_in(folder).expect("a folder of its own");
    let queue = JobQueue::open(own.path().join(FILE).to_str().expect("a plain path")).await;
    (own, queue.expect("a new file can be opened"))
}

// ---- waits -------------------------------------------------------------------------------------------------

async fn waits(folder: &Path) {
    let (own, queue) = open(folder).await;
    let worker = Worker::new(&queue).jobs((moment,)).start().await.expect("a worker of one job");
    tell("wait, worker in this process, one by one", one_by_one(&queue).await);
    tell("wait, worker in this process, 1,000 waiters at once", at_once(&queue).await);
    worker.stop().await.expect("it stops");

    let mut other = Other::on(own.path());
    tell("wait, worker in another process, one by one", one_by_one(&queue).await);
    tell("wait, worker in another process, 1,000 waiters at once", at_once(&queue).await);
    other.0.kill().expect("it was there");
}

/// A process with a worker, which ends with this.
struct Other(Child);

impl Other {
    fn on(folder: &Path) -> Self {
        let mut command = Command::new(std::env::current_exe().expect("the name of this program"));
        Self(
            command
                .arg("work")
                .arg(folder.join(FILE))
                .stdout(Stdio::null())
                .spawn()
                .expect("it can start itself"),
        )
    }
}

impl Drop for Other {
    fn drop(&mut self) {
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

async fn one_by_one(queue: &JobQueue) -> Vec<Duration> {
    let mut took = Vec::new();
    for _ in 0..WAITS {
        let handle = moment.enqueue(()).on(queue).await.expect("it is stored");
        took.push(waited(handle).await);
    }
    took
}

async fn at_once(queue: &JobQueue) -> Vec<Duration> {
    let mut waits = Vec::new();
    for _ in 0..AT_ONCE {
        let handle = moment.enqueue(()).on(queue).delay(Duration::from_secs(1)).await.expect("it is stored");
        waits.push(tokio::spawn(waited(handle)));
    }
    let mut took = Vec::new();
    for wait in waits {
        took.push(wait.await.expect("no waiter panics"));
    }
    took
}

/// From the handler's end to the waiter's wake; the result's commit lies between.
async fn waited(handle: JobHandle<Moment>) -> Duration {
    let ended = handle.wait().timeout(Duration::from_secs(60)).await.expect("the job completes");
    Duration::from_nanos(nanos().saturating_sub(ended))
}

fn tell(what: &str, mut took: Vec<Duration>) {
    took.sort();
    let at = |part: f64| took[((took.len() - 1) as f64 * part) as usize].as_secs_f64() * 1e3;
    println!("{what:<58} p50 {:>6.2} ms  p99 {:>6.2} ms  most {:>6.2} ms", at(0.5), at(0.99), at(1.0));
}

// ---- unique keys -------------------------------------------------------------------------------------------

async fn keys(folder: &Path) {
    let mut seconds = [const { Vec::new() }; 3];
    for _ in 0..ROUNDS {
        let (_kept, queue) = open(folder).await;
        let to = || "user0000001@example.com".to_owned();
        let began = Instant::now();
        queue.enqueue_all((0..BULK).map(|number| Plain { number, to: to() })).await.expect("they are stored");
        seconds[0].push(began.elapsed().as_secs_f64());
        for seconds in &mut seconds[1..] {
            let began = Instant::now();
            queue
                .enqueue_all((0..BULK).map(|number| Keyed { number, to: to() }))
                .await
                .expect("an answer each");
            seconds.push(began.elapsed().as_secs_f64());
        }
    }
    let [plain, new, held] = seconds.map(|mut seconds| {
        seconds.sort_by(f64::total_cmp);
        seconds[ROUNDS / 2]
    });
    let rate = |seconds: f64| BULK as f64 / seconds;
    println!("enqueue_all of {BULK}, plain          {:>9.0} jobs/s", rate(plain));
    println!("enqueue_all of {BULK}, keys, all new  {:>9.0} jobs/s  {:.2} of plain", rate(new), plain / new);
    println!(
        "enqueue_all of {BULK}, keys, all held {:>9.0} jobs/s  {:.2} of plain",
        rate(held),
        plain / held
    );
}

// ---- limits ------------------------------------------------------------------------------------------------

/// Drains plain jobs beside nothing, and beside a million of a hundred thousand keys, each of which has its share.
async fn blocked(folder: &Path) {
    let (_kept, alone) = open(folder).await;
    let (_kept_too, beside) = open(folder).await;
    beside.set_limit(Limit::job_type(TenantWork::TYPE).concurrency_per_key(1)).await.expect("a limit");
    let key = |key| TenantWork { tenant: key, n: 0 };
    beside.enqueue_all((0..KEYS).map(key)).await.expect("they are stored");
    let worker = NewWorker { beat: Duration::from_secs(60), queues: String::new() };
    let worker = beside.store().register(worker, beside.clock().now()).await.expect("a worker");
    let set = Arc::new(ClaimSet { job_types: vec![TenantWork::TYPE.into()], queues: None });
    let mut running = 0;
    while running < KEYS as usize {
        let claim = Claim { worker, set: set.clone(), limit: 1000, standing: false };
        running += beside.store().claim(claim, beside.clock().now()).await.expect("a claim").len();
    }
    let began = Instant::now();
    beside.enqueue_all((0..BLOCKED).map(|n| key(n % KEYS))).await.expect("they are stored");
    println!(
        "enqueue_all of {BLOCKED} that are parked {:>8.0} jobs/s",
        BLOCKED as f64 / began.elapsed().as_secs_f64()
    );
    let mut seconds = [const { Vec::new() }; 2];
    for _ in 0..ROUNDS {
        for (queue, seconds) in [&alone, &beside].into_iter().zip(&mut seconds) {
            let jobs = (0..BULK).map(|number| Plain { number, to: "ada@example.com".into() });
            queue.enqueue_all(jobs).await.expect("they are stored");
            let began = Instant::now();
            let worker = Worker::new(queue).jobs((plain, tenant_work)).concurrency(200);
            assert_eq!(worker.drain().await.expect("a drain").completed, BULK);
            seconds.push(began.elapsed().as_secs_f64());
        }
    }
    let [alone, beside] = seconds.map(|mut seconds| {
        seconds.sort_by(f64::total_cmp);
        BULK as f64 / seconds[ROUNDS / 2]
    });
    println!(
        "drain of {} alone {alone:>9.0} jobs/s, beside {BLOCKED} parked of {KEYS} keys {beside:>9.0}, {:.2} of it",
        BULK,
        beside / alone
    );
}
