//! Enqueue and complete inside the caller's own sqlx transaction: the app's rows and its jobs commit together.

use super::{
    Durability,
    desk::{Inserted, sql, stored},
    files::Files,
};
use crate::{
    job::{JobId, NewJob},
    store::{Completion, Enqueued, Promised, StoreError},
    time::Millis,
};
use serde_json::{Value, json};
use sqlx::{Row, SqliteConnection};
use std::{
    collections::BTreeSet,
    os::unix::fs::MetadataExt,
    path::Path,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

mod flows;
mod unique;

pub(super) use flows::enqueue_flow_in;
use unique::Plan;

/// The store that the jobs belong to, as far as this needs it.
#[derive(Clone, Copy)]
pub(super) struct Home<'a> {
    pub(super) path: &'a Path,
    pub(super) files: &'a Mutex<Files>,
    pub(super) tag: u32,
    pub(super) durability: Durability,
    pub(super) warned: &'a AtomicBool,
}

/// Row numbers before those of a transaction's jobs that are never used. Names last all the same: there are 2^48.
const MOST_LEFT_OUT: i64 = 1024;

/// Three statements at most, whatever the number of jobs: each is a hand-over to the connection's own thread. With unique
/// keys one more, and one for each job that was there and changes; with concurrency keys one more.
pub(super) async fn enqueue_in(
    home: Home<'_>,
    db: &mut SqliteConnection,
    jobs: &[NewJob],
    now: Millis,
) -> Result<Vec<Enqueued>, StoreError> {
    if jobs.is_empty() {
        return Ok(Vec::new());
    }
    let began = Instant::now();
    let refused = |error| refused(error, began.elapsed());
    check(&home, db, refused).await?;
    let lanes: BTreeSet<(&str, &str)> = jobs.iter().map(|job| (&*job.queue, &*job.job_type)).collect();
    let lanes = json!(lanes).to_string();
    sqlx::query(sql!("lanes_in")).bind(lanes).execute(&mut *db).await.map_err(refused)?;
    let plan = match jobs.iter().any(|job| job.unique.is_some()) {
        false => Plan::plain(jobs),
        true => Plan::of(jobs, db, home.tag, now, refused).await?,
    };
    plan.make_way(db, now).await.map_err(refused)?;
    let keys: BTreeSet<String> = jobs.iter().filter_map(|job| pending_key(job, now)).collect();
    if !keys.is_empty() {
        let keys = json!(keys).to_string();
        sqlx::query(sql!("turns_in")).bind(keys).execute(&mut *db).await.map_err(refused)?;
    }
    let rows: Vec<Value> = plan.inserts.iter().map(|job| row(job, now)).collect();
    if rows.is_empty() {
        return Ok(plan.answers(&[]));
    }
    let rows = Value::from(rows).to_string();
    let left_out = fastrand::i64(1..=MOST_LEFT_OUT);
    let done = sqlx::query(sql!("enqueue_in"))
        .bind(rows)
        .bind(now)
        .bind(left_out)
        .execute(&mut *db)
        .await
        .map_err(refused)?;
    // One statement, one transaction, nobody between: the rows have consecutive numbers, in their order.
    let first = done.last_insert_rowid() - plan.inserts.len() as i64 + 1;
    let ids = (first..=done.last_insert_rowid()).map(|row| JobId::compose(now, row, home.tag));
    Ok(plan.answers(&ids.collect::<Vec<_>>()))
}

/// Three statements at most, as above.
pub(super) async fn complete_in(
    home: Home<'_>,
    db: &mut SqliteConnection,
    ended: &Completion,
) -> Result<Promised, StoreError> {
    let began = Instant::now();
    let refused = |error| refused(error, began.elapsed());
    let Completion { id, lease, result, .. } = ended;
    check(&home, db, refused).await?;
    if id.tag() != home.tag {
        return Ok(Promised::LeaseLost);
    }
    let (row, created_at) = (id.row(), id.created_at());
    let lay = sqlx::query(sql!("promise")).bind(row).bind(lease).bind(created_at).bind(result);
    if lay.execute(&mut *db).await.map_err(refused)?.rows_affected() == 1 {
        return Ok(Promised::Laid);
    }
    let holds = sqlx::query(sql!("holds")).bind(row).bind(lease).bind(created_at);
    let holds = holds.fetch_optional(&mut *db).await.map_err(refused)?.is_some();
    Ok(if holds { Promised::Twice } else { Promised::LeaseLost })
}

/// Whose turn a job takes that is to be sorted when the transaction commits.
fn pending_key(job: &NewJob, now: Millis) -> Option<String> {
    let key = job.concurrency_key.as_ref().filter(|_| job.run_at.is_none_or(|run_at| run_at <= now));
    key.map(|key| stored(&job.job_type, key))
}

fn row(job: &NewJob, now: Millis) -> Value {
    let columns = Inserted::of(job, now);
    let unique = job.unique.as_deref();
    json!([
        job.queue,
        job.job_type,
        columns.state.code(),
        job.priority,
        columns.run_at,
        job.max_attempts,
        columns.timeout,
        columns.retain,
        columns.backoff,
        job.label,
        job.payload,
        unique.map(|unique| &unique.key),
        unique.map(|unique| &unique.scope),
        unique.map(|unique| unique.states.code()),
        columns.unique_until,
        columns.version,
        job.concurrency_key.as_ref().map(|key| stored(&job.job_type, key))
    ])
}

/// That the connection is on our file, and how durable its commits are.
async fn check(
    home: &Home<'_>,
    db: &mut SqliteConnection,
    refused: impl Fn(sqlx::Error) -> StoreError,
) -> Result<(), StoreError> {
    home.files.lock().unwrap_or_else(PoisonError::into_inner).check()?;
    let ours = home.path.display().to_string();
    let found = match sqlx::query(sql!("foreign")).fetch_one(&mut *db).await {
        Ok(found) => found,
        Err(sqlx::Error::Database(error)) if error.message().contains("jobq_store") => {
            return Err(StoreError::OtherDatabase {
                theirs: "a database without jobq's tables".into(),
                ours,
            });
        }
        Err(error) => return Err(refused(error)),
    };
    let tag: i64 = found.try_get(0).map_err(&refused)?;
    let theirs: String = found.try_get(1).map_err(&refused)?;
    let same_file = same_file(Path::new(&theirs), home.path);
    if !same_file || tag != i64::from(home.tag) {
        return Err(StoreError::OtherDatabase { theirs, ours });
    }
    let synchronous: i64 = found.try_get(2).map_err(&refused)?;
    if synchronous < home.durability.pragma() && !home.warned.swap(true, Ordering::Relaxed) {
        tracing::warn!(
            "jobs enqueued with `in_tx` are as durable as the application's own connection, which has a lower \
             `synchronous` ({synchronous}) than the queue ({}); a power cut may lose the latest of them",
            home.durability.pragma()
        );
    }
    Ok(())
}

fn same_file(one: &Path, other: &Path) -> bool {
    let place = |path: &Path| std::fs::metadata(path).map(|meta| (meta.dev(), meta.ino())).ok();
    place(one).is_some_and(|found| Some(found) == place(other))
}

fn refused(error: sqlx::Error, waited: Duration) -> StoreError {
    let code = error.as_database_error().and_then(|refusal| refusal.code());
    let holder = match code.as_deref() {
        Some("517") => {
            "another connection has written since this transaction began to read; begin transactions that enqueue \
             with BEGIN IMMEDIATE (sqlx: `begin_with`)"
        }
        Some("5") => {
            "another connection holds the write lock for longer than the `busy_timeout` of the connection that this \
             transaction is on"
        }
        _ => return StoreError::Backend(std::sync::Arc::new(error)),
    };
    StoreError::Busy { waited, holder: holder.into() }
}
