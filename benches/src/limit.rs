//! The limit: the smallest queue that can be built on SQLite through sqlx, for the same jobs.
//!
//! One task owns the connection. Whatever waits for it shares one transaction, one json_each statement for all inserts
//! and one for all completions; whoever waits is answered after the commit. Integer ids, one partial index, finished
//! jobs are deleted. No types, retries, leases, fences, history, results, cancellation, recovery or second process.

use jobq_bench_works::{Payload, Settings, Subject, handle};
use sqlx::{
    Connection, Row, SqliteConnection,
    sqlite::{SqliteConnectOptions, SqliteJournalMode, SqliteSynchronous},
};
use std::{
    sync::Arc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};
use tokio::sync::{Notify, mpsc, oneshot};

/// Jobs of one claim.
const CLAIM: i64 = 500;
/// Between looks for another process's commits.
const LOOK: Duration = Duration::from_millis(1);

const SCHEMA: &str = "
    CREATE TABLE IF NOT EXISTS job (id INTEGER PRIMARY KEY, queue TEXT NOT NULL, kind TEXT NOT NULL, payload TEXT NOT NULL,
        state INTEGER NOT NULL DEFAULT 0, priority INTEGER NOT NULL DEFAULT 0, attempts INTEGER NOT NULL DEFAULT 0,
        max_attempts INTEGER NOT NULL DEFAULT 5, run_at INTEGER NOT NULL, created_at INTEGER NOT NULL,
        locked_at INTEGER, locked_by TEXT, finished_at INTEGER, last_error TEXT) STRICT;
    CREATE INDEX IF NOT EXISTS job_pending ON job (priority DESC, id) WHERE state = 0;";
const INSERT: &str = "
    INSERT INTO job (queue, kind, payload, priority, run_at, created_at)
    SELECT 'default', 'email', value, 0, ?2, ?2 FROM json_each(?1)";
const FINISH: &str = "DELETE FROM job WHERE id IN (SELECT value FROM json_each(?1))";
const CLAIM_SOME: &str = "
    UPDATE job SET state = 1, attempts = attempts + 1, locked_at = ?1, locked_by = 'w1'
    WHERE id IN (SELECT id FROM job WHERE state = 0 AND run_at <= ?1 ORDER BY priority DESC, id LIMIT ?2)
    RETURNING id, payload";

const LAY: &str = "
    INSERT INTO job (queue, kind, payload, state, priority, run_at, created_at)
    WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?1)
    SELECT 'default', 'email', ?2, ?3, ?4, ?5, ?6 FROM n";

enum Act {
    Insert(Vec<Payload>, oneshot::Sender<()>),
    Claim(oneshot::Sender<Vec<(i64, Payload)>>),
    Finish(Vec<i64>),
}

/// The door to the writing task.
#[derive(Clone)]
pub struct Limit {
    acts: mpsc::Sender<Act>,
    wake: Arc<Notify>,
    options: SqliteConnectOptions,
}

impl Limit {
    /// Opens the file; `sync=full|normal`.
    pub async fn open(settings: &Settings) -> sqlx::Result<Self> {
        let synchronous = match settings.text("sync", "full") {
            "normal" => SqliteSynchronous::Normal,
            _ => SqliteSynchronous::Full,
        };
        let options = SqliteConnectOptions::new()
            .filename(&settings.file)
            .create_if_missing(true)
            .journal_mode(SqliteJournalMode::Wal)
            .synchronous(synchronous)
            .busy_timeout(Duration::from_secs(5));
        let mut db = SqliteConnection::connect_with(&options).await?;
        sqlx::raw_sql(SCHEMA).execute(&mut db).await?;
        let (acts, waiting) = mpsc::channel(4_096);
        let wake = Arc::new(Notify::new());
        tokio::spawn(write(db, waiting, wake.clone()));
        Ok(Self { acts, wake, options })
    }

    async fn ask<T>(&self, act: impl FnOnce(oneshot::Sender<T>) -> Act) -> Result<T, String> {
        let (reply, answer) = oneshot::channel();
        self.acts.send(act(reply)).await.map_err(|error| error.to_string())?;
        answer.await.map_err(|error| error.to_string())
    }
}

impl Subject for Limit {
    async fn enqueue(&self, job: Payload) -> Result<(), String> {
        self.bulk(vec![job]).await
    }

    async fn bulk(&self, jobs: Vec<Payload>) -> Result<(), String> {
        self.ask(|reply| Act::Insert(jobs, reply)).await
    }

    async fn start(&self) {
        let db = SqliteConnection::connect_with(&self.options).await.expect("it was opened before");
        tokio::spawn(look(db, self.wake.clone()));
        tokio::spawn(work(self.clone()));
    }

    /// What a real queue would have: finished rows, and rows of tomorrow in a state of their own. There are no types.
    async fn lay(&self, what: &str, rows: u64) -> Result<(), String> {
        let (state, priority, delay) = match what {
            "finished" => (2, 0, 0),
            "future" => (3, 9, 86_400_000),
            other => return Err(format!("it has no rows {other:?}")),
        };
        let laid = async {
            let mut db = SqliteConnection::connect_with(&self.options).await?;
            let lay = sqlx::query(LAY).bind(rows as i64).bind(json(&Payload::numbered(0)));
            let now = now_ms();
            lay.bind(state).bind(priority).bind(now + delay).bind(now).execute(&mut db).await?;
            sqlx::query("PRAGMA wal_checkpoint(TRUNCATE)").execute(&mut db).await
        };
        laid.await.map(drop).map_err(|error| error.to_string())
    }
}

/// Ends, by a panic that the task's end makes known to all who wait, when the database fails.
async fn write(mut db: SqliteConnection, mut waiting: mpsc::Receiver<Act>, wake: Arc<Notify>) {
    let mut acts = Vec::new();
    while waiting.recv_many(&mut acts, 1_024).await > 0 {
        if let Err(error) = transaction(&mut db, &mut acts, &wake).await {
            panic!("the limit's database failed: {error}");
        }
    }
}

async fn transaction(db: &mut SqliteConnection, acts: &mut Vec<Act>, wake: &Notify) -> sqlx::Result<()> {
    let (mut rows, mut finished, mut enqueuers, mut claimers) = (vec![], vec![], vec![], vec![]);
    for act in acts.drain(..) {
        match act {
            Act::Insert(jobs, reply) => {
                rows.extend(jobs.iter().map(json));
                enqueuers.push(reply);
            }
            Act::Finish(ids) => finished.extend(ids),
            Act::Claim(reply) => claimers.push(reply),
        }
    }
    let now = now_ms();
    let many = usize::from(!rows.is_empty()) + usize::from(!finished.is_empty()) + claimers.len() > 1;
    if many {
        sqlx::query("BEGIN IMMEDIATE").execute(&mut *db).await?;
    }
    if !rows.is_empty() {
        sqlx::query(INSERT).bind(json(&rows)).bind(now).execute(&mut *db).await?;
    }
    if !finished.is_empty() {
        sqlx::query(FINISH).bind(json(&finished)).execute(&mut *db).await?;
    }
    let mut claimed = Vec::new();
    for reply in claimers {
        let rows = sqlx::query(CLAIM_SOME).bind(now).bind(CLAIM).fetch_all(&mut *db).await?;
        let job = |row: &sqlx::sqlite::SqliteRow| {
            Some((row.get(0), serde_json::from_str(row.get(1)).expect("it was written by this program")))
        };
        claimed.push((reply, rows.iter().filter_map(job).collect::<Vec<_>>()));
    }
    if many {
        sqlx::query("COMMIT").execute(&mut *db).await?;
    }
    let inserted = !enqueuers.is_empty();
    for reply in enqueuers {
        reply.send(()).ok();
    }
    for (reply, jobs) in claimed {
        reply.send(jobs).ok();
    }
    if inserted {
        wake.notify_one();
    }
    Ok(())
}

fn now_ms() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |now| now.as_millis() as i64)
}

fn json<T: serde::Serialize>(value: &T) -> String {
    serde_json::to_string(value).expect("it has nothing that JSON lacks")
}

/// Claims the next jobs while the last ones run, each in a task of its own; without jobs it waits to be woken.
async fn work(queue: Limit) {
    let (tell, mut told) = mpsc::unbounded_channel();
    let acts = queue.acts.clone();
    tokio::spawn(async move {
        let mut ids = Vec::new();
        while told.recv_many(&mut ids, 4_096).await > 0 {
            acts.send(Act::Finish(std::mem::take(&mut ids))).await.ok();
        }
    });
    while let Ok(jobs) = queue.ask(Act::Claim).await {
        if jobs.is_empty() {
            queue.wake.notified().await;
        }
        for (id, job) in jobs {
            let tell = tell.clone();
            tokio::spawn(async move {
                handle(&job);
                tell.send(id).ok();
            });
        }
    }
}

/// Wakes the worker when another process has committed.
async fn look(mut db: SqliteConnection, wake: Arc<Notify>) {
    let mut seen = 0_i64;
    while let Ok(version) = sqlx::query_scalar("PRAGMA data_version").fetch_one(&mut db).await {
        if std::mem::replace(&mut seen, version) != version {
            wake.notify_one();
        }
        tokio::time::sleep(LOOK).await;
    }
}
