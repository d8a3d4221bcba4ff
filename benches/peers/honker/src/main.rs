//! honker 0.5.0, put to the works.
//!
//! It has one connection behind a mutex, calls that block, and no worker: its users write the loop around its claims.
//! Here it is a thread with a `Database` of its own, as its documentation suggests, that takes 5,000 jobs with
//! `claim_batch`, runs them one after the other, ends them with `ack_batch` and waits on `update_events`. A claim reads
//! all rows that are due, so that larger batches (`batch=`) do better; `batch=1` is `ClaimWaker`, the loop that comes
//! with it, one job at a time. It has no bulk enqueue: 1,000 single ones share a transaction.
//!
//! Durability: it opens its file in WAL mode with synchronous NORMAL; `sync=full` sets FULL on its connections.

use honker::{Database, EnqueueOpts, OpenOptions, Queue, QueueOpts, Result};
use jobq_bench_works::{Payload, Settings, Subject, handle, run};
use std::time::Duration;

#[tokio::main]
async fn main() {
    let settings = Settings::of_this_program();
    let queue = Honker::open(&settings).expect("the file opens");
    run(&settings, queue).await
}

#[derive(Clone)]
struct Honker {
    database: Database,
    queue: Queue,
    file: String,
    full: bool,
    batch: i64,
}

impl Honker {
    fn open(settings: &Settings) -> Result<Self> {
        let full = match settings.text("sync", "normal") {
            "normal" => false,
            "full" => true,
            other => panic!("sync={other}: normal or full"),
        };
        // Nobody waits for updates on this one.
        let seldom = OpenOptions::default().watcher_poll_interval(Duration::from_secs(1))?;
        let database = open(&settings.file, full, seldom)?;
        Ok(Self {
            queue: queue(&database),
            database,
            file: settings.file.clone(),
            full,
            batch: settings.number("batch", 5_000) as i64,
        })
    }
}

fn open(file: &str, full: bool, options: OpenOptions) -> Result<Database> {
    let database = Database::open_with_options(file, options)?;
    if full {
        database.with_conn(|connection| connection.execute_batch("PRAGMA synchronous = FULL"))?;
    }
    Ok(database)
}

fn queue(database: &Database) -> Queue {
    database.queue("bench", QueueOpts::default())
}

impl Subject for Honker {
    async fn enqueue(&self, job: Payload) -> std::result::Result<(), String> {
        self.queue.enqueue(&job, EnqueueOpts::default()).map(drop).map_err(|error| error.to_string())
    }

    async fn bulk(&self, jobs: Vec<Payload>) -> std::result::Result<(), String> {
        let in_one = || -> Result<()> {
            let transaction = self.database.transaction()?;
            for job in &jobs {
                self.queue.enqueue_tx(&transaction, job, EnqueueOpts::default())?;
            }
            transaction.commit()
        };
        in_one().map_err(|error| error.to_string())
    }

    async fn start(&self) {
        let database = open(&self.file, self.full, OpenOptions::default()).expect("the file opens again");
        let (batch, worker) = (self.batch, format!("worker-{}", std::process::id()));
        std::thread::spawn(move || {
            let works = || match batch {
                1 => one_by_one(&database, &worker),
                _ => in_batches(&database, &worker, batch),
            };
            // A claim or an end that waited too long for the file's lock is an error.
            while let Err(error) = works() {
                eprintln!("the worker begins again: {error}");
            }
        });
    }
}

/// The loop of honker's documentation.
fn one_by_one(database: &Database, worker: &str) -> Result<()> {
    let waker = queue(database).claim_waker();
    while let Some(job) = waker.next(worker)? {
        handle(&job.payload_as()?);
        job.ack()?;
    }
    Ok(())
}

/// The same on its calls for many.
fn in_batches(database: &Database, worker: &str, batch: i64) -> Result<()> {
    let (queue, updates) = (queue(database), database.update_events());
    loop {
        let jobs = queue.claim_batch(worker, batch)?;
        for job in &jobs {
            handle(&job.payload_as()?);
        }
        if jobs.is_empty() {
            // No update tells that a job became due, or that a claim expired.
            updates.recv_timeout(Duration::from_secs(1))?;
        } else {
            queue.ack_batch(&jobs.iter().map(|job| job.id).collect::<Vec<_>>(), worker)?;
        }
    }
}
