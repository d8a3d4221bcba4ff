//! Handlers that complete their job in a transaction of the application: the job's state and its effects are one.

use super::ground::*;
use jobq::{
    AttemptOutcome, CompleteError, CompletionRolledBack, JobQueue, JobRow, JobState, SqliteOptions,
    SqliteStore, SystemClock,
    job::NewJob,
    prelude::*,
    store::{Next, Rescue, Ties},
};
use sqlx::{SqlitePool, sqlite::SqliteConnectOptions};
use std::{
    path::Path,
    sync::{Arc, Mutex},
    time::Duration,
};

/// A queue on a file, the application's own pool on it, and what a handler was refused.
struct App {
    queue: JobQueue,
    pool: SqlitePool,
    stage: Stage,
    refusals: Refusals,
    bystander: JobRow,
    _dir: tempfile::TempDir,
}

type Refusals = Arc<Mutex<Vec<CompleteError>>>;

async fn pool(path: &Path) -> SqlitePool {
    let options = SqliteConnectOptions::new().filename(path).busy_timeout(secs(30));
    SqlitePool::connect_with(options).await.unwrap()
}

impl App {
    async fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("app.db");
        let store = SqliteStore::open(SqliteOptions::new(&path)).await.unwrap();
        let queue = JobQueue::with_store(Arc::new(store), Arc::new(SystemClock));
        let pool = pool(&path).await;
        sqlx::query("CREATE TABLE effects (job TEXT NOT NULL)").execute(&pool).await.unwrap();
        let id = queue.store().enqueue(vec![NewJob::new("nobody:knows", "{}")], 1).await.unwrap()[0].id;
        let bystander = queue.get(id).await.unwrap().unwrap();
        let (stage, refusals) = (Stage::default(), Refusals::default());
        Self { queue, pool, stage, refusals, bystander, _dir: dir }
    }

    fn worker(&self) -> Worker {
        let worker = Worker::new(&self.queue).jobs(pays).timeout(Duration::from_millis(300));
        worker.data(self.pool.clone()).data(self.stage.clone()).data(self.refusals.clone())
    }

    /// The job's row when it has ended, and how often it has had its effect.
    async fn end_of(&self, how: &str) -> (JobRow, i64) {
        let handle = pays.enqueue(how.to_owned()).on(&self.queue).await.unwrap();
        let worker = self.worker().start().await.unwrap();
        // However it ends.
        let _ended = at_once(how, handle.wait().into_future()).await;
        worker.stop().await.unwrap();
        let row = self.queue.get(&handle).await.unwrap().unwrap();
        let effects =
            sqlx::query_scalar("SELECT count(*) FROM effects WHERE job = ?").bind(row.id.to_string());
        (row, effects.fetch_one(&self.pool).await.unwrap())
    }

    async fn is_well(&self) {
        assert_eq!(self.queue.get(self.bystander.id).await.unwrap().as_ref(), Some(&self.bystander));
        let promises: i64 =
            sqlx::query_scalar("SELECT count(*) FROM jobq_promises").fetch_one(&self.pool).await.unwrap();
        assert_eq!(promises, 0);
    }
}

/// Has its effect and completes in one transaction, and goes on as it is told.
#[job(type = "transactions:pays", max_attempts = 1)]
async fn pays(
    ctx: &JobContext,
    #[data] app: &SqlitePool,
    #[data] stage: &Stage,
    #[data] refusals: &Refusals,
    how: String,
) -> Result<u32, JobError> {
    let refused = |error: CompleteError| {
        refusals.lock().unwrap().push(error.clone());
        JobError::new(error)
    };
    let _on = stage.enter(1);
    if how == "is robbed" {
        stage.passes(1).await;
    }
    let mut tx = app.begin_with("BEGIN IMMEDIATE").await?;
    sqlx::query("INSERT INTO effects VALUES (?)").bind(ctx.id().to_string()).execute(&mut *tx).await?;
    match how.as_str() {
        "is too large" => {
            return ctx.complete_in(&mut *tx, &"x".repeat(2 << 20)).await.map(|()| 0).map_err(refused);
        }
        "rolls back first" => {
            ctx.complete_in(&mut *tx, &1).await.map_err(refused)?;
            tx.rollback().await?;
            tx = app.begin_with("BEGIN IMMEDIATE").await?;
            sqlx::query("INSERT INTO effects VALUES (?)")
                .bind(ctx.id().to_string())
                .execute(&mut *tx)
                .await?;
        }
        _ => {}
    }
    ctx.complete_in(&mut *tx, &7).await.map_err(refused)?;
    match how.as_str() {
        "rolls back" => tx.rollback().await?,
        "rolls back and fails" => {
            tx.rollback().await?;
            return Err("no luck".into());
        }
        "drops it" => drop(tx),
        "never ends in it" => std::future::pending().await,
        "leaves it to a task that commits" => {
            tokio::spawn(async move {
                tokio::time::sleep(Duration::from_millis(200)).await;
                tx.commit().await.unwrap();
            });
        }
        "completes twice" => {
            let again = ctx.complete_in(&mut *tx, &8).await;
            refusals.lock().unwrap().extend(again.err());
            tx.commit().await?;
        }
        _ => tx.commit().await?,
    }
    match how.as_str() {
        "fails after it" => Err("too late".into()),
        "is dead after it" => Err(JobError::dead("too late")),
        "snoozes after it" => Err(JobError::snooze(hours(1))),
        "panics after it" => panic!("too late"),
        "never ends after it" => std::future::pending().await,
        "says another output" => Ok(9),
        _ => Ok(7),
    }
}

#[tokio::test]
async fn a_transaction_that_commits_completes_the_job_whatever_the_handler_does_then() {
    let app = App::new().await;
    let log = log();
    for (n, how) in [
        "commits",
        "fails after it",
        "is dead after it",
        "snoozes after it",
        "panics after it",
        "never ends after it",
        "rolls back first",
        "completes twice",
        "says another output",
        "leaves it to a task that commits",
    ]
    .into_iter()
    .enumerate()
    {
        let (row, effects) = app.end_of(how).await;
        assert_eq!(
            (row.state, row.result.as_deref(), row.error),
            (JobState::Completed, Some("7"), None),
            "{how}"
        );
        assert_eq!(effects, 1, "{how}");
        let attempts = app.queue.attempts(row.id).await.unwrap();
        assert_eq!((attempts.len(), attempts[0].outcome), (1, AttemptOutcome::Completed), "{how}");
        let told = log.lines_with("did not end well after it had completed in a transaction");
        assert_eq!(told, n.min(5), "{how}: the log tells people");
    }
    assert_eq!(log.lines_with("returned another output"), 1);
    let refusals = std::mem::take(&mut *app.refusals.lock().unwrap());
    assert!(matches!(refusals[..], [CompleteError::Twice]), "{refusals:?}");
    app.is_well().await;
}

#[tokio::test]
async fn a_transaction_that_does_not_commit_fails_the_attempt_with_a_reason() {
    let app = App::new().await;
    let rolled_back = CompletionRolledBack.to_string();
    for (how, error) in [
        ("rolls back", &*rolled_back),
        ("drops it", &rolled_back),
        ("rolls back and fails", "no luck"),
        ("never ends in it", "timed out after 300ms"),
        (
            "is too large",
            "the output is 2097154 bytes of JSON, at most 1048576 are stored; complete with a reference to it",
        ),
    ] {
        let (row, effects) = app.end_of(how).await;
        assert_eq!((row.state, row.error.as_deref()), (JobState::Dead, Some(error)), "{how}");
        assert_eq!(effects, 0, "{how}");
    }
    app.is_well().await;
}

#[tokio::test]
async fn an_attempt_that_has_lost_its_job_can_not_complete_it() {
    let app = App::new().await;
    let handle = pays.enqueue("is robbed".into()).max_attempts(2).on(&app.queue).await.unwrap();
    let worker = app.worker().timeout(secs(60)).start().await.unwrap();
    app.stage.until_entered(1).await;
    let error = "robbed by the test".into();
    let rescue =
        Rescue { id: handle.id(), lease: 1, error, next: Next::Dead, ties: Ties::NONE, on_dead: None };
    app.queue.store().rescue(vec![rescue], 1).await.unwrap();
    app.stage.open(1);
    until("it is refused", async || !app.refusals.lock().unwrap().is_empty()).await;
    let refusals = std::mem::take(&mut *app.refusals.lock().unwrap());
    assert!(matches!(refusals[..], [CompleteError::LeaseLost]), "{refusals:?}");
    worker.stop().await.unwrap();
    assert_eq!(app.queue.get(&handle).await.unwrap().unwrap().state, JobState::Dead);
    let effects: i64 = sqlx::query_scalar("SELECT count(*) FROM effects").fetch_one(&app.pool).await.unwrap();
    assert_eq!(effects, 0);
    app.is_well().await;
}

#[tokio::test]
async fn a_cancel_between_completion_and_commit_is_too_late() {
    let app = App::new().await;
    let handle = pays.enqueue("leaves it to a task that commits".into()).on(&app.queue).await.unwrap();
    let worker = app.worker().start().await.unwrap();
    app.stage.until_entered(1).await;
    // It waits for the transaction, as every write does.
    let answer = app.queue.cancel(&handle).await;
    println!("{answer:?}");
    assert_eq!(at_once("the end", handle.wait().into_future()).await.unwrap(), 7);
    worker.stop().await.unwrap();
    app.is_well().await;
}

#[tokio::test]
async fn on_a_store_without_transactions_the_handler_is_told() {
    let g = ground();
    let elsewhere = App::new().await;
    let id = pays.enqueue("commits".into()).on(&g.queue).await.unwrap().id();
    let worker = Worker::new(&g.queue).jobs(pays).data(elsewhere.pool.clone());
    let worker = worker.data(elsewhere.stage.clone()).data(elsewhere.refusals.clone()).start().await.unwrap();
    g.until_state(id, JobState::Dead).await;
    let error = g.row(id).await.error.unwrap();
    assert!(error.contains("no transactions to enqueue or complete in"), "{error}");
    worker.stop().await.unwrap();

    let wrong = App::new().await;
    let handle = pays.enqueue("commits".into()).on(&wrong.queue).await.unwrap();
    let worker = wrong.worker().data(elsewhere.pool.clone()).start().await.unwrap();
    let error = at_once("the end", handle.wait().into_future()).await.unwrap_err();
    assert!(error.to_string().contains("open both on one file"), "{error}");
    worker.stop().await.unwrap();
    wrong.is_well().await;
}
