//! W10: what everybody else gets while one process enqueues and runs flat out: people's reads and acts, a foreign
//! connection that wants the write lock, and the workers' signs of life.
//!
//! `jobq-bench work starve FILE seconds=5 sync=full|normal concurrency=1000 counts=0|1`. It answers as every work does:
//! for each of these `…_p50_ms`, `…_p99_ms`, `…_max_ms` and how many there were.

use crate::ours::{Jobq, SendEmail, send_email};
use jobq::{Enqueued, JobFilter, JobQueue, JobState, prelude::*};
use jobq_bench_works::{Figures, Payload, Settings, done, quantile_ms};
use std::{
    error::Error,
    future::Future,
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

/// Tasks that enqueue side by side.
const TASKS: u64 = 64;
/// Scheduled jobs, for people to take back.
const SCHEDULED: u64 = 20_000;
/// Between two asks of the same kind.
const PAUSE: Duration = Duration::from_millis(2);
/// The same where an answer may mean a look at every row.
const LONG_PAUSE: Duration = Duration::from_millis(50);
/// How often the worker gives a sign of life.
const BEAT: Duration = Duration::from_millis(100);

type Failed = Box<dyn Error + Send + Sync>;

fn job(number: u64) -> SendEmail {
    Payload::numbered(number).into()
}

/// Puts the queue to it.
pub async fn starve(settings: &Settings) -> Result<Figures, Failed> {
    let opened = Jobq::open(settings).await.map_err(|error| error.to_string())?;
    let queue = opened.queue().clone();
    let scheduled = queue.enqueue_all((0..SCHEDULED).map(job)).delay(days(1)).await?;
    let slots = usize::try_from(settings.number("concurrency", 1_000))?;
    let worker = Worker::new(&queue).jobs((send_email,)).concurrency(slots).heartbeat(BEAT);
    let worker = worker.start().await?;

    let seconds = settings.number("seconds", 5);
    let end = Instant::now() + Duration::from_secs(seconds);
    let enqueued: Vec<_> = (0..TASKS).map(|task| tokio::spawn(enqueue(queue.clone(), task, end))).collect();
    let others = [
        thread::spawn(beside(settings.file.clone(), end, look_for_the_lock)),
        thread::spawn(beside(settings.file.clone(), end, want_the_lock)),
        thread::spawn(beside(settings.file.clone(), end, watch_the_beats)),
    ];
    let mut taken = ask(&queue, scheduled, settings.number("counts", 1) == 1, end).await?;
    let mut figures = Figures::default();
    let mut sent = 0;
    for enqueued in enqueued {
        sent += enqueued.await??;
    }
    for other in others {
        taken.extend(other.join().map_err(|_| "a thread beside panicked")??);
    }
    figures.set("enqueued_rate", sent as f64 / seconds as f64);
    figures.set("ran_rate", done() as f64 / seconds as f64);
    taken.into_iter().for_each(|taken| taken.tell(&mut figures));
    worker.stop().await?;
    Ok(figures)
}

/// How long each of one kind took.
struct Taken {
    kind: &'static str,
    times: Vec<Duration>,
}

impl Taken {
    fn tell(self, figures: &mut Figures) {
        let mut times: Vec<u64> = self.times.iter().map(|time| time.as_nanos() as u64).collect();
        times.sort_unstable();
        let mut set = |name: &str, value| figures.set(&format!("{}_{name}", self.kind), value);
        set("times", times.len() as f64);
        for (name, share) in [("p50_ms", 0.5), ("p99_ms", 0.99), ("max_ms", 1.0)] {
            if let Some(time) = quantile_ms(&times, share) {
                set(name, time);
            }
        }
    }
}

async fn enqueue(queue: JobQueue, task: u64, end: Instant) -> Result<u64, Failed> {
    let mut sent = 0;
    while Instant::now() < end {
        job(task * 10_000_000 + sent).enqueue().on(&queue).await?;
        sent += 1;
    }
    Ok(sent)
}

// ---- people ------------------------------------------------------------------------------------------------

/// Each kind of question in a task of its own.
async fn ask(
    queue: &JobQueue,
    scheduled: Vec<Enqueued>,
    counts: bool,
    end: Instant,
) -> Result<Vec<Taken>, Failed> {
    let ids = Arc::new(scheduled);
    let mut asking = vec![
        repeat("get", end, PAUSE, queue, {
            let ids = ids.clone();
            move |queue, n| {
                let id = ids[n * 7_919 % ids.len()];
                async move { queue.get(id).await?.map(drop).ok_or_else(|| "it is gone".into()) }
            }
        }),
        repeat("cancel", end, PAUSE, queue, move |queue, n| {
            let id = ids[n % ids.len()];
            async move { queue.cancel_all([id]).await.map(drop).map_err(Into::into) }
        }),
        listing("list_completed", JobState::Completed, end, queue),
        listing("list_pending", JobState::Pending, end, queue),
        listing("list_dead", JobState::Dead, end, queue),
        repeat("list", end, PAUSE, queue, |queue, _| async move {
            let filter = JobFilter { limit: 50, ..JobFilter::default() };
            queue.list(filter).await.map(drop).map_err(Into::into)
        }),
    ];
    if counts {
        asking.push(repeat("counts", end, 10 * LONG_PAUSE, queue, |queue, _| async move {
            queue.counts().await.map(drop).map_err(Into::into)
        }));
    }
    let mut taken = Vec::new();
    for asking in asking {
        taken.push(asking.await??);
    }
    Ok(taken)
}

type Asking = tokio::task::JoinHandle<Result<Taken, Failed>>;

/// The first page of one state.
fn listing(kind: &'static str, state: JobState, end: Instant, queue: &JobQueue) -> Asking {
    repeat(kind, end, LONG_PAUSE, queue, move |queue, _| async move {
        let filter = JobFilter { states: vec![state], limit: 50, ..JobFilter::default() };
        queue.list(filter).await.map(drop).map_err(Into::into)
    })
}

fn repeat<A: Future<Output = Result<(), Failed>> + Send + 'static>(
    kind: &'static str,
    end: Instant,
    pause: Duration,
    queue: &JobQueue,
    ask: impl Fn(JobQueue, usize) -> A + Send + 'static,
) -> Asking {
    let queue = queue.clone();
    tokio::spawn(async move {
        let mut times = Vec::new();
        while Instant::now() < end {
            let began = Instant::now();
            ask(queue.clone(), times.len()).await?;
            times.push(began.elapsed());
            tokio::time::sleep(pause).await;
        }
        Ok(Taken { kind, times })
    })
}

// ---- other connections -------------------------------------------------------------------------------------

/// What a thread does that has a connection of its own, as another program has it.
fn beside(
    file: String,
    end: Instant,
    look: fn(&rusqlite::Connection, Instant) -> rusqlite::Result<Vec<Taken>>,
) -> impl FnOnce() -> Result<Vec<Taken>, Failed> {
    move || Ok(look(&rusqlite::Connection::open(file)?, end)?)
}

/// An application that begins a transaction with the patience that sqlx and others give it.
fn want_the_lock(db: &rusqlite::Connection, end: Instant) -> rusqlite::Result<Vec<Taken>> {
    db.busy_timeout(Duration::from_secs(5))?;
    let mut times = Vec::new();
    while Instant::now() < end {
        let began = Instant::now();
        db.execute_batch("BEGIN IMMEDIATE")?;
        times.push(began.elapsed());
        db.execute_batch("ROLLBACK")?;
        thread::sleep(Duration::from_millis(20));
    }
    Ok(vec![Taken { kind: "foreign_begin", times }])
}

/// Looks for the lock all the time: how long until it is had, and how long one transaction held it at most, which ends
/// where another commit is seen or the lock is free.
fn look_for_the_lock(db: &rusqlite::Connection, end: Instant) -> rusqlite::Result<Vec<Taken>> {
    db.busy_timeout(Duration::ZERO)?;
    let mut version = db.prepare("PRAGMA data_version")?;
    let mut commits = || version.query_row([], |row| row.get::<_, i64>(0));
    let (mut waits, mut holds) = (Vec::new(), Vec::new());
    while Instant::now() < end {
        let began = Instant::now();
        let (mut held_since, mut seen) = (None, commits()?);
        while let Err(error) = db.execute_batch("BEGIN IMMEDIATE") {
            if error.sqlite_error_code() != Some(rusqlite::ErrorCode::DatabaseBusy) {
                return Err(error);
            }
            let now = commits()?;
            if now != seen {
                holds.extend(held_since.take().map(|since: Instant| since.elapsed()));
                seen = now;
            }
            held_since.get_or_insert_with(Instant::now);
            thread::sleep(Duration::from_micros(100));
        }
        waits.push(began.elapsed());
        db.execute_batch("ROLLBACK")?;
        holds.extend(held_since.map(|since| since.elapsed()));
        thread::sleep(PAUSE);
    }
    Ok(vec![Taken { kind: "foreign_look", times: waits }, Taken { kind: "lock_held", times: holds }])
}

/// How much later than it was to come each sign of life could be seen by others.
fn watch_the_beats(db: &rusqlite::Connection, end: Instant) -> rusqlite::Result<Vec<Taken>> {
    let mut beats = db.prepare("SELECT max(beats) FROM jobq_workers")?;
    let mut beats = || beats.query_row([], |row| row.get::<_, i64>(0));
    let (mut seen, mut since, mut late) = (beats()?, None::<Instant>, Vec::new());
    while Instant::now() < end {
        thread::sleep(Duration::from_millis(1));
        let now = beats()?;
        if now != seen {
            seen = now;
            let before = since.replace(Instant::now());
            late.extend(before.map(|before| before.elapsed().saturating_sub(BEAT)));
        }
    }
    Ok(vec![Taken { kind: "beat_late", times: late }])
}
