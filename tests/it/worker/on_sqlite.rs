//! What a worker shows only over a real file: other connections, a lock that is held, beats, the machine's own time.

use super::ground::*;
use jobq::{
    JobQueue, JobRow, JobState, SqliteOptions, SqliteStore, SystemClock, job::NewJob, prelude::*,
    store::Life, worker::Worker,
};
use std::{
    path::{Path, PathBuf},
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
        Self::at(&self.path).await
    }

    async fn at(path: &Path) -> JobQueue {
        let store = SqliteStore::open(SqliteOptions::new(path)).await.unwrap();
        JobQueue::with_store(Arc::new(store), Arc::new(SystemClock))
    }

    /// A job that no worker here knows: whatever happens, it is not to be touched.
    async fn bystander(&self, queue: &JobQueue) -> JobRow {
        let id = queue.store().enqueue(vec![NewJob::new("nobody:knows", "{}")], 1).await.unwrap()[0].id;
        queue.get(id).await.unwrap().unwrap()
    }

    /// A plain connection, as any other program has it.
    fn foreign(&self) -> rusqlite::Connection {
        rusqlite::Connection::open(&self.path).unwrap()
    }
}

async fn untouched(queue: &JobQueue, bystander: JobRow) {
    assert_eq!(queue.get(bystander.id).await.unwrap(), Some(bystander), "the bystander was touched");
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

/// One that judges by beats alone, by a clock of its own: what it waits for passes as fast as it can look.
struct Judge {
    clock: jobq::ManualClock,
    worker: jobq::WorkerHandle,
    file: rusqlite::Connection,
}

impl Judge {
    /// Its sweeps, each of which sleeps between two rounds: promotion, rescue, prune, ticks, lease and cancel check.
    const SWEEPS: usize = 6;

    /// With the default times. The kernel's word on `holder`'s life is taken from it.
    async fn on(file: &File) -> Self {
        let foreign = file.foreign();
        assert_eq!(foreign.execute("UPDATE jobq_workers SET boot = 'another machine'", []).unwrap(), 1);
        let clock = jobq::ManualClock::default();
        let store = SqliteStore::open(SqliteOptions::new(&file.path)).await.unwrap();
        let queue = JobQueue::with_store(Arc::new(store), Arc::new(clock.clone()));
        let worker = Worker::new(&queue).jobs((waits_for_beats,)).data(file.path.clone());
        let worker = worker.start().await.unwrap();
        let judge = Self { clock, worker, file: foreign };
        judge.looks_for(secs(2)).await;
        let life = queue.store().workers().await.unwrap()[0].life;
        assert_eq!(life, Life::Unknown);
        judge
    }

    /// So much time passes for it, a second and a look at a time.
    async fn looks_for(&self, time: Duration) {
        for _ in 0..time.as_secs() {
            self.clock.advance(secs(1));
            until("it has looked", async || self.clock.sleepers() == Self::SWEEPS).await;
        }
    }

    fn beats(&self) -> i64 {
        self.file
            .query_row("SELECT beats FROM jobq_workers ORDER BY id LIMIT 1", [], |row| row.get(0))
            .unwrap()
    }

    async fn hears_a_beat(&self) {
        let before = self.beats();
        until("it beats", async || self.beats() > before).await;
    }
}

/// Case 013, with the real times: 30 s of a held lock against five minutes without a beat.
#[tokio::test]
async fn a_lock_held_for_thirty_seconds_costs_no_job_and_the_beats_go_on_after_it() {
    let (file, stage) = (file(), Stage::default());
    let queue = file.open().await;
    let bystander = file.bystander(&queue).await;
    let holder = worker(&queue, &stage).heartbeat(Duration::from_millis(20)).start().await.unwrap();
    let id = gated.enqueue(1).on(&queue).await.unwrap().id();
    stage.until_entered(1).await;
    let judge = Judge::on(&file).await;
    judge.hears_a_beat().await;
    let foreign = file.foreign();
    foreign.execute_batch("BEGIN IMMEDIATE").unwrap();
    let held = judge.beats();
    judge.looks_for(secs(30)).await;
    assert_eq!(judge.beats(), held, "nobody beats past a lock");
    foreign.execute_batch("COMMIT").unwrap();
    judge.hears_a_beat().await;
    judge.looks_for(secs(280)).await;
    stage.open(1);
    until_state(&queue, id, JobState::Completed).await;
    let row = queue.get(id).await.unwrap().unwrap();
    assert_eq!((row.lease, row.attempts, row.worker), (1, 1, Some(holder.id())));
    assert_eq!((stage.entered(), judge.worker.stats().completed), (vec![1], 0));
    holder.stop().await.unwrap();
    untouched(&queue, bystander).await;
}

/// Case 041: its runtime's only thread is held for more than three times what a rescuer waits for.
#[tokio::test]
async fn a_worker_whose_only_thread_is_held_is_not_robbed_by_one_that_counts_its_beats() {
    let file = file();
    let queue = file.open().await;
    let bystander = file.bystander(&queue).await;
    let id = holds_on.enqueue(()).on(&queue).await.unwrap().id();
    let (entered, has_entered) = std::sync::mpsc::channel();
    let (let_go, may_go) = std::sync::mpsc::channel();
    let gate: Gate = Arc::new((entered, std::sync::Mutex::new(may_go)));
    let path = file.path.clone();
    let holder = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let queue = File::at(&path).await;
            let worker = Worker::new(&queue).data(gate).jobs((holds_on,));
            worker.heartbeat(Duration::from_millis(20)).drain().await.unwrap()
        })
    });
    until("its thread is held", async || has_entered.try_recv().is_ok()).await;
    let judge = Judge::on(&file).await;
    for _ in 0..10 {
        judge.hears_a_beat().await;
        judge.looks_for(secs(100)).await;
        let row = queue.get(id).await.unwrap().unwrap();
        assert_eq!((row.state, row.lease), (JobState::Running, 1));
    }
    let_go.send(()).unwrap();
    until("it has ended", async || holder.is_finished()).await;
    let stats = holder.join().unwrap();
    assert_eq!((stats.completed, stats.late, judge.worker.stats().completed), (1, 0, 0));
    untouched(&queue, bystander).await;
}

type Gate = Arc<(std::sync::mpsc::Sender<()>, std::sync::Mutex<std::sync::mpsc::Receiver<()>>)>;

/// Holds the thread that it runs on until it may go.
#[job(type = "ground:holds_on")]
async fn holds_on(#[data] gate: &Gate) {
    gate.0.send(()).unwrap();
    gate.1.lock().unwrap().recv().unwrap();
}

/// Case 004: the list is read all the while.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kinds_of_different_shape_never_meet_also_where_the_list_is_read_meanwhile() {
    let file = file();
    let queue = file.open().await;
    for n in 0..25 {
        queue.enqueue_all((n * 100..n * 100 + 100).map(|n| Counts { n })).await.unwrap();
        let names = |n| Names { names: vec![format!("n{n}")] };
        queue.enqueue_all((n * 100..n * 100 + 100).map(names)).await.unwrap();
    }
    let seen: Seen = Arc::default();
    let worker = Worker::new(&queue).data(seen.clone()).jobs((counts, names)).concurrency(20);
    let drain = tokio::spawn(worker.drain());
    let reader = file.open().await;
    let mut read = 0;
    while !drain.is_finished() || read == 0 {
        let mut pages = reader.pages(jobq::JobFilter { limit: 500, ..Default::default() });
        while let Some(page) = pages.next().await.unwrap() {
            for row in page {
                let begins = if row.job_type == "ground:counts" { r#"{"n":"# } else { r#"{"names":["n"# };
                assert!(row.payload.starts_with(begins), "{}: {}", row.job_type, row.payload);
                read += 1;
            }
        }
    }
    let stats = drain.await.unwrap().unwrap();
    assert_eq!((stats.completed, stats.failed), (5000, 0));
    let mut seen = std::mem::take(&mut *seen.lock().unwrap());
    seen.sort();
    let mut wanted: Vec<_> =
        (0..2500).flat_map(|n| [format!("counts {n}"), format!("names [\"n{n}\"]")]).collect();
    wanted.sort();
    assert_eq!(seen, wanted);
}

type Seen = Arc<std::sync::Mutex<Vec<String>>>;

#[job(type = "ground:counts")]
async fn counts(#[data] seen: &Seen, n: u32) {
    seen.lock().unwrap().push(format!("counts {n}"));
}

#[job(type = "ground:names")]
async fn names(#[data] seen: &Seen, names: Vec<String>) {
    seen.lock().unwrap().push(format!("names {names:?}"));
}

/// Case 059, on a file: whoever comes after the stop finds no transaction open.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stop_among_two_hundred_completions_leaves_no_transaction_open() {
    for some in [0, 1, 50, 150, 300] {
        let (file, stage) = (file(), Stage::default());
        let queue = file.open().await;
        let bystander = file.bystander(&queue).await;
        queue.enqueue_all((0..400).map(|_| Says { what: "fine".into() })).await.unwrap();
        let worker = worker(&queue, &stage).concurrency(200).start().await.unwrap();
        until("some have ended", async || worker.stats().completed >= some).await;
        worker.stop().await.unwrap();
        let foreign = file.foreign();
        foreign.busy_timeout(Duration::ZERO).unwrap();
        until("the lock is free", async || foreign.execute_batch("BEGIN IMMEDIATE; COMMIT").is_ok()).await;
        let completed = worker.stats().completed;
        let count = |state: i64| -> u64 {
            let sql = "SELECT count(*) FROM jobs WHERE state = ?1";
            foreign.query_row(sql, [state], |row| row.get::<_, i64>(0)).unwrap() as u64
        };
        let states = [JobState::Completed, JobState::Pending].map(|state| count(state.code()));
        assert_eq!(states, [completed, 400 - completed + 1]);
        assert_eq!(stage.entered().len() as u64, completed, "no result of a handler that ended is lost");
        untouched(&queue, bystander).await;
    }
}

/// Case 101: a handler whose own row is gone when it ends; the results that are stored with its own stand.
#[tokio::test]
async fn a_handler_that_deletes_its_own_row_is_gone_and_harms_no_batch_mate() {
    let (file, stage) = (file(), Stage::default());
    let queue = file.open().await;
    let bystander = file.bystander(&queue).await;
    let worker =
        Worker::new(&queue).data(stage.clone()).data(file.path.clone()).jobs((deletes_itself, gated));
    let worker = worker.concurrency(20).start().await.unwrap();
    let mut mates = Vec::new();
    for n in 0..10 {
        mates.push(gated.enqueue(n).on(&queue).await.unwrap().id());
        deletes_itself.enqueue(n).on(&queue).await.unwrap();
    }
    stage.until_entered(20).await;
    (0..10).for_each(|n| stage.open(n));
    until("all are over", async || worker.stats().completed + worker.stats().gone == 20).await;
    assert_eq!((worker.stats().completed, worker.stats().gone), (10, 10));
    for id in mates {
        assert_eq!(queue.get(id).await.unwrap().unwrap().state, JobState::Completed);
    }
    let next = gated.enqueue(1).on(&queue).await.unwrap().id();
    until_state(&queue, next, JobState::Completed).await;
    worker.stop().await.unwrap();
    untouched(&queue, bystander).await;
}

#[job(type = "ground:deletes_itself")]
async fn deletes_itself(
    ctx: &JobContext,
    #[data] stage: &Stage,
    #[data] path: &PathBuf,
    n: u32,
) -> Result<(), JobError> {
    let _on = stage.enter(n);
    stage.passes(n).await;
    let foreign = rusqlite::Connection::open(path)?;
    foreign.busy_timeout(secs(30))?;
    let mine = "DELETE FROM jobs WHERE payload = ?1
        AND lane = (SELECT id FROM jobq_lanes WHERE job_type = 'ground:deletes_itself')";
    let deleted = foreign.execute(mine, [format!(r#"{{"n":{n}}}"#)])?;
    assert_eq!((deleted, ctx.attempt()), (1, 1));
    Ok(())
}

/// Case 020.
#[tokio::test]
async fn the_log_of_a_start_names_the_version_of_sqlite() {
    let (file, stage, log) = (file(), Stage::default(), log());
    worker(&file.open().await, &stage).start().await.unwrap().stop().await.unwrap();
    let text = log.text();
    let line = text.lines().find(|line| line.contains("the worker has started")).expect("it says so");
    assert!(line.contains(rusqlite::version()), "{line}");
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
