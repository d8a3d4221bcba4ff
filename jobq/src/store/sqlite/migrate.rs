//! Lays and updates the tables: forward only, in one transaction, under the database's own write lock.

use super::options::retry_while_busy;
use crate::{store::StoreError, time::Millis};
use rusqlite::{Connection, OptionalExtension, TransactionBehavior};
use std::{
    path::Path,
    time::{Duration, Instant},
};

/// Number, name and text of every migration, in order.
pub(super) const MIGRATIONS: &[(i64, &str, &str)] = &[
    (1, "jobs", include_str!("../../../migrations/sqlite/0001_jobs.sql")),
    (2, "views", include_str!("../../../migrations/sqlite/0002_views.sql")),
    (3, "pauses", include_str!("../../../migrations/sqlite/0003_pauses.sql")),
    (4, "steps", include_str!("../../../migrations/sqlite/0004_steps.sql")),
    (5, "wishes", include_str!("../../../migrations/sqlite/0005_wishes.sql")),
    (6, "unique", include_str!("../../../migrations/sqlite/0006_unique.sql")),
    (7, "limits", include_str!("../../../migrations/sqlite/0007_limits.sql")),
    (8, "cron", include_str!("../../../migrations/sqlite/0008_cron.sql")),
    (9, "flows", include_str!("../../../migrations/sqlite/0009_flows.sql")),
    (10, "events", include_str!("../../../migrations/sqlite/0010_events.sql")),
    (11, "versions", include_str!("../../../migrations/sqlite/0011_versions.sql")),
    (12, "views", include_str!("../../../migrations/sqlite/0012_views.sql")),
];

/// The names that the tables and views need, and that an application may already use.
const TAKEN: &str = "SELECT name FROM sqlite_schema
    WHERE (?1 AND name IN ('jobs', 'jobs_view', 'a_mod_queue_records')) OR (?2 AND name = 'scheduled_jobs')";
/// The migration that brought `scheduled_jobs`.
const SCHEDULES: i64 = 8;

/// Brings the database to the first `upto` migrations. Any number of processes may do so at once.
pub(super) fn migrate(
    db: &mut Connection,
    path: &Path,
    upto: usize,
    deadline: Duration,
    now: Millis,
) -> Result<(), StoreError> {
    let end = Instant::now() + deadline;
    let wanted = &MIGRATIONS[..upto.min(MIGRATIONS.len())];
    retry_while_busy(path, end, || step(db, wanted, now))?
        .map_err(|why| StoreError::Unusable { path: path.into(), why })
}

/// One try; the inner error is one that waiting does not mend.
fn step(
    db: &mut Connection,
    wanted: &[(i64, &str, &str)],
    now: Millis,
) -> rusqlite::Result<Result<(), String>> {
    if applied(db)?.iter().eq(wanted.iter().map(|(version, ..)| version)) {
        return Ok(Ok(()));
    }
    let tx = db.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let done = applied(&tx)?;
    let (newest, known) =
        (done.last().copied().unwrap_or(0), wanted.last().map_or(0, |(version, ..)| *version));
    if newest > known {
        return Ok(Err(format!(
            "its tables are of version {newest}, and this build of jobq knows up to {known}; use the newer build"
        )));
    }
    let schedules = wanted.iter().any(|(version, ..)| *version == SCHEDULES) && !done.contains(&SCHEDULES);
    let taken =
        tx.query_row(TAKEN, (done.is_empty(), schedules), |row| row.get::<_, String>(0)).optional()?;
    if let Some(name) = taken {
        return Ok(Err(format!(
            "it already has a table or view `{name}` that is not jobq's; rename that, or give jobq a file of its own"
        )));
    }
    tx.execute_batch(
        "CREATE TABLE IF NOT EXISTS jobq_migrations (
            version INTEGER PRIMARY KEY, name TEXT NOT NULL, applied_at INTEGER NOT NULL) STRICT",
    )?;
    for (version, name, text) in wanted.iter().filter(|(version, ..)| !done.contains(version)) {
        tx.execute_batch(text)?;
        tx.execute("INSERT INTO jobq_migrations VALUES (?1, ?2, ?3)", (version, name, now))?;
    }
    tx.commit()?;
    Ok(Ok(()))
}

/// The versions that were applied, in order.
fn applied(db: &Connection) -> rusqlite::Result<Vec<i64>> {
    let laid: bool =
        db.query_row("SELECT count(*) FROM sqlite_schema WHERE name = 'jobq_migrations'", [], |row| {
            row.get(0)
        })?;
    if !laid {
        return Ok(Vec::new());
    }
    let mut versions = db.prepare("SELECT version FROM jobq_migrations ORDER BY version")?;
    versions.query_map([], |row| row.get(0))?.collect()
}
