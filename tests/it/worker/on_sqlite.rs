//! What a worker shows only over a real file: other connections, a lock that is held, beats, the machine's own time.

use super::ground::*;
use jobq::{
    JobQueue, JobState, SqliteOptions, SqliteStore, SystemClock, prelude::*, store::Life, worker::Worker,
};
use std::{
    path::PathBuf,
    sync::Arc,
    time::{Duration, Instant},
};

struct File {
    path: PathBuf,
    _dir: tempfile::TempDir,
}

fn file() -> File {
    let dir = tempfile::tempdir().unwrap();
    File { path: dir.path().join("app.db"), _dir: dir }
}

impl File {
    /// A queue on this file with connections of its own, as another process has them.
    async fn open(&self) -> JobQueue {
        let store = SqliteStore::open(SqliteOptions::new(&self.path)).await.unwrap();
        JobQueue::with_store(Arc::new(store), Arc::new(SystemClock))
    }

    /// A plain connection, as any other program has it.
    fn foreign(&self) -> rusqlite::Connection {
        rusqlite::Connection::open(&self.path).unwrap()
    }
}

async fn until_state(queue: &JobQueue, id: jobq::JobId, state: JobState) {
    until(format!("{id} is {state}"), async || queue.get(id).await.unwrap().unwrap().state == state).await;
}

fn worker(queue: &JobQueue, stage: &Stage) -> Worker {
    Worker::new(queue).data(stage.clone()).jobs((gated, says, stubborn))
}

#[tokio::test]
async fn work_of_another_connection_is_heard_of_without_a_poll() {
    let (file, stage) = (file(), Stage::default());
    let (here, there) = (file.open().await, file.open().await);
    let idle = worker(&here, &stage).poll_interval(hours(1)).start().await.unwrap();
    for n in 0..20 {
        let id = says.enqueue("fine".into()).on(&there).await.unwrap().id();
        until_state(&there, id, JobState::Completed).await;
        until("it is counted", async || idle.stats().completed == n + 1).await;
    }
    idle.stop().await.unwrap();
}

#[tokio::test]
async fn a_job_scheduled_by_another_connection_is_heard_of_and_run_when_due() {
    let (file, stage) = (file(), Stage::default());
    let (here, there) = (file.open().await, file.open().await);
    let idle = worker(&here, &stage).poll_interval(hours(1)).start().await.unwrap();
    let id = says.enqueue("fine".into()).delay(Duration::from_millis(100)).on(&there).await.unwrap().id();
    until_state(&there, id, JobState::Completed).await;
    let row = there.get(id).await.unwrap().unwrap();
    assert!(row.started_at.unwrap() >= row.run_at, "not before its time");
    idle.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn workers_on_several_connections_start_each_of_their_jobs_once() {
    let (file, stage) = (file(), Stage::default());
    let queues = [file.open().await, file.open().await, file.open().await];
    for n in 0..2000 {
        stage.open(n);
    }
    queues[0].enqueue_all((0..2000).map(|n| Gated { n })).await.unwrap();
    let mut workers = Vec::new();
    for queue in &queues {
        workers.push(worker(queue, &stage).concurrency(20).start().await.unwrap());
    }
    let completed = || workers.iter().map(|worker| worker.stats().completed).sum::<u64>();
    until("all are done", async || completed() == 2000).await;
    let mut entered = stage.entered();
    entered.sort_unstable();
    assert_eq!(entered, (0..2000).collect::<Vec<_>>());
    for worker in &workers {
        worker.stop().await.unwrap();
        assert_eq!((worker.stats().failed, worker.stats().late), (0, 0));
    }
}

#[tokio::test]
async fn results_that_meet_a_held_lock_are_stored_when_it_is_let_go_and_no_handler_runs_again() {
    let (file, stage) = (file(), Stage::default());
    let queue = file.open().await;
    let worker = worker(&queue, &stage).concurrency(10).start().await.unwrap();
    for n in 0..10 {
        gated.enqueue(n).on(&queue).await.unwrap();
    }
    stage.until_entered(10).await;
    let foreign = file.foreign();
    foreign.execute_batch("BEGIN IMMEDIATE").unwrap();
    (0..10).for_each(|n| stage.open(n));
    until("all handlers have ended", async || stage.left() == 10).await;
    until("their ends wait", async || worker.stats().unsettled == 10).await;
    assert_eq!(worker.stats().completed, 0);
    foreign.execute_batch("COMMIT").unwrap();
    until("all are stored", async || worker.stats().completed == 10).await;
    assert_eq!(stage.entered().len(), 10);
    worker.stop().await.unwrap();
}

#[tokio::test]
async fn a_stop_under_a_held_lock_ends_within_2_s_of_the_grace() {
    let (file, stage) = (file(), Stage::default());
    let queue = file.open().await;
    let worker = worker(&queue, &stage).grace(Duration::from_millis(100)).start().await.unwrap();
    let id = gated.enqueue(1).on(&queue).await.unwrap().id();
    stage.until_entered(1).await;
    let foreign = file.foreign();
    foreign.execute_batch("BEGIN IMMEDIATE").unwrap();
    let begun = Instant::now();
    worker.stop().await.unwrap();
    assert!(begun.elapsed() < Duration::from_millis(2100), "{:?}", begun.elapsed());
    assert_eq!((stage.told(), worker.stats().unsettled), (1, 1));
    foreign.execute_batch("COMMIT").unwrap();
    until_state(&queue, id, JobState::Pending).await;
    assert_eq!(queue.get(id).await.unwrap().unwrap().attempts, 0);
    until("it has signed out", async || queue.store().workers().await.unwrap().is_empty()).await;
}

#[tokio::test]
async fn an_idle_worker_stops_within_a_second() {
    let (file, stage) = (file(), Stage::default());
    let queue = file.open().await;
    let worker = worker(&queue, &stage).start().await.unwrap();
    let begun = Instant::now();
    worker.stop().await.unwrap();
    assert!(begun.elapsed() < secs(1), "{:?}", begun.elapsed());
}

/// The handler itself waits for three beats, through a connection of its own, and holds the runtime's only thread.
#[tokio::test]
async fn the_store_beats_on_while_a_handler_holds_the_runtimes_only_thread() {
    let (file, stage) = (file(), Stage::default());
    let queue = file.open().await;
    let beat = Duration::from_millis(50);
    let worker = Worker::new(&queue).data(file.path.clone()).jobs((waits_for_beats,)).heartbeat(beat);
    waits_for_beats.enqueue(()).on(&queue).await.unwrap();
    let stats = worker.rescue_after(secs(1)).drain().await.unwrap();
    assert_eq!((stats.completed, stats.late, stage.left()), (1, 0, 0));
}

#[job(type = "ground:waits_for_beats", max_attempts = 1)]
async fn waits_for_beats(#[data] path: &PathBuf) -> Result<(), JobError> {
    let foreign = rusqlite::Connection::open(path)?;
    let beats = || foreign.query_row("SELECT max(beats) FROM jobq_workers", [], |row| row.get::<_, i64>(0));
    let (begun, before) = (Instant::now(), beats()?);
    while beats()? < before + 3 {
        assert!(begun.elapsed() < secs(20), "the beats have stopped");
    }
    Ok(())
}

#[tokio::test]
async fn dropping_a_worker_ends_its_beats_and_frees_its_byte() {
    let (file, stage) = (file(), Stage::default());
    let queue = file.open().await;
    let (first, second) = (worker(&queue, &stage).start().await.unwrap(), worker(&queue, &stage));
    let second = second.start().await.unwrap();
    let lives = async || {
        let workers = queue.store().workers().await.unwrap();
        workers.iter().map(|worker| (worker.id, worker.life)).collect::<Vec<_>>()
    };
    assert_eq!(lives().await, [(first.id(), Life::Alive), (second.id(), Life::Alive)]);
    drop(first);
    until("one is left", async || lives().await == [(second.id(), Life::Alive)]).await;
    second.stop().await.unwrap();
}

#[tokio::test]
async fn a_job_of_a_transaction_starts_after_its_commit_and_never_after_a_rollback() {
    let (file, stage) = (file(), Stage::default());
    let queue = file.open().await;
    let worker = worker(&queue, &stage).start().await.unwrap();
    let url = format!("sqlite://{}", file.path.display());
    let pool = jobq::sqlx::SqlitePool::connect(&url).await.unwrap();
    let mut undone = pool.begin().await.unwrap();
    gated.enqueue(1).on(&queue).in_tx(&mut undone).await.unwrap();
    undone.rollback().await.unwrap();
    let mut tx = pool.begin().await.unwrap();
    let id = gated.enqueue(2).on(&queue).in_tx(&mut tx).await.unwrap().id();
    rest().await;
    assert!(stage.entered().is_empty());
    tx.commit().await.unwrap();
    stage.open(2);
    until_state(&queue, id, JobState::Completed).await;
    assert_eq!(stage.entered(), [2]);
    worker.stop().await.unwrap();
}
