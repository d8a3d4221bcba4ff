//! River's Rust client, riverqueue 0.5.0 with its feature `sqlite`, put to the works.
//!
//! Settings: 1,000 jobs at once (`workers=`; 10 in its README), a cool-down of 1 ms between fetches (`cooldown=`, in ms;
//! its default of 100 takes no more than `workers` jobs each 100 ms), a pool of 3 (`conns=`; 5 in its README, but more
//! connections wait more for the file's lock: 64 tasks enqueue a quarter slower with 10), a look each second
//! (`poll_ms=`, its default; inserts wake it).
//!
//! Durability: it takes the caller's pool and sets no pragma. `sync=shipped` is its README's pool: WAL and a busy
//! timeout, synchronous left at SQLite's FULL. `sync=normal` sets NORMAL.

use jobq_bench_works::{Payload, Settings, Subject, handle, run};
use riverqueue::{
    BoxError, Client, Job, JobArgs, QueueConfig, WorkContext, WorkOutcome, Workers, migrate::SqliteMigrator,
};
use serde::{Deserialize, Serialize};
use sqlx::{
    SqlitePool,
    sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions, SqliteSynchronous},
};
use std::time::Duration;

#[tokio::main]
async fn main() {
    let settings = Settings::of_this_program();
    let queue = River::open(&settings).await.expect("the file opens");
    run(&settings, queue).await
}

#[derive(Clone)]
struct River(Client);

impl River {
    async fn open(settings: &Settings) -> Result<Self, Box<dyn std::error::Error>> {
        let pool = open_pool(settings).await?;
        SqliteMigrator::new(pool.clone()).migrate_up().await?;
        let mut workers = Workers::new();
        workers.add_fn(count)?;
        let milliseconds = |key, default| Duration::from_millis(settings.number(key, default));
        let queue = QueueConfig::new(settings.number("workers", 1_000) as usize)
            .with_fetch_poll_interval(milliseconds("poll_ms", 1_000));
        let client = Client::builder(pool)
            .workers(workers)
            .queue("default", queue)
            .fetch_cooldown(milliseconds("cooldown", 1))
            .build()?;
        Ok(Self(client))
    }
}

async fn open_pool(settings: &Settings) -> Result<SqlitePool, sqlx::Error> {
    let options = SqliteConnectOptions::new()
        .filename(&settings.file)
        .create_if_missing(true)
        .journal_mode(SqliteJournalMode::Wal)
        .busy_timeout(Duration::from_secs(5));
    let options = match settings.text("sync", "shipped") {
        "shipped" => options,
        "normal" => options.synchronous(SqliteSynchronous::Normal),
        other => panic!("sync={other}: shipped or normal"),
    };
    let connections = settings.number("conns", 3) as u32;
    SqlitePoolOptions::new().max_connections(connections).connect_with(options).await
}

impl Subject for River {
    async fn enqueue(&self, job: Payload) -> Result<(), String> {
        self.0.insert(Count(job)).await.map(drop).map_err(|error| error.to_string())
    }

    async fn bulk(&self, jobs: Vec<Payload>) -> Result<(), String> {
        let jobs: Vec<_> = jobs.into_iter().map(Count).collect();
        self.0.insert_many(jobs).await.map(drop).map_err(|error| error.to_string())
    }

    async fn start(&self) {
        self.0.start().expect("the client starts").detach();
    }
}

/// The payload, as a job of River's.
#[derive(Clone, Serialize, Deserialize)]
struct Count(Payload);

impl JobArgs for Count {
    const KIND: &'static str = "count";
}

async fn count(_: WorkContext, job: Job<Count>) -> Result<WorkOutcome, BoxError> {
    handle(&job.args.0);
    Ok(WorkOutcome::Complete)
}
