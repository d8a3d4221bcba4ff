//! Real processes that are killed, stopped and told to end; journals of what they did, checked against the tables.
//!
//! The normal run is short; `JOBQ_CAMPAIGN=1` makes it hundreds of kills. Every random choice comes from a seed, which
//! is printed, and given again with `JOBQ_SEED`.

use crate::Ids;
use crate::child::Child;
use jobq::{
    JobFilter, JobQueue, JobRow, JobState, SystemClock,
    job::{JobId, NewJob},
    store::{
        Store,
        sqlite::{SqliteOptions, SqliteStore},
    },
    time::{Clock, Millis},
};
use nix::sys::signal::Signal;
use std::{
    fs,
    path::PathBuf,
    sync::Arc,
    time::{Duration, Instant},
};
use tempfile::TempDir;

mod journal;
mod kills;
mod many;
mod signals;
mod stopped;
mod ticks;

use journal::Journals;

/// A database, a folder of journals, and a bystander that no process may touch.
struct Scene {
    dir: TempDir,
    path: PathBuf,
    store: Arc<SqliteStore>,
    bystander: JobRow,
}

impl Scene {
    async fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().canonicalize().unwrap().join("app.db");
        let store = Arc::new(SqliteStore::open(SqliteOptions::new(&path)).await.unwrap());
        let bystander = NewJob::new("bystander", r#"{"untouched":true}"#);
        let id = store.enqueue(vec![bystander], SystemClock.now()).await.unwrap()[0].id;
        let bystander = store.get(id).await.unwrap().unwrap();
        Self { dir, path, store, bystander }
    }

    fn queue(&self) -> JobQueue {
        JobQueue::with_store(self.store.clone(), Arc::new(SystemClock))
    }

    fn raw(&self) -> rusqlite::Connection {
        let db = rusqlite::Connection::open(&self.path).unwrap();
        db.busy_timeout(Duration::from_secs(30)).unwrap();
        db
    }

    /// Jobs of the child's types, in one commit.
    async fn enqueue(
        &self,
        job_type: &'static str,
        payloads: impl IntoIterator<Item = String>,
    ) -> Vec<JobId> {
        let jobs = payloads
            .into_iter()
            .map(|payload| NewJob { max_attempts: 100, ..NewJob::new(job_type, payload) });
        self.store.enqueue(jobs.collect(), SystemClock.now()).await.unwrap().ids()
    }

    async fn one(&self, job_type: &'static str, payload: &str, max_attempts: u32) -> JobId {
        let job = NewJob { max_attempts, ..NewJob::new(job_type, payload) };
        self.store.enqueue(vec![job], SystemClock.now()).await.unwrap()[0].id
    }

    /// A child with a worker of so many slots, that runs; its grace is 1 s.
    fn worker(&self, slots: usize) -> Child {
        let args =
            [self.path.to_str().unwrap(), self.dir.path().to_str().unwrap(), &slots.to_string(), "1000"];
        let mut child = Child::start("work", &args);
        child.expect("runs");
        child
    }

    fn journals(&self) -> Journals {
        Journals::read(self.dir.path())
    }

    /// Lets the child's `held` job `n` go on, in the run under this lease.
    fn open_gate(&self, n: u64, lease: i64) {
        fs::write(self.dir.path().join(format!("go-{n}-{lease}")), "").unwrap();
    }

    /// Stops the process, and not while it holds the write lock: then everybody would stand still with it.
    async fn freeze(&self, child: &Child) {
        let db = self.raw();
        db.busy_timeout(Duration::from_millis(300)).unwrap();
        loop {
            child.signal(Signal::SIGSTOP);
            if db.execute_batch("BEGIN IMMEDIATE; COMMIT").is_ok() {
                return;
            }
            child.signal(Signal::SIGCONT);
            tokio::time::sleep(Duration::from_millis(3)).await;
        }
    }

    async fn row(&self, id: JobId) -> JobRow {
        self.store.get(id).await.unwrap().unwrap()
    }

    async fn rows(&self) -> Vec<JobRow> {
        let mut pages = self.queue().pages(JobFilter { limit: 1000, ..JobFilter::default() });
        let mut rows = Vec::new();
        while let Some(page) = pages.next().await.unwrap() {
            rows.extend(page);
        }
        rows
    }

    /// How many jobs stand in this state, the bystander left out.
    async fn count(&self, state: JobState) -> u64 {
        let counts = self.store.counts().await.unwrap();
        let counted = counts.iter().filter(|count| count.state == state && count.job_type != "bystander");
        counted.map(|count| count.count).sum()
    }

    async fn is_well(&self) {
        assert_eq!(self.row(self.bystander.id).await, self.bystander, "the bystander was touched");
        let db = self.raw();
        let sound: String = db.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
        let orphans: i64 =
            db.query_row("SELECT count(*) FROM pragma_foreign_key_check", [], |row| row.get(0)).unwrap();
        assert_eq!((sound.as_str(), orphans), ("ok", 0));
    }
}

/// Waits until this is so, at most `limit`; how long it took.
async fn within(limit: Duration, what: &str, mut so: impl AsyncFnMut() -> bool) -> Duration {
    let began = Instant::now();
    while !so().await {
        assert!(began.elapsed() < limit, "not within {limit:?}: {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    began.elapsed()
}

const PATIENCE: Duration = Duration::from_secs(60);

/// Whether this is the long run.
fn campaign() -> bool {
    std::env::var_os("JOBQ_CAMPAIGN").is_some()
}

/// `short` in the normal run, `long` in a campaign.
fn rounds(short: usize, long: usize) -> usize {
    if campaign() { long } else { short }
}

fn random() -> fastrand::Rng {
    let given = std::env::var("JOBQ_SEED").ok().and_then(|seed| seed.parse().ok());
    let seed = given.unwrap_or_else(|| fastrand::u64(..));
    println!("JOBQ_SEED={seed}");
    fastrand::Rng::with_seed(seed)
}

async fn pause(random: &mut fastrand::Rng, millis: std::ops::Range<u64>) {
    tokio::time::sleep(Duration::from_micros(random.u64(millis.start * 1000..millis.end * 1000))).await;
}
