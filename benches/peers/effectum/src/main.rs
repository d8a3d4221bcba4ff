//! effectum 0.7.0, put to the works.
//!
//! Settings: one worker with up to 1,000 jobs at once that asks for more below 900 (`concurrency=`, `min=`; its default
//! is one), and its own bulk enqueue.
//!
//! Durability: `journal=shipped` is `Queue::new` on a fresh file: a rollback journal with synchronous NORMAL, since it
//! asks for WAL by `PRAGMA journal`, which is none. With `journal=wal` the program puts the fresh file in WAL mode
//! before effectum opens it, which lasts; synchronous stays NORMAL.
//!
//! A queue belongs to one process: another one that opens the file takes what runs for lost, and nobody is told of what
//! another process enqueued. So `serve` with `produce` shows nothing.

use effectum::{Error, Job, JobRunner, Queue, RunningJob, Worker};
use jobq_bench_works::{Payload, Settings, Subject, handle, run};
use rusqlite::Connection;
use std::{path::Path, sync::Arc};

#[tokio::main]
async fn main() {
    let settings = Settings::of_this_program();
    let queue = Effectum::open(&settings).await.expect("the file opens");
    run(&settings, queue).await
}

#[derive(Clone)]
struct Effectum {
    queue: Arc<Queue>,
    min_concurrency: u16,
    max_concurrency: u16,
}

impl Effectum {
    async fn open(settings: &Settings) -> Result<Self, Box<dyn std::error::Error>> {
        match settings.text("journal", "shipped") {
            "shipped" => {}
            "wal" => {
                let file = Connection::open(&settings.file)?;
                file.pragma_update_and_check(None, "journal_mode", "wal", |_| Ok(()))?;
            }
            other => panic!("journal={other}: shipped or wal"),
        }
        Ok(Self {
            queue: Arc::new(Queue::new(Path::new(&settings.file)).await?),
            min_concurrency: settings.number("min", 900).try_into()?,
            max_concurrency: settings.number("concurrency", 1_000).try_into()?,
        })
    }
}

impl Subject for Effectum {
    async fn enqueue(&self, job: Payload) -> Result<(), String> {
        self.queue.add_job(carrying(&job)?).await.map(drop).map_err(|error| error.to_string())
    }

    async fn bulk(&self, jobs: Vec<Payload>) -> Result<(), String> {
        let jobs = jobs.iter().map(carrying).collect::<Result<_, _>>()?;
        self.queue.add_jobs(jobs).await.map(drop).map_err(|error| error.to_string())
    }

    async fn start(&self) {
        let worker = Worker::builder(&self.queue, Arc::new(()))
            .min_concurrency(self.min_concurrency)
            .max_concurrency(self.max_concurrency)
            .jobs([JobRunner::builder("count", count).build()])
            .build()
            .await
            .expect("the worker starts");
        // It ends when it is dropped.
        std::mem::forget(worker);
    }
}

fn carrying(payload: &Payload) -> Result<Job, String> {
    Ok(Job::builder("count").json_payload(payload).map_err(|error| error.to_string())?.build())
}

async fn count(job: RunningJob, _: Arc<()>) -> Result<(), Error> {
    handle(&job.json_payload()?);
    Ok(())
}
