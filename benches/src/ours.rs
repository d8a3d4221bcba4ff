//! jobq at the works, as an application would write it.

use jobq::{Durability, JobQueue, SqliteOptions, SqliteStore, SystemClock, prelude::*};
use jobq_bench_works::{Payload, Settings, Subject, handle};
use std::{error::Error, sync::Arc};

/// The job of all works.
#[job(retain = "1h")]
async fn send_email(user_id: u64, email: String, template: String, t: u64) -> Result<(), JobError> {
    handle(&Payload { user_id, email, template, t });
    Ok(())
}

impl From<Payload> for SendEmail {
    fn from(Payload { user_id, email, template, t }: Payload) -> Self {
        Self { user_id, email, template, t }
    }
}

/// The queue and how many jobs its worker runs at once.
#[derive(Clone)]
pub struct Jobq {
    queue: JobQueue,
    concurrency: usize,
}

impl Jobq {
    /// Opens the file; `sync=full|normal`, `concurrency=1000`.
    pub async fn open(settings: &Settings) -> Result<Self, Box<dyn Error>> {
        let durability = match settings.text("sync", "full") {
            "normal" => Durability::Process,
            _ => Durability::Power,
        };
        let store = SqliteStore::open(SqliteOptions::new(&settings.file).durability(durability)).await?;
        let queue = JobQueue::with_store(Arc::new(store), Arc::new(SystemClock));
        let concurrency = usize::try_from(settings.number("concurrency", 1_000))?;
        Ok(Self { queue, concurrency })
    }
}

impl Subject for Jobq {
    async fn enqueue(&self, job: Payload) -> Result<(), String> {
        let enqueued = SendEmail::from(job).enqueue().on(&self.queue).await;
        enqueued.map(drop).map_err(|error| error.to_string())
    }

    async fn bulk(&self, jobs: Vec<Payload>) -> Result<(), String> {
        let enqueued = self.queue.enqueue_all(jobs.into_iter().map(SendEmail::from)).await;
        enqueued.map(drop).map_err(|error| error.to_string())
    }

    async fn start(&self) {
        let worker = Worker::new(&self.queue).jobs((send_email,)).concurrency(self.concurrency).start().await;
        // It lives as long as the program.
        std::mem::forget(worker.expect("a worker of one job that is known"));
    }
}
