//! While one process enqueues and runs flat out, everybody else gets their turn; measured in a campaign only.

use super::ground::until;
use crate::Ids;
use jobq::{JobFilter, JobId, JobQueue, SqliteOptions, SqliteStore, SystemClock, prelude::*};
use std::{
    path::Path,
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

/// What nobody waits longer for, but for one time of a hundred.
const PROMISED: Duration = Duration::from_millis(50);
const FOR: Duration = Duration::from_secs(10);

#[job(type = "flat_out:passed", retain = "1h")]
async fn passed(n: u64, to: String) {
    let _ = (n, to);
}

fn job(n: u64) -> Passed {
    Passed { n, to: "user@example.org".into() }
}

/// `JOBQ_CAMPAIGN=1 cargo test --release …`, on a machine that does nothing else: beside other tests, in a debug build,
/// it would measure those.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn others_wait_no_longer_than_is_promised_while_a_worker_runs_flat_out() {
    if std::env::var_os("JOBQ_CAMPAIGN").is_none() {
        return;
    }
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let path = dir.path().join("app.db");
    let store = SqliteStore::open(SqliteOptions::new(&path)).await.unwrap();
    let queue = JobQueue::with_store(Arc::new(store), Arc::new(SystemClock));
    let ids = queue.enqueue_all((0..10_000).map(job)).delay(days(1)).await.unwrap().ids();
    let beat = Duration::from_millis(100);
    let worker = Worker::new(&queue).jobs((passed,)).concurrency(1000).heartbeat(beat).start().await.unwrap();

    let end = Instant::now() + FOR;
    let enqueuing: Vec<_> = (0..64).map(|_| tokio::spawn(enqueue(queue.clone(), end))).collect();
    let lock = thread::spawn({
        let path = path.clone();
        move || want_the_lock(&path, end)
    });
    let beats = thread::spawn(move || watch_the_beats(&path, beat, end));
    let [get, list, cancel] = tokio::join!(
        waits(end, &ids, async |id| drop(queue.get(id).await.unwrap().unwrap())),
        waits(end, &ids, async |_| drop(
            queue.list(JobFilter { limit: 50, ..Default::default() }).await.unwrap()
        )),
        waits(end, &ids, async |id| drop(queue.cancel_all([id]).await.unwrap())),
    )
    .into();
    for enqueuing in enqueuing {
        enqueuing.await.unwrap();
    }
    let waits = [
        ("a job that is looked at", get),
        ("a page of the list", list),
        ("a job that is taken back", cancel),
        ("a foreign connection's write lock", lock.join().unwrap()),
        ("a sign of life, after its time", beats.join().unwrap()),
    ];
    let waits = waits.map(|(what, mut waits)| {
        waits.sort_unstable();
        (what, waits.len(), waits[(waits.len() - 1) * 99 / 100])
    });
    println!("{waits:#?}; {} jobs ran", worker.stats().completed);
    for (what, times, p99) in waits {
        assert!(times > 20 && p99 <= PROMISED, "{what}, {times} times: {p99:?}");
    }
    until("all have run", async || worker.stats().unsettled == 0).await;
    worker.stop().await.unwrap();
}

async fn enqueue(queue: JobQueue, end: Instant) {
    let mut n = 0;
    while Instant::now() < end {
        job(n).enqueue().on(&queue).await.unwrap();
        n += 1;
    }
}

/// How long each answer took, one after the other.
async fn waits(end: Instant, ids: &[JobId], ask: impl AsyncFn(JobId)) -> Vec<Duration> {
    let mut waits = Vec::new();
    while Instant::now() < end {
        let began = Instant::now();
        ask(ids[waits.len() % ids.len()]).await;
        waits.push(began.elapsed());
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    waits
}

/// As a program that looks for the lock every 100 µs.
fn want_the_lock(path: &Path, end: Instant) -> Vec<Duration> {
    let db = rusqlite::Connection::open(path).unwrap();
    db.busy_timeout(Duration::ZERO).unwrap();
    let mut waits = Vec::new();
    while Instant::now() < end {
        let began = Instant::now();
        while db.execute_batch("BEGIN IMMEDIATE").is_err() {
            thread::sleep(Duration::from_micros(100));
        }
        waits.push(began.elapsed());
        db.execute_batch("ROLLBACK").unwrap();
        thread::sleep(Duration::from_millis(2));
    }
    waits
}

/// How much later than it was to come each sign of life was seen.
fn watch_the_beats(path: &Path, every: Duration, end: Instant) -> Vec<Duration> {
    let db = rusqlite::Connection::open(path).unwrap();
    let beats =
        || db.query_row("SELECT max(beats) FROM jobq_workers", [], |row| row.get::<_, i64>(0)).unwrap();
    let (mut late, mut seen, mut since) = (Vec::new(), beats(), None::<Instant>);
    while Instant::now() < end {
        thread::sleep(Duration::from_millis(1));
        if seen != beats() {
            seen = beats();
            late.extend(since.replace(Instant::now()).map(|since| since.elapsed().saturating_sub(every)));
        }
    }
    late
}
