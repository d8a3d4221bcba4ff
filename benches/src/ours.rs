//! jobq at the works, as an application would write it.

use jobq::{Durability, JobQueue, SqliteOptions, SqliteStore, SystemClock, prelude::*};
use jobq_bench_works::{Figures, Payload, Settings, Subject, handle, now_ns};
use std::{error::Error, sync::Arc};

/// The job of all works.
#[job(retain = "1h")]
pub async fn send_email(user_id: u64, email: String, template: String, t: u64) -> Result<(), JobError> {
    handle(&Payload { user_id, email, template, t });
    Ok(())
}

/// A job that no worker of the works knows.
#[job]
async fn forgotten(user_id: u64, email: String, template: String, t: u64) -> Result<(), JobError> {
    Err(JobError::dead(format!("{user_id} {email} {template} {t}: nobody was to run it")))
}

/// W9: a job that says when it starts and never ends.
#[job(max_attempts = 1_000)]
async fn hang() -> Result<(), JobError> {
    println!("started {}", now_ns());
    std::future::pending().await
}

impl From<Payload> for SendEmail {
    fn from(Payload { user_id, email, template, t }: Payload) -> Self {
        Self { user_id, email, template, t }
    }
}

impl From<Payload> for Forgotten {
    fn from(Payload { user_id, email, template, t }: Payload) -> Self {
        Self { user_id, email, template, t }
    }
}

/// The queue and how many jobs its worker runs at once.
#[derive(Clone)]
pub struct Jobq {
    queue: JobQueue,
    concurrency: usize,
    file: String,
}

impl Jobq {
    /// Opens the file; `sync=full|normal`, `concurrency=4000`.
    pub async fn open(settings: &Settings) -> Result<Self, Box<dyn Error>> {
        let durability = match settings.text("sync", "full") {
            "normal" => Durability::Process,
            _ => Durability::Power,
        };
        let store = SqliteStore::open(SqliteOptions::new(&settings.file).durability(durability)).await?;
        let queue = JobQueue::with_store(Arc::new(store), Arc::new(SystemClock));
        let concurrency = usize::try_from(settings.number("concurrency", 4_000))?;
        Ok(Self { queue, concurrency, file: settings.file.clone() })
    }

    /// The queue itself.
    pub fn queue(&self) -> &JobQueue {
        &self.queue
    }

    /// W9: enqueues the job that hangs (`jobs=1`), or is one of the workers that run it, until it is killed.
    pub async fn hang(&self, settings: &Settings) -> Result<(), Box<dyn Error>> {
        if settings.number("jobs", 0) == 1 {
            hang.enqueue(()).on(&self.queue).await?;
            println!("{}", Figures::default());
            return Ok(());
        }
        let _worker = Worker::new(&self.queue).jobs((hang,)).concurrency(1).start().await?;
        println!("ready");
        std::future::pending().await
    }

    /// One job is run; its row is copied by SQL, since a million runs would take their time.
    async fn lay_finished(&self, rows: u64) -> Result<(), Box<dyn Error>> {
        SendEmail::from(Payload::numbered(0)).enqueue().on(&self.queue).await?;
        Worker::new(&self.queue).jobs((send_email,)).drain().await?;
        let file = rusqlite::Connection::open(&self.file)?;
        let columns: String = file.query_row(
            "SELECT group_concat(name) FROM pragma_table_info('jobs') WHERE name <> 'id'",
            [],
            |row| row.get(0),
        )?;
        let copy = format!(
            "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?1)
             INSERT INTO jobs ({columns}) SELECT {columns} FROM jobs, n"
        );
        let copied = file.execute(&copy, [i64::try_from(rows)?])?;
        file.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))?;
        let wrong = format!("{copied} rows are laid, not {rows}");
        (copied as u64 == rows).then_some(()).ok_or_else(|| wrong.into())
    }

    /// Jobs of a day that is not yet, and of a type that no worker here knows, in the ordinary way.
    async fn lay_waiting(&self, what: &str, rows: u64) -> Result<(), Box<dyn Error>> {
        for start in (0..rows).step_by(10_000) {
            let jobs = (start..rows.min(start + 10_000)).map(Payload::numbered);
            match what {
                "future" => {
                    let jobs = self.queue.enqueue_all(jobs.map(SendEmail::from));
                    jobs.delay(days(1)).priority(9).await?
                }
                "unknown" => self.queue.enqueue_all(jobs.map(Forgotten::from)).priority(9).await?,
                other => return Err(format!("there are no rows {other:?}").into()),
            };
        }
        Ok(())
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

    async fn lay(&self, what: &str, rows: u64) -> Result<(), String> {
        let laid = match what {
            "finished" => self.lay_finished(rows).await,
            what => self.lay_waiting(what, rows).await,
        };
        laid.map_err(|error| error.to_string())
    }
}
