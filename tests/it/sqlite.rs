//! The store on SQLite, made to prove itself on real files: SQL, locks, files that move, wake-up, who is alive.

use crate::Ids;
use jobq::{
    job::{JobId, JobRow, NewJob, WorkerId},
    state::JobState,
    store::{
        Acted, Answer, Claim, ClaimSet, Claimed, Completion, Failure, JobFilter, NewWorker, Next, Settled,
        Store, StoreError,
        sqlite::{SqliteOptions, SqliteStore},
    },
    time::Millis,
};
use std::{future::Future, path::PathBuf, sync::Arc, time::Duration};
use tempfile::TempDir;

mod alive;
mod busy;
mod costs;
mod damage;
mod disk;
mod files;
mod fork;
mod limits;
mod open;
mod statements;
mod tx;
mod unique;
mod views;
mod wake;

/// The instant that the tests count from.
const T0: Millis = 1_767_225_600_123;
const HOUR: Millis = 3_600_000;
const DAY: Duration = Duration::from_secs(86_400);

/// A database of its own for one test, with a bystander in it that nothing may touch.
struct Site {
    dir: TempDir,
    path: PathBuf,
    store: Arc<SqliteStore>,
    bystander: JobRow,
}

impl Site {
    async fn new() -> Self {
        Self::with(|options| options).await
    }

    async fn with(change: impl Fn(SqliteOptions) -> SqliteOptions) -> Self {
        Self::in_dir(tempfile::tempdir().unwrap(), change).await
    }

    async fn in_dir(dir: TempDir, change: impl Fn(SqliteOptions) -> SqliteOptions) -> Self {
        let path = dir.path().canonicalize().unwrap().join("app.db");
        let store = SqliteStore::open(change(SqliteOptions::new(&path))).await.unwrap();
        let mut job = NewJob::new("bystander", r#"{"untouched":true}"#);
        job.label = Some("a bystander".into());
        let id = soon(store.enqueue(vec![job], T0 - 1)).await.unwrap()[0].id;
        let bystander = store.get(id).await.unwrap().unwrap();
        Self { dir, path, store: Arc::new(store), bystander }
    }

    /// A second store on the same file, with connections of its own.
    async fn another(&self) -> Arc<SqliteStore> {
        Arc::new(SqliteStore::open(SqliteOptions::new(&self.path)).await.unwrap())
    }

    /// A plain connection, as another program has it.
    fn raw(&self) -> rusqlite::Connection {
        let db = rusqlite::Connection::open(&self.path).unwrap();
        db.busy_timeout(Duration::from_secs(10)).unwrap();
        db
    }

    /// The end of every test: the bystander is as it was, and the file is sound.
    async fn is_well(&self) {
        let bystander = self.store.get(self.bystander.id).await.unwrap();
        assert_eq!(bystander.as_ref(), Some(&self.bystander), "the bystander was touched");
        let db = self.raw();
        let checks: Vec<String> = column(
            &db,
            "SELECT * FROM pragma_integrity_check UNION ALL SELECT 'key of ' || \"table\" FROM pragma_foreign_key_check",
        );
        assert_eq!(checks, ["ok"]);
    }
}

/// An answer within ten seconds, or a failed test instead of one that hangs.
async fn soon<T>(answer: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(10), answer).await.expect("no answer within 10 s")
}

fn job(job_type: &'static str, n: usize) -> NewJob {
    NewJob::new(job_type, format!(r#"{{"n":{n}}}"#))
}

fn jobs(job_type: &'static str, count: usize) -> Vec<NewJob> {
    (0..count).map(|n| job(job_type, n)).collect()
}

fn set(job_types: &[&str]) -> Arc<ClaimSet> {
    Arc::new(ClaimSet { job_types: job_types.iter().map(|name| name.to_string()).collect(), queues: None })
}

fn standing(worker: WorkerId, job_types: &[&str], limit: usize) -> Claim {
    Claim { worker, set: set(job_types), limit, standing: true }
}

async fn sign_in(store: &SqliteStore) -> WorkerId {
    let worker = NewWorker { beat: Duration::from_secs(3600), queues: "default".into() };
    soon(store.register(worker, T0)).await.unwrap()
}

/// Claims what there is, without waiting for more.
async fn claim(store: &SqliteStore, worker: WorkerId, job_types: &[&str], limit: usize) -> Vec<Claimed> {
    let wish = Claim { standing: false, ..standing(worker, job_types, limit) };
    soon(store.claim(wish, T0)).await.unwrap()
}

fn completion(job: &Claimed) -> Completion {
    Completion { id: job.id, lease: job.lease, result: Some("\"done\"".into()), ties: jobq::store::Ties::ALL }
}

fn failure(job: &Claimed, next: Next) -> Failure {
    let outcome = jobq::job::AttemptOutcome::Failed;
    Failure {
        id: job.id,
        lease: job.lease,
        outcome,
        error: "it did not work".into(),
        next,
        ties: jobq::store::Ties::ALL,
        on_dead: None,
    }
}

async fn state(store: &SqliteStore, id: JobId) -> Option<JobState> {
    store.get(id).await.unwrap().map(|row| row.state)
}

async fn all(store: &SqliteStore) -> Vec<JobRow> {
    store.list(JobFilter { limit: 1000, ..JobFilter::default() }).await.unwrap()
}

async fn of_type(store: &SqliteStore, job_type: &str) -> Vec<JobRow> {
    let job_type = Some(job_type.to_owned());
    store.list(JobFilter { job_type, limit: 1000, ..JobFilter::default() }).await.unwrap()
}

fn column<T: rusqlite::types::FromSql>(db: &rusqlite::Connection, sql: &str) -> Vec<T> {
    let mut rows = db.prepare(sql).unwrap_or_else(|error| panic!("{error} in {sql}"));
    rows.query_map([], |row| row.get(0)).unwrap().collect::<Result<_, _>>().unwrap()
}

fn wish(store: &Arc<SqliteStore>, claim: Claim) -> Answer<'static, Vec<Claimed>> {
    let store = store.clone();
    Box::pin(async move { store.claim(claim, T0).await })
}

fn result(store: &Arc<SqliteStore>, ended: Vec<Completion>) -> Answer<'static, Vec<Settled>> {
    let store = store.clone();
    Box::pin(async move { store.complete(ended, T0).await })
}

/// Starts an answer, and sees that it is not there at once.
async fn unanswered<T: Send + 'static>(
    answer: Answer<'static, T>,
) -> tokio::task::JoinHandle<Result<T, StoreError>> {
    let waiting = tokio::spawn(answer);
    tokio::task::yield_now().await;
    assert!(!waiting.is_finished());
    waiting
}

#[tokio::test]
async fn the_linked_sqlite_has_the_fix_of_the_wal_reset_race() {
    let numbers: Vec<u32> = rusqlite::version().split('.').map(|part| part.parse().unwrap()).collect();
    assert!(numbers >= vec![3, 51, 3], "{numbers:?}");
    let site = Site::new().await;
    assert!(site.store.describe().contains(rusqlite::version()), "{}", site.store.describe());
    site.is_well().await;
}

/// 1,000 jobs through one store from many tasks, and through a second one on the same file, at the same time.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn parallel_enqueuers_on_two_stores_lose_nothing() {
    let site = Site::new().await;
    let stores = [site.store.clone(), site.another().await];
    let writers: Vec<_> = (0..40)
        .map(|writer| {
            let store = stores[writer % 2].clone();
            tokio::spawn(async move {
                let mut ids = Vec::new();
                for n in 0..25 {
                    ids.extend(store.enqueue(vec![job("a", writer * 25 + n)], T0).await.unwrap().ids());
                }
                ids
            })
        })
        .collect();
    let mut acknowledged = Vec::new();
    for writer in writers {
        acknowledged.extend(soon(writer).await.unwrap());
    }
    let mut stored: Vec<JobId> = of_type(&site.store, "a").await.into_iter().map(|row| row.id).collect();
    acknowledged.sort_unstable();
    stored.sort_unstable();
    assert_eq!(acknowledged.len(), 1000);
    assert_eq!(acknowledged, stored);
    site.is_well().await;
}

/// What one store claims, the other can't; together they start each job once.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn two_stores_on_one_file_claim_each_job_once() {
    let site = Site::new().await;
    soon(site.store.enqueue(jobs("a", 600), T0)).await.unwrap();
    let drains: Vec<_> = [site.store.clone(), site.another().await]
        .into_iter()
        .map(|store| {
            tokio::spawn(async move {
                let worker = sign_in(&store).await;
                let mut mine = Vec::new();
                loop {
                    let got = claim(&store, worker, &["a"], 7).await;
                    if got.is_empty() {
                        return mine;
                    }
                    let answers =
                        soon(store.complete(got.iter().map(completion).collect(), T0)).await.unwrap();
                    assert!(answers.iter().all(|answer| *answer == Settled::Applied));
                    mine.extend(got.into_iter().map(|job| job.id));
                }
            })
        })
        .collect();
    let mut started = Vec::new();
    for drain in drains {
        started.extend(soon(drain).await.unwrap());
    }
    started.sort_unstable();
    let count = started.len();
    started.dedup();
    assert_eq!((count, started.len()), (600, 600));
    site.is_well().await;
}

#[tokio::test]
async fn a_late_result_is_refused_recorded_and_harms_no_batch_mate() {
    let site = Site::new().await;
    let ids = soon(site.store.enqueue(jobs("a", 3), T0)).await.unwrap().ids();
    let slow = sign_in(&site.store).await;
    let taken = claim(&site.store, slow, &["a"], 3).await;
    let lost = jobq::store::Rescue {
        id: taken[1].id,
        lease: taken[1].lease,
        error: "worker lost".into(),
        next: Next::At(T0),
        ties: jobq::store::Ties::ALL,
        on_dead: None,
    };
    assert_eq!(soon(site.store.rescue(vec![lost], T0)).await.unwrap(), [Settled::Applied]);
    let other = site.another().await;
    let quick = sign_in(&other).await;
    let again = claim(&other, quick, &["a"], 9).await;
    assert_eq!(again.iter().map(|job| job.id).collect::<Vec<_>>(), [ids[1]]);
    site.raw().execute("DELETE FROM jobs WHERE payload = '{\"n\":2}'", []).unwrap();

    let answers = soon(site.store.complete(taken.iter().map(completion).collect(), T0 + 5)).await.unwrap();
    assert_eq!(answers, [Settled::Applied, Settled::LeaseLost, Settled::Gone]);
    let holder = site.store.get(ids[1]).await.unwrap().unwrap();
    assert_eq!((holder.state, holder.worker, holder.result), (JobState::Running, Some(quick), None));
    let attempts = site.store.attempts(ids[1]).await.unwrap();
    let late = attempts[0].late.as_ref().unwrap();
    assert_eq!((late.at, late.text.as_deref()), (T0 + 5, Some("\"done\"")));
    assert_eq!(soon(other.complete(vec![completion(&again[0])], T0 + 6)).await.unwrap(), [Settled::Applied]);
    assert_eq!(state(&other, ids[0]).await, Some(JobState::Completed));
    site.is_well().await;
}

/// Case 033, without its 70,000 rounds: the counter of starts stands just below where a narrower one would wrap.
#[tokio::test]
async fn the_count_of_starts_passes_every_width_of_a_number() {
    let site = Site::new().await;
    let worker = sign_in(&site.store).await;
    let id = soon(site.store.enqueue(jobs("a", 1), T0)).await.unwrap()[0].id;
    for start in [(1 << 15) - 3, (1 << 16) - 3, 70_000, (1 << 31) - 3, (1 << 32) - 3, 1 << 53] {
        let set = "UPDATE jobs SET lease = ?1 WHERE payload = '{\"n\":0}'";
        assert_eq!(site.raw().execute(set, [start]).unwrap(), 1);
        for lease in start + 1..=start + 6 {
            let taken = claim(&site.store, worker, &["a"], 1).await;
            assert_eq!((taken[0].lease, taken[0].attempt, taken[0].max_attempts), (lease, 1, 3));
            let snooze = jobq::store::Snooze { id, lease, run_at: T0, ties: jobq::store::Ties::ALL };
            assert_eq!(soon(site.store.snooze(vec![snooze], T0)).await.unwrap(), [Settled::Applied]);
            let latest = site.store.attempts(id).await.unwrap().pop().unwrap();
            assert_eq!((latest.lease, latest.attempt), (lease, 1));
        }
        let row = site.store.get(id).await.unwrap().unwrap();
        assert_eq!((row.state, row.lease, row.attempts), (JobState::Pending, start + 6, 0));
    }
    site.is_well().await;
}

#[tokio::test]
async fn an_id_of_another_database_is_not_found_and_changes_nothing() {
    let (site, other) = (Site::new().await, Site::new().await);
    let theirs = soon(other.store.enqueue(jobs("a", 1), T0 - 1)).await.unwrap().ids();
    let ours = soon(site.store.enqueue(jobs("a", 1), T0 - 1)).await.unwrap().ids();
    assert_ne!(theirs, ours);
    assert_eq!(soon(site.store.cancel(theirs.clone(), T0)).await.unwrap(), [Acted::NotFound]);
    assert_eq!(site.store.get(theirs[0]).await.unwrap(), None);
    assert_eq!(state(&site.store, ours[0]).await, Some(JobState::Pending));
    site.is_well().await;
    other.is_well().await;
}
