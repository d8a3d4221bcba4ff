//! Laws on every store, the model test, worker behaviour, crashes, SQL and tidiness: one binary.

mod cases;
mod child;
mod crash;
mod crates;
mod events;
mod flows;
mod laws;
mod macros;
mod manifest;
mod model;
mod pure;
mod queue;
mod registry;
mod rigged;
mod schedule;
mod schema;
mod secrets;
mod sqlite;
mod testing;
mod tidy;
mod unique;
mod versions;
mod worker;

/// The ids of what was enqueued, for tests that are about the jobs and not about how they landed.
trait Ids {
    fn ids(self) -> Vec<jobq::JobId>;
}

impl Ids for Vec<jobq::Enqueued> {
    fn ids(self) -> Vec<jobq::JobId> {
        self.into_iter().map(|enqueued| enqueued.id).collect()
    }
}

/// How many migrations there are.
fn migrations() -> i64 {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../migrations/sqlite");
    std::fs::read_dir(folder).unwrap().count() as i64
}

/// Lays a file as the first build of jobq did, with so many pending jobs of the type `a` in it. Written by hand: a build
/// of today may ask for tables that came later.
async fn lay_old_file(path: &std::path::Path, jobs: i64) {
    use jobq::{SqliteOptions, SqliteStore};
    drop(SqliteStore::open(SqliteOptions::new(path).migrations(1)).await.unwrap());
    let db = rusqlite::Connection::open(path).unwrap();
    db.busy_timeout(std::time::Duration::from_secs(10)).unwrap();
    db.execute("INSERT INTO jobq_lanes (queue, job_type) VALUES ('default', 'a')", []).unwrap();
    db.execute(OLD_JOBS, [jobs]).unwrap();
}

/// Pending jobs as the first build of jobq enqueued them.
const OLD_JOBS: &str =
    "WITH RECURSIVE n (i) AS (SELECT 1 WHERE ?1 > 0 UNION ALL SELECT i + 1 FROM n WHERE i < ?1)
    INSERT INTO jobs (lane, state, priority, run_at, max_attempts, payload, created_at, updated_at)
    SELECT (SELECT id FROM jobq_lanes WHERE job_type = 'a'), 1, 0, 1, 3, 'null', 1, 1 FROM n";
