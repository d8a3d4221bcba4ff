//! The testing kit for users of jobq: a queue and a clock of each test's own, and what is to be said about its jobs.
//!
//! ```standalone_crate
//! use jobq::{prelude::*, testing::*, assert_enqueued};
//!
//! #[job]
//! async fn greet_in_kit_docs(name: String) -> Result<String, JobError> {
//!     Ok(format!("Hello, {name}!"))
//! }
//!
//! # #[tokio::main(flavor = "current_thread")] async fn main() {
//! let queue = TestQueue::new();
//! greet_in_kit_docs.enqueue("Ada".into()).delay(hours(1)).on(&queue).await.unwrap();
//! assert_enqueued!(queue, GreetInKitDocs { name } if name == "Ada");
//!
//! assert_eq!(queue.drain().await.completed(), 0, "it is not due");
//! queue.advance(hours(1));
//! queue.drain().await.assert_ok();
//!
//! assert_eq!(perform(GreetInKitDocs { name: "Bob".into() }).await.unwrap(), "Hello, Bob!");
//! # }
//! ```
//!
//! Nothing here is faked: enqueues, claims, attempts, backoffs and rescues are those of every worker, on a store in
//! memory or in a file, and on a clock that stands still until the test [advances](TestQueue::advance) it. The chapter
//! of the [guide](crate::guide::testing) has a whole test module.

use crate::{
    enqueue::{CallJob, JobSet},
    queue::JobQueue,
    registry::DataMap,
    store::{memory::MemoryStore, sqlite},
    time::{Clock, ManualClock, Millis, date, whole_millis},
};
use chrono::{DateTime, Utc};
use std::{any::Any, fmt, future::Future, ops::Deref, path::PathBuf, sync::Arc, time::Duration};

mod drain;
mod find;
mod manifest;
mod perform;

pub use drain::{Drain, Drained, Run};
pub use find::Found;
#[doc(hidden)]
pub use find::{Sought, seek};
pub use manifest::assert_manifest;
pub use perform::{Perform, perform};

/// How long waiting for a job may take in real time: less than a drain may, so that the wait in a handler is named first.
const WAIT: Duration = Duration::from_secs(10);

/// A queue of one test: empty, in memory or in a file of its own, on a clock of its own.
///
/// It is a [`JobQueue`] by deref: enqueue on it, list it, start a [`Worker`](crate::Worker) on it. Clones share its jobs
/// and its clock.
#[derive(Clone)]
pub struct TestQueue {
    queue: JobQueue,
    clock: ManualClock,
    data: DataMap,
    jobs: Option<Vec<&'static str>>,
    /// Last, so that the queue is gone before its files are.
    folder: Option<Arc<Folder>>,
}

impl TestQueue {
    /// An empty queue in memory. Its clock stands at 2026-01-01T00:00:00Z.
    #[expect(clippy::new_without_default, reason = "a test says that it makes a queue")]
    pub fn new() -> Self {
        let clock = ManualClock::default();
        let queue = JobQueue::with_store(Arc::new(MemoryStore::new()), Arc::new(clock.clone()));
        Self::over(queue, clock, None)
    }

    /// An empty queue in a SQLite file, in a new directory below that of the system for temporary files; it is removed
    /// with the last clone. For what memory does not have: the application's own transactions
    /// ([`in_tx`](crate::Enqueue::in_tx)) on the file at [`path`](Self::path).
    ///
    /// # Panics
    /// Where no file can be made there.
    pub async fn sqlite() -> Self {
        let clock = ManualClock::default();
        let folder = Folder::new().unwrap_or_else(|error| panic!("no directory for a test's queue: {error}"));
        let options = JobQueue::options().clock(Arc::new(clock.clone()));
        let opened =
            options.durability(sqlite::Durability::Process).open(folder.file().to_string_lossy()).await;
        let queue = opened.unwrap_or_else(|error| panic!("no queue for a test: {error}"));
        Self::over(queue, clock, Some(Arc::new(folder)))
    }

    fn over(queue: JobQueue, clock: ManualClock, folder: Option<Arc<Folder>>) -> Self {
        queue.set_patience(WAIT);
        Self { queue, clock, data: DataMap::default(), jobs: None, folder }
    }

    /// How long [waiting for a job](crate::JobHandle::wait) on this queue may take in real time before the answer is
    /// [`WaitError::StoodStill`](crate::WaitError::StoodStill); by default 10 s. For the test's clock stands still, and with
    /// it every timeout, and what nobody runs does not end.
    pub fn patience(self, time: Duration) -> Self {
        self.queue.set_patience(time);
        self
    }

    /// The SQLite file; `None` in memory.
    pub fn path(&self) -> Option<PathBuf> {
        self.folder.as_deref().map(Folder::file)
    }

    /// Lends `value` to every job with a `#[data]` parameter of this type, as
    /// [`Worker::data`](crate::Worker::data) does.
    pub fn data<T: Any + Send + Sync>(mut self, value: T) -> Self {
        self.data.insert(value);
        self
    }

    /// Runs these jobs only, given as for [`Worker::jobs`](crate::Worker::jobs). Where a test does not say it, each drain
    /// runs the jobs of which there are any, or schedules, in the queue.
    pub fn jobs<P>(mut self, jobs: impl JobSet<P>) -> Self {
        self.jobs.get_or_insert_default().extend(jobs.job_types());
        self
    }

    /// The clock of this queue, which stands still by itself.
    pub fn clock(&self) -> &ManualClock {
        &self.clock
    }

    /// What the clock shows.
    pub fn now(&self) -> DateTime<Utc> {
        date(self.millis())
    }

    fn millis(&self) -> Millis {
        self.clock.now()
    }

    /// Moves the clock on. It runs nothing that becomes due: [`drain`](Self::drain) does.
    pub fn advance(&self, by: Duration) {
        self.clock.advance(by);
    }

    /// Moves the clock on to this instant; one in the past leaves it where it is.
    pub fn advance_to(&self, at: DateTime<Utc>) {
        let wait = whole_millis(at).saturating_sub(self.millis());
        self.advance(Duration::from_millis(u64::try_from(wait).unwrap_or(0)));
    }

    /// Runs everything that is due now, one job after the other, with the code of a worker, and tells how each attempt
    /// ended; jobs included that became due or were enqueued meanwhile. What is due later stays.
    ///
    /// # Panics
    /// As awaiting any [`Drain`].
    #[track_caller]
    pub fn drain(&self) -> Drain {
        Drain::new(self, drain::Until::Now)
    }

    /// Runs what is due now and what becomes due within this time, ticks of schedules included, each at its instant: moves the clock on from one to
    /// the next, and to the end of the time at last.
    ///
    /// # Panics
    /// As awaiting any [`Drain`].
    #[track_caller]
    pub fn run_for(&self, time: Duration) -> Drain {
        Drain::new(self, drain::Until::Passed(time))
    }

    /// Runs everything, however late it is due: moves the clock on from one instant to the next until no job waits for
    /// its time any more. Schedules tick on the way; for their ticks alone it does not go on, since they never end.
    ///
    /// # Panics
    /// As awaiting any [`Drain`], and after 1,000 instants: a job that snoozes, or enqueues itself again, without an end
    /// is run with [`run_for`](Self::run_for).
    #[track_caller]
    pub fn drain_until_idle(&self) -> Drain {
        Drain::new(self, drain::Until::Idle)
    }

    /// Moves the clock on to the next instant at which something is due, such as the next attempt of a job that failed or
    /// the tick of a schedule, and tells by how much; `None`: nothing waits for its time.
    ///
    /// # Panics
    /// Where the store fails.
    pub async fn advance_to_next(&self) -> Option<Duration> {
        let ahead = drain::Ahead::of(self).await.unwrap_or_else(|error| panic!("{error}"));
        let next = ahead.next()?;
        let wait = Duration::from_millis(next.abs_diff(self.millis()));
        self.advance(wait);
        Some(wait)
    }

    /// The jobs of this type that wait or run, oldest first, each with its row.
    ///
    /// # Panics
    /// Where the store fails, or where a payload can't be read by this build.
    pub async fn all_enqueued<J: CallJob>(&self) -> Vec<Found<J>> {
        let mut all = self.all::<J>().await;
        all.retain(|found| !found.row.state.is_terminal());
        all
    }

    /// The jobs of this type in every state, oldest first, each with its row.
    ///
    /// # Panics
    /// As [`all_enqueued`](Self::all_enqueued).
    pub async fn all<J: CallJob>(&self) -> Vec<Found<J>> {
        find::all(&self.queue).await.unwrap_or_else(|why| panic!("{why}"))
    }
}

impl Deref for TestQueue {
    type Target = JobQueue;

    fn deref(&self) -> &JobQueue {
        &self.queue
    }
}

impl fmt::Debug for TestQueue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TestQueue")
            .field("queue", &self.queue)
            .field("now", &self.now())
            .finish_non_exhaustive()
    }
}

/// A directory that goes when this does.
struct Folder(PathBuf);

impl Folder {
    fn new() -> std::io::Result<Self> {
        let name = format!("jobq-test-{}-{:016x}", std::process::id(), fastrand::u64(..));
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir(&path)?;
        Ok(Self(path.canonicalize()?))
    }

    fn file(&self) -> PathBuf {
        self.0.join("test.db")
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // What can't be removed is left to the system, as all that lies there.
        let _left = std::fs::remove_dir_all(&self.0);
        sqlite::forget(&self.file());
    }
}

/// Runs one test with a queue of its own as its scope, on a runtime of its own. Written by `#[jobq::test]`.
///
/// # Panics
/// As the test does, and where there is no runtime or no file to be had.
pub fn in_test<F: Future>(in_file: bool, test: impl FnOnce(TestQueue) -> F) -> F::Output {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.unwrap_or_else(|error| panic!("no runtime for a test: {error}"));
    runtime.block_on(async {
        let queue = if in_file { TestQueue::sqlite().await } else { TestQueue::new() };
        queue.scope(test(queue.clone())).await
    })
}
