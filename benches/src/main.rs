//! What jobq does a second beside what bare SQLite does for the same rows, in one run: medians of interleaved rounds.
//!
//! `cargo run --release -p jobq-bench [-- ROUNDS]`. Every figure names its durability. Bare SQLite is one thread that
//! inserts, claims and finishes prepared row by row in transactions of 1,000, with one partial index: no types, leases,
//! retries, results or wake-ups. jobq runs with all of its promises on.

mod bare;

use jobq::{Durability, JobQueue, SqliteOptions, SqliteStore, SystemClock, prelude::*};
use std::{
    error::Error,
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};

const JOBS: u64 = 100_000;
const SINGLES: u64 = 3_000;
const TASKS: u64 = 64;
const FROM_TASKS: u64 = 64_000;

/// About 100 bytes of JSON; the handler does nothing.
#[job(retain = "1h")]
async fn empty(user_id: u64, email: String, template: String) -> Result<(), JobError> {
    let _ = (user_id, email, template);
    Ok(())
}

fn payload(number: u64) -> Empty {
    Empty {
        user_id: number,
        email: format!("user{number:07}@example.com"),
        template: "welcome-to-the-service".into(),
    }
}

const WORKS: [&str; 4] = ["enqueue, one task", "enqueue, 64 tasks", "enqueue_all", "drain"];

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let rounds: usize = std::env::args().nth(1).map_or(Ok(3), |rounds| rounds.parse())?;
    let folder = tempfile::tempdir()?;
    let cases = [
        ("bare SQLite", Durability::Power),
        ("jobq", Durability::Power),
        ("bare SQLite", Durability::Process),
        ("jobq", Durability::Process),
    ];
    let mut rates = vec![vec![Vec::new(); WORKS.len()]; cases.len()];
    for round in 0..rounds {
        for (case, (who, durability)) in cases.iter().enumerate() {
            let file = folder.path().join(format!("{round}-{case}.db"));
            let found = match *who {
                "jobq" => jobq_rates(&file, *durability).await?,
                _ => bare::rates(&file, *durability, JOBS, SINGLES)?,
            };
            found.into_iter().enumerate().for_each(|(work, rate)| rates[case][work].push(rate));
            eprintln!("round {} of {rounds}: {who}, {durability:?}", round + 1);
        }
    }
    println!(
        "jobs/s, medians of {rounds} rounds; {JOBS} jobs of about 100 bytes; SQLite {}",
        rusqlite::version()
    );
    println!("{:<13}{:<9}{}", "", "", WORKS.map(|work| format!("{work:>20}")).concat());
    for ((who, durability), works) in cases.iter().zip(&mut rates) {
        let row: String = works.iter_mut().map(|rates| format!("{:>20}", median(rates))).collect();
        println!("{who:<13}{:<9}{row}", if *durability == Durability::Power { "FULL" } else { "NORMAL" });
    }
    Ok(())
}

fn median(rates: &mut [f64]) -> String {
    rates.sort_by(f64::total_cmp);
    rates
        .get(rates.len() / 2)
        .filter(|rate| rate.is_finite())
        .map_or("–".into(), |rate| format!("{rate:.0}"))
}

async fn jobq_rates(file: &Path, durability: Durability) -> Result<[f64; 4], Box<dyn Error>> {
    let store = SqliteStore::open(SqliteOptions::new(file).durability(durability)).await?;
    let queue = JobQueue::with_store(Arc::new(store), Arc::new(SystemClock));

    let began = Instant::now();
    queue.enqueue_all((0..JOBS).map(payload)).await?;
    let bulk = rate(JOBS, began.elapsed());

    let began = Instant::now();
    let worker = Worker::new(&queue).jobs((empty,)).concurrency(1_000);
    worker.drain().await?;
    let drain = rate(JOBS, began.elapsed());

    let began = Instant::now();
    for number in 0..SINGLES {
        payload(number).enqueue().on(&queue).await?;
    }
    let single = rate(SINGLES, began.elapsed());

    let began = Instant::now();
    let tasks: Vec<_> = (0..TASKS)
        .map(|task| {
            let queue = queue.clone();
            tokio::spawn(async move {
                for number in 0..FROM_TASKS / TASKS {
                    payload(task * FROM_TASKS + number).enqueue().on(&queue).await?;
                }
                Ok::<_, jobq::EnqueueError>(())
            })
        })
        .collect();
    for task in tasks {
        task.await??;
    }
    Ok([single, rate(FROM_TASKS, began.elapsed()), bulk, drain])
}

fn rate(jobs: u64, took: Duration) -> f64 {
    jobs as f64 / took.as_secs_f64()
}
