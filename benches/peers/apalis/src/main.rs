//! apalis 1.0.0 on apalis-sqlite 1.0.0, put to the works.
//!
//! Settings: batches of 5,000 and as many jobs at once (`batch=`, `concurrency=`; the documented way to more throughput,
//! its default is 10), each on a task of its own, and the README's event-driven worker: the update hook, and a look
//! each 100 ms (`hook=0`: only the look; `poll_ms=`). What wakes it is of our own making: apalis's interval forgets to
//! ask for the next wake-up when a look takes longer than the interval, and then sleeps up to its heartbeat of 30 s.
//!
//! Durability: `durability=shipped` is a pool of the README's, and `SqliteStorage::setup`: WAL, with synchronous OFF on
//! the one connection that setup happens to run on and FULL on the others. `durability=normal` and `full` set it for
//! all and run the migrations alone.
//!
//! The plan of its acknowledgement depends on the planner's statistics: without them, or with those of a full ANALYZE
//! (sqlite_stat4), it reads all rows of the worker for each row. A file that was in use has those of the `PRAGMA
//! optimize` in `setup`; a fresh one is given such before the pool is opened. `statistics=0` shows it without.

use apalis::prelude::*;
use apalis_sqlite::{
    Config, SqliteConnectOptions, SqlitePool, SqliteStorage, callback::HookCallbackListener, queries,
};
use futures::{StreamExt, stream::ReadyChunks};
use jobq_bench_works::{Payload, Settings, Subject, handle, run};
use sqlx::{
    Connection, SqliteConnection,
    sqlite::{SqliteJournalMode, SqliteSynchronous},
};
use std::{
    task::{Context, Poll},
    time::Duration,
};
use tokio::time::{Interval, MissedTickBehavior};

#[tokio::main]
async fn main() {
    let settings = Settings::of_this_program();
    let queue = Apalis::open(&settings).await.expect("the file opens");
    run(&settings, queue).await
}

#[derive(Clone)]
struct Apalis {
    storage: SqliteStorage<Payload>,
    /// Tells of inserts by connections of this pool.
    inserts: Option<HookCallbackListener>,
    batch: usize,
    concurrency: usize,
    poll: Duration,
}

impl Apalis {
    async fn open(settings: &Settings) -> Result<Self, Box<dyn std::error::Error>> {
        let number = |key, default| settings.number(key, default) as usize;
        let batch = number("batch", 5_000);
        let (pool, inserts) = open_pool(settings).await?;
        let config = Config::default().queue("bench").batch_size(batch);
        Ok(Self {
            storage: SqliteStorage::new(&pool).with_config(config),
            inserts: Some(inserts).filter(|_| settings.number("hook", 1) == 1),
            batch,
            concurrency: number("concurrency", 5_000),
            poll: Duration::from_millis(settings.number("poll_ms", 100)),
        })
    }
}

async fn open_pool(
    settings: &Settings,
) -> Result<(SqlitePool, HookCallbackListener), Box<dyn std::error::Error>> {
    let url = format!("sqlite://{}?mode=rwc", settings.file);
    let options: SqliteConnectOptions = url.parse()?;
    if settings.number("statistics", 1) == 1 {
        lay_statistics(&options).await?;
    }
    let (pool, inserts) = SqliteStorage::connect_with_callback(&url)?;
    let synchronous = match settings.text("durability", "shipped") {
        "shipped" => {
            SqliteStorage::setup(&pool).await?;
            return Ok((pool, inserts));
        }
        "normal" => SqliteSynchronous::Normal,
        "full" => SqliteSynchronous::Full,
        other => panic!("durability={other}: shipped, normal or full"),
    };
    pool.set_connect_options(options.journal_mode(SqliteJournalMode::Wal).synchronous(synchronous));
    SqliteStorage::migrations().run(&pool).await?;
    Ok((pool, inserts))
}

/// Leaves in a file without statistics those of 1,000 pending jobs: they come and go.
async fn lay_statistics(options: &SqliteConnectOptions) -> Result<(), Box<dyn std::error::Error>> {
    let options = options.clone().journal_mode(SqliteJournalMode::Wal);
    let mut connection = SqliteConnection::connect_with(&options).await?;
    SqliteStorage::migrations().run_direct(None, &mut connection, false).await?;
    let has_some = "SELECT count(*) FROM sqlite_schema WHERE name = 'sqlite_stat1'";
    if sqlx::query_scalar::<_, i64>(has_some).fetch_one(&mut connection).await? == 0 {
        let jobs: Vec<_> = (0..1_000).map(|_| TaskBuilder::new(Vec::new()).build()).collect();
        queries::push_tasks(&mut connection, "statistics", &jobs).await?;
        sqlx::raw_sql(
            "PRAGMA analysis_limit = 1000; ANALYZE; DELETE FROM Jobs WHERE job_type = 'statistics'",
        )
        .execute(&mut connection)
        .await?;
    }
    Ok(connection.close().await?)
}

impl Subject for Apalis {
    async fn enqueue(&self, job: Payload) -> Result<(), String> {
        self.storage.clone().push(job).await.map_err(|error| error.to_string())
    }

    async fn bulk(&self, jobs: Vec<Payload>) -> Result<(), String> {
        self.storage.clone().push_bulk(jobs).await.map_err(|error| error.to_string())
    }

    async fn start(&self) {
        let mut looks = tokio::time::interval(self.poll);
        looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let inserts = self.inserts.clone().map(|inserts| inserts.ready_chunks(self.batch));
        let backend = self.storage.clone().poll_with_strategy(Wakes { inserts, looks });
        let worker = WorkerBuilder::new(format!("worker-{}", std::process::id()))
            .backend(backend)
            .concurrency(self.concurrency)
            .parallelize(tokio::spawn)
            .build(count);
        let worker = tokio::spawn(worker.run());
        tokio::spawn(async { eprintln!("the worker ended: {:?}", worker.await) });
    }
}

/// What wakes the worker: inserts of this pool, and time. Unlike apalis's own strategies, each is asked until it is
/// pending, so that it will wake.
struct Wakes {
    inserts: Option<ReadyChunks<HookCallbackListener>>,
    looks: Interval,
}

impl PollStrategy for Wakes {
    fn poll_drive(&mut self, cx: &mut Context<'_>, _: &PollSnapshot) -> Poll<Option<()>> {
        let mut woken = Poll::Pending;
        while self.looks.poll_tick(cx).is_ready() {
            woken = Poll::Ready(Some(()));
        }
        while let Some(Poll::Ready(Some(_))) =
            self.inserts.as_mut().map(|inserts| inserts.poll_next_unpin(cx))
        {
            woken = Poll::Ready(Some(()));
        }
        woken
    }
}

async fn count(job: Payload) {
    handle(&job);
}
