//! What a job costs in allocations of Rust code and in system calls: the last columns of the table in ARCHITECTURE.md.
//!
//! `cargo run --release -p jobq-bench --bin cost` starts itself for each act, for few rounds and for many, under
//! `strace -f -c`; what the many rounds take more is theirs. Numbers differ a little from run to run, since threads that
//! wait for each other may or may not sleep.

use jobq::{JobQueue, WorkerHandle, prelude::*};
use std::{
    alloc::{GlobalAlloc, Layout, System},
    path::Path,
    process::Command,
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    time::Duration,
};
use tokio::sync::Notify;

struct Counting;

static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);

// SAFETY: the system's allocator does the work.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Relaxed);
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        unsafe { System.dealloc(memory, layout) }
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Relaxed);
        unsafe { System.realloc(memory, layout, size) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

#[job(type = "cost:mail", retain = "1h")]
async fn mail(number: u64, to: String, template: String) {
    let _ = (number, to, template);
    RAN.fetch_add(1, Relaxed);
    ONE_MORE.notify_one();
}

static RAN: AtomicU64 = AtomicU64::new(0);
static ONE_MORE: Notify = Notify::const_new();

fn payload(number: u64) -> Mail {
    Mail { number, to: "user0000001@example.com".into(), template: "welcome-to-the-service".into() }
}

/// The acts, and the jobs of one round of each.
const ACTS: [(&str, u64); 5] = [("one", 1), ("all", 100), ("together", 64), ("idle", 1), ("backlog", 100)];
/// Rounds of the short run; the long one has so many and `MORE`.
const FEW: u64 = 100;
const MORE: u64 = 400;

#[tokio::main]
async fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words[..] {
        [] => ACTS.iter().for_each(|(act, jobs)| tell(act, *jobs)),
        [file, act, jobs, rounds] => {
            let queue = JobQueue::open(file).await.expect("the file can be opened");
            act_on(&queue, act, jobs.parse().expect("a number"), rounds.parse().expect("a number")).await;
            std::process::exit(0)
        }
        _ => panic!("usage: cost, without arguments"),
    }
}

// ---- the measuring process ---------------------------------------------------------------------------------

/// Runs an act for few jobs and for many, and tells what one of the additional jobs took.
fn tell(act: &str, jobs: u64) {
    let figures = |rounds| [true, false].map(|traced| run(act, jobs, rounds, traced));
    let ([few_calls, few_allocations], [many_calls, many_allocations]) = (figures(FEW), figures(FEW + MORE));
    let of_one = |few: u64, many: u64| many.saturating_sub(few) as f64 / (MORE * jobs) as f64;
    let (allocations, calls) = (of_one(few_allocations, many_allocations), of_one(few_calls, many_calls));
    println!("{act:<10} allocations {allocations:>6.1}  system calls {calls:>6.2}");
}

/// One run on a file of its own: its system calls, or else its allocations.
fn run(act: &str, jobs: u64, rounds: u64, traced: bool) -> u64 {
    let folder = tempfile::tempdir().expect("a folder of its own");
    let (file, table) = (folder.path().join("cost.db"), folder.path().join("calls"));
    let program = std::env::current_exe().expect("the name of this program");
    if act == "backlog" {
        said(Command::new(&program).arg(&file).args(["all", &jobs.to_string(), &rounds.to_string()]));
    }
    let mut command = if traced { Command::new("strace") } else { Command::new(&program) };
    if traced {
        command.args(["-f", "-c", "-o"]).arg(&table).arg(&program);
    }
    let allocations = said(command.arg(&file).args([act, &jobs.to_string(), &rounds.to_string()]));
    if traced { calls(&table) } else { allocations }
}

/// The number that a command says.
fn said(command: &mut Command) -> u64 {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).trim().parse().expect("it says a number")
}

/// All calls of strace's table.
fn calls(table: &Path) -> u64 {
    let table = std::fs::read_to_string(table).expect("strace has written its table");
    let total = table.lines().rfind(|line| line.ends_with("total")).expect("a line that sums up");
    total.split_whitespace().nth(3).and_then(|calls| calls.parse().ok()).expect("a number of calls")
}

// ---- the measured one --------------------------------------------------------------------------------------

/// So many rounds of an act; says the allocations of them.
async fn act_on(queue: &JobQueue, act: &str, jobs: u64, rounds: u64) {
    let before = ALLOCATIONS.load(Relaxed);
    match act {
        "one" => {
            for number in 0..rounds {
                payload(number).enqueue().on(queue).await.expect("it is stored");
            }
        }
        "all" => {
            for round in 0..rounds {
                let numbers = round * jobs..(round + 1) * jobs;
                queue.enqueue_all(numbers.map(payload)).await.expect("they are stored");
            }
        }
        "together" => together(queue, jobs, rounds).await,
        "idle" => {
            let worker = worker(queue).await;
            for number in 0..rounds {
                payload(number).enqueue().on(queue).await.expect("it is stored");
                completed(&worker, number + 1).await;
            }
        }
        "backlog" => completed(&worker(queue).await, jobs * rounds).await,
        _ => panic!("there is no act {act}"),
    }
    println!("{}", ALLOCATIONS.load(Relaxed) - before);
}

async fn together(queue: &JobQueue, tasks: u64, rounds: u64) {
    let task = |task| {
        let queue = queue.clone();
        tokio::spawn(async move {
            for round in 0..rounds {
                payload(task * rounds + round).enqueue().on(&queue).await.expect("it is stored");
            }
        })
    };
    let tasks: Vec<_> = (0..tasks).map(task).collect();
    for task in tasks {
        task.await.expect("no task panics");
    }
}

async fn worker(queue: &JobQueue) -> WorkerHandle {
    Worker::new(queue)
        .jobs((mail,))
        .concurrency(200)
        .start()
        .await
        .expect("a worker of one job that is known")
}

/// Waits until so many have run and their ends are stored.
async fn completed(worker: &WorkerHandle, jobs: u64) {
    while RAN.load(Relaxed) < jobs {
        ONE_MORE.notified().await;
    }
    worker.wait_for_active(Duration::from_secs(60)).await;
}
