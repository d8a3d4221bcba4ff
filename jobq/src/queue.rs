//! JobQueue: the one door for applications, admin and command line.
//!
//! A [`JobQueue`] is a handle to the jobs in one store. Enqueueing lives in [`enqueue`](crate::enqueue), running in
//! [`worker`](crate::worker); everything that people do to jobs (look, cancel, retry, delete) is here.
//!
//! # Where the words of other queues live
//!
//! | Elsewhere | Here |
//! |---|---|
//! | `enqueue(type, payload, opts)` | `send_mail.enqueue(args)`, [`JobQueue::enqueue`], by name [`JobQueue::enqueue_raw`] |
//! | `opts.runAt`, `opts.priority`, `opts.maxAttempts` | [`run_at`](crate::enqueue::Enqueue::run_at), [`priority`](crate::enqueue::Enqueue::priority), [`max_attempts`](crate::enqueue::Enqueue::max_attempts) on the builder |
//! | `enqueue_delayed(job, run_after)` | `.run_at(run_after)` or [`.delay(duration)`](crate::enqueue::Enqueue::delay) on the builder |
//! | `start()` | `Worker::new(&queue).start()`, or `run()` until a signal |
//! | `pause()`, `resume()` | the same words on the handle that `start()` gives |
//! | `waitForActive(timeoutMs)` | `wait_for_active(timeout)` on the handle that `start()` gives |
//! | `dequeue(limit)` | [`Store::claim`], called by the worker; each claim gives a lease |
//! | `complete(id)` | [`Store::complete`], from a job function's `Ok`; fenced by the lease |
//! | `fail(id, error)` | [`Store::fail`], from a job function's `Err`, panic or time-out |
//! | `dead(id, error)` | [`JobError::dead`](crate::job::JobError::dead) in the job function, or the last attempt failed |
//! | `retry_count(status)` | [`JobQueue::counts`]; attempts of one job: [`JobRow::attempts`], [`JobQueue::attempts`] |
//! | a cron-driven `queue_worker` | `Worker::new(&queue).drain()` |

use crate::{
    job::{Attempt, JobId, JobRow, MAX_NAME},
    state::{Edge, JobState},
    store::{
        Acted, Count, JobFilter, Retention, Store, StoreError,
        sqlite::{Durability, SqliteOptions, SqliteStore},
    },
    time::{Clock, Millis, SystemClock},
};
use std::{
    fmt,
    future::Future,
    num::NonZeroU32,
    sync::{
        Arc, PoisonError, RwLock,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

/// A handle to a queue of jobs in a store. Cloning it is cheap and gives the same queue.
#[derive(Clone)]
pub struct JobQueue(Arc<Inner>);

struct Inner {
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    settings: Settings,
}

#[derive(Clone, Copy, Debug)]
struct Settings {
    default_max_attempts: u32,
    retention: Retention,
}

const WEEK: Duration = Duration::from_secs(7 * 24 * 3600);

impl Default for Settings {
    fn default() -> Self {
        let retention = Retention { finished: Some(WEEK), dead: None };
        Self { default_max_attempts: 3, retention }
    }
}

impl JobQueue {
    /// A queue on any store, with the default settings.
    pub fn with_store(store: Arc<dyn Store>, clock: Arc<dyn Clock>) -> Self {
        let settings = Settings::default();
        Self(Arc::new(Inner { store, clock, settings }))
    }

    /// Opens the queue in a SQLite file, with the default settings: a path, or a URL such as `sqlite://app.db`. A missing
    /// file is created, in a directory that is there; the tables are brought up to date; the full path is logged.
    ///
    /// # Errors
    /// [`QueueError::Store`], naming the full path, where the file can't be used, and [`QueueError::Settings`] where
    /// another kind of database is named.
    pub async fn open(url_or_path: impl AsRef<str>) -> Result<Self, QueueError> {
        Self::options().open(url_or_path).await
    }

    /// The same, and never creates a file.
    ///
    /// # Errors
    /// As [`open`](Self::open), and where there is no such file.
    pub async fn open_existing(url_or_path: impl AsRef<str>) -> Result<Self, QueueError> {
        Self::options().open_existing(url_or_path).await
    }

    /// Opens the queue in the file of an application's pool, so that [`in_tx`](crate::enqueue::Enqueue::in_tx) can join
    /// its transactions. Only the path is taken over: the queue has connections of its own.
    ///
    /// # Errors
    /// As [`open`](Self::open), and where the pool's database is in memory.
    pub async fn open_pool(pool: &sqlx::SqlitePool) -> Result<Self, QueueError> {
        Self::options().open_pool(pool).await
    }

    /// Opens the queue that the environment names.
    ///
    /// - `JOBQ_DATABASE`, or where that is not set `DATABASE_URL`: the file, as a path or a `sqlite:` URL.
    /// - `WORKER_DEFAULT_MAX_ATTEMPTS`: counted starts at most, for jobs whose enqueue and type say nothing. It acts at the
    ///   enqueue, so it is the enqueueing program that needs it.
    ///
    /// A variable that is set to nothing counts as not set.
    ///
    /// # Errors
    /// [`QueueError::Env`] names the variable and says what to write; else as [`open`](Self::open).
    pub async fn from_env() -> Result<Self, QueueError> {
        Self::from_vars(environment).await
    }

    /// The same from wherever a program keeps its settings: `look_up` gives the value of a variable.
    ///
    /// # Errors
    /// As [`from_env`](Self::from_env).
    pub async fn from_vars(look_up: impl Fn(&str) -> Option<String>) -> Result<Self, QueueError> {
        let options = Self::options().vars(&look_up)?;
        let file = database("JOBQ_DATABASE", &look_up).transpose();
        let file = file.or_else(|| database("DATABASE_URL", &look_up).transpose()).transpose()?;
        let file = file.ok_or_else(|| EnvError {
            variable: "JOBQ_DATABASE",
            value: None,
            why: "it is not set, and DATABASE_URL is not either; write the path of the file, such as app.db"
                .into(),
        })?;
        options.open_file(file).await
    }

    /// Settings for a queue that is to be opened.
    pub fn options() -> JobQueueOptions {
        JobQueueOptions::default()
    }

    /// The storage.
    pub fn store(&self) -> &Arc<dyn Store> {
        &self.0.store
    }

    /// Where this queue takes the time from.
    pub fn clock(&self) -> &Arc<dyn Clock> {
        &self.0.clock
    }

    /// What the storage is, for logs and errors: kind, full path, versions, durability.
    pub fn describe(&self) -> String {
        self.0.store.describe()
    }

    /// Counted starts at most, for jobs whose enqueue and type say nothing. It acts at the enqueue.
    pub fn default_max_attempts(&self) -> u32 {
        self.0.settings.default_max_attempts
    }

    /// How long finished jobs are kept where their row says nothing.
    pub fn retention(&self) -> Retention {
        self.0.settings.retention
    }

    pub(crate) fn now(&self) -> Millis {
        self.0.clock.now()
    }
}

impl fmt::Debug for JobQueue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("JobQueue").field(&self.describe()).finish()
    }
}

/// Settings for a queue that is to be opened: [`JobQueue::options`].
///
/// ```no_run
/// # use jobq::{prelude::*, store::sqlite::Durability};
/// # async fn doc() -> Result<(), jobq::QueueError> {
/// let queue = JobQueue::options()
///     .durability(Durability::Process)
///     .deadline(secs(10))
///     .default_max_attempts(5)
///     .keep_dead(days(90))
///     .open("sqlite://app.db")
///     .await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Default)]
#[must_use = "options do nothing until a queue is opened with them"]
pub struct JobQueueOptions {
    settings: Settings,
    durability: Option<Durability>,
    deadline: Option<Duration>,
    clock: Option<Arc<dyn Clock>>,
}

impl JobQueueOptions {
    /// Counted starts at most, for jobs whose enqueue and type say nothing; at least 1, by default 3.
    pub fn default_max_attempts(mut self, max_attempts: u32) -> Self {
        self.settings.default_max_attempts = max_attempts;
        self
    }

    /// How long completed and cancelled jobs are kept, `None` for ever; by default 7 days.
    pub fn keep_finished(mut self, keep: impl Into<Option<Duration>>) -> Self {
        self.settings.retention.finished = keep.into();
        self
    }

    /// How long dead jobs are kept, `None` for ever; by default for ever.
    pub fn keep_dead(mut self, keep: impl Into<Option<Duration>>) -> Self {
        self.settings.retention.dead = keep.into();
        self
    }

    /// What a commit of the SQLite store outlives; a power cut by default.
    pub fn durability(mut self, durability: Durability) -> Self {
        self.durability = Some(durability);
        self
    }

    /// How long an enqueue or an act waits for the write lock of the SQLite file before it is `Busy`; 5 s by default.
    pub fn deadline(mut self, deadline: Duration) -> Self {
        self.deadline = Some(deadline);
        self
    }

    /// Where the queue takes the time from; the system's clock by default.
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = Some(clock);
        self
    }

    /// Opens the queue in a SQLite file: see [`JobQueue::open`].
    ///
    /// # Errors
    /// As [`JobQueue::open`], and [`QueueError::Settings`] where a setting can't be used.
    pub async fn open(self, url_or_path: impl AsRef<str>) -> Result<JobQueue, QueueError> {
        let file = sqlite_file(url_or_path.as_ref())?;
        self.open_file(file).await
    }

    /// The same, and never creates a file.
    ///
    /// # Errors
    /// As [`open`](Self::open), and where there is no such file.
    pub async fn open_existing(self, url_or_path: impl AsRef<str>) -> Result<JobQueue, QueueError> {
        let file = sqlite_file(url_or_path.as_ref())?.create(false);
        self.open_file(file).await
    }

    /// Opens the queue in the file of an application's pool: see [`JobQueue::open_pool`].
    ///
    /// # Errors
    /// As [`open`](Self::open), and where the pool's database is in memory.
    pub async fn open_pool(self, pool: &sqlx::SqlitePool) -> Result<JobQueue, QueueError> {
        self.open_file(SqliteOptions::from_pool(pool)?).await
    }

    async fn open_file(self, mut file: SqliteOptions) -> Result<JobQueue, QueueError> {
        self.settings.check()?;
        let clock = self.clock.clone().unwrap_or_else(|| Arc::new(SystemClock));
        file = file.clock(clock.clone());
        if let Some(durability) = self.durability {
            file = file.durability(durability);
        }
        if let Some(deadline) = self.deadline {
            file = file.deadline(deadline);
        }
        self.with_store(Arc::new(SqliteStore::open(file).await?), clock)
    }

    /// Reads `WORKER_DEFAULT_MAX_ATTEMPTS` from the environment; unset or empty leaves the setting as it is.
    ///
    /// # Errors
    /// [`QueueError::Env`] names the variable and says what to write.
    pub fn env(self) -> Result<Self, QueueError> {
        self.vars(environment)
    }

    /// The same from wherever a program keeps its settings: `look_up` gives the value of a variable.
    ///
    /// # Errors
    /// As [`env`](Self::env).
    pub fn vars(mut self, look_up: impl Fn(&str) -> Option<String>) -> Result<Self, QueueError> {
        let attempts = EnvError::read("WORKER_DEFAULT_MAX_ATTEMPTS", look_up, |value| {
            let wanted = "write a whole number from 1 to 4294967295";
            value.parse::<NonZeroU32>().map_err(|_| wanted.to_owned())
        })?;
        if let Some(attempts) = attempts {
            self.settings.default_max_attempts = attempts.get();
        }
        Ok(self)
    }

    /// A queue on any store, with these settings.
    ///
    /// # Errors
    /// [`QueueError::Settings`] where a setting can't be used.
    pub fn with_store(self, store: Arc<dyn Store>, clock: Arc<dyn Clock>) -> Result<JobQueue, QueueError> {
        let settings = self.settings;
        settings.check()?;
        Ok(JobQueue(Arc::new(Inner { store, clock, settings })))
    }
}

impl fmt::Debug for JobQueueOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { settings, durability, deadline, clock: _ } = self;
        let mut shown = f.debug_struct("JobQueueOptions");
        shown.field("settings", settings).field("durability", durability).field("deadline", deadline);
        shown.finish_non_exhaustive()
    }
}

impl Settings {
    fn check(&self) -> Result<(), QueueError> {
        match self.default_max_attempts {
            0 => Err(QueueError::Settings(
                "default_max_attempts is 0, and such a job never runs; 1 means one run and no retry".into(),
            )),
            _ => Ok(()),
        }
    }
}

/// The SQLite file of this URL or path. A URL of another kind would pass for a strange path; it may hold a password, so
/// only its scheme is shown.
fn sqlite_file(url_or_path: &str) -> Result<SqliteOptions, QueueError> {
    match url_or_path.split_once("://") {
        Some((scheme, _)) if scheme != "sqlite" => Err(QueueError::Settings(format!(
            "a {scheme} URL is not a queue; write the path of a SQLite file, or a URL such as sqlite://app.db"
        ))),
        _ => Ok(SqliteOptions::from_url_or_path(url_or_path)?),
    }
}

/// The SQLite file that this variable names; its value may hold a password and is not shown.
fn database(
    variable: &'static str,
    look_up: impl Fn(&str) -> Option<String>,
) -> Result<Option<SqliteOptions>, EnvError> {
    EnvError::read(variable, look_up, |value| sqlite_file(value).map_err(|error| error.to_string()))
        .map_err(|error| EnvError { value: None, ..error })
}

pub(crate) fn environment(variable: &str) -> Option<String> {
    std::env::var_os(variable).map(|value| value.to_string_lossy().into_owned())
}

// ---- which queue is meant where none is named ------------------------------------------------------------------

tokio::task_local! {
    static HERE: JobQueue;
}
static SCOPED: AtomicBool = AtomicBool::new(false);
static INSTALLED: RwLock<Option<JobQueue>> = RwLock::new(None);

/// Where an enqueue names no queue with `on(&queue)`, it goes to the queue of the innermost scope or running job that
/// it is in, else to the installed default.
impl JobQueue {
    /// Makes this queue the program's default. A later call replaces it.
    pub fn install(&self) {
        *INSTALLED.write().unwrap_or_else(PoisonError::into_inner) = Some(self.clone());
    }

    /// Runs `future` with this queue in place of the default, for that future alone: parallel tests never share one.
    ///
    /// A task that `future` starts with `tokio::spawn` is outside; [`spawn`] keeps it inside. Once any scope was
    /// entered, an enqueue outside of all is answered with [`NoQueue::OutsideScope`] and never goes to a default that
    /// may not be meant.
    pub async fn scope<F: Future>(&self, future: F) -> F::Output {
        SCOPED.store(true, Ordering::Relaxed);
        self.enter(future).await
    }

    /// Runs a job of this queue: what it enqueues goes to this queue too.
    pub(crate) async fn enter<F: Future>(&self, future: F) -> F::Output {
        HERE.scope(self.clone(), future).await
    }

    /// The queue that an enqueue without `on(&queue)` goes to here and now.
    ///
    /// # Errors
    /// [`NoQueue`] says what to write.
    pub fn current() -> Result<Self, NoQueue> {
        if let Ok(queue) = HERE.try_with(Self::clone) {
            return Ok(queue);
        }
        if SCOPED.load(Ordering::Relaxed) {
            return Err(NoQueue::OutsideScope);
        }
        let installed = INSTALLED.read().unwrap_or_else(PoisonError::into_inner);
        installed.clone().ok_or(NoQueue::NoneInstalled)
    }
}

/// `tokio::spawn` that keeps the queue of the running job or of the scope that it is called in.
///
/// # Panics
/// Outside of a tokio runtime, as `tokio::spawn` does.
pub fn spawn<F>(future: F) -> tokio::task::JoinHandle<F::Output>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    match HERE.try_with(JobQueue::clone) {
        Ok(queue) => tokio::spawn(HERE.scope(queue, future)),
        Err(_) => tokio::spawn(future),
    }
}

/// No queue is meant where an enqueue names none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoQueue {
    /// Nothing was installed.
    #[error(
        "no queue to enqueue in: call `queue.install()` once at the start of the program, or name the queue with \
         `.on(&queue)`"
    )]
    NoneInstalled,
    /// This program gives queues to scopes, and this task is in none of them.
    #[error(
        "this task is outside of every queue's scope: start it with `jobq::spawn` instead of `tokio::spawn`, enter \
         one with `queue.scope(future)`, or name the queue with `.on(&queue)`"
    )]
    OutsideScope,
}

/// Whether a queue can have this name.
pub(crate) fn check_queue_name(name: &str) -> Result<(), BadName> {
    let why = if name.is_empty() {
        "it is empty"
    } else if name.len() > MAX_NAME {
        "it is longer than 64 bytes"
    } else if name.chars().any(char::is_control) {
        "it has a control character in it"
    } else if name.trim() != name {
        "it begins or ends with white space"
    } else {
        return Ok(());
    };
    let name = name.chars().take(MAX_NAME).collect();
    Err(BadName { name, why })
}

/// A name that no queue can have.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{name:?} can't be the name of a queue: {why}; a name such as \"mail\" is meant")]
pub struct BadName {
    /// The name, cut to 64 characters.
    pub name: String,
    /// What is wrong with it.
    pub why: &'static str,
}

// ---- what people do to jobs ------------------------------------------------------------------------------------

impl JobQueue {
    /// Reads one job; `None` where there is none of this id.
    ///
    /// # Errors
    /// [`QueueError::Store`], as every method here where the storage fails.
    pub async fn get(&self, id: JobId) -> Result<Option<JobRow>, QueueError> {
        Ok(self.0.store.get(id).await?)
    }

    /// Reads the attempts of one job, first to latest; empty for an unknown job.
    ///
    /// # Errors
    /// [`QueueError::Store`].
    pub async fn attempts(&self, id: JobId) -> Result<Vec<Attempt>, QueueError> {
        Ok(self.0.store.attempts(id).await?)
    }

    /// Reads one page of jobs, newest first.
    ///
    /// # Errors
    /// [`QueueError::Store`].
    pub async fn list(&self, filter: JobFilter) -> Result<Vec<JobRow>, QueueError> {
        Ok(self.0.store.list(filter).await?)
    }

    /// Reads all jobs of the filter, page by page, newest first; a job that stays is never missed and never given
    /// twice, whatever is added or deleted meanwhile.
    pub fn pages(&self, filter: JobFilter) -> Pages {
        Pages { queue: self.clone(), filter, ended: false }
    }

    /// Counts the jobs of each (queue, job_type, state); empty groups are left out.
    ///
    /// # Errors
    /// [`QueueError::Store`].
    pub async fn counts(&self) -> Result<Vec<Count>, QueueError> {
        Ok(self.0.store.counts().await?)
    }

    /// Deletes finished jobs older than their retention, in short transactions, and says how many. Workers do it by
    /// themselves.
    ///
    /// # Errors
    /// [`QueueError::Store`]; what was deleted before stays deleted.
    ///
    /// # Cancel safety
    /// Dropping it loses the answer only.
    pub async fn prune(&self) -> Result<usize, QueueError> {
        Ok(self.0.store.prune(self.retention(), self.now()).await?)
    }
}

/// Each act comes for one job, where a refusal is an error, and for many, with an answer for each in the order given.
macro_rules! acts {
    ($($(#[$doc:meta])* $edge:ident $one:ident $(#[$docs:meta])* $many:ident;)*) => {
        impl JobQueue { $(
            $(#[$doc])*
            ///
            /// # Errors
            /// [`QueueError::NotFound`]: no such job. [`QueueError::WrongState`]: the job is in another state, and
            /// untouched. [`QueueError::Store`]: as it says.
            ///
            /// # Cancel safety
            /// Dropping it loses the answer, and neither undoes nor half-does the act.
            pub async fn $one(&self, id: JobId) -> Result<(), QueueError> {
                let acted = self.0.store.$one(vec![id], self.now()).await?;
                match acted.first() {
                    Some(Acted::Done) => Ok(()),
                    Some(&Acted::WrongState(state)) => Err(QueueError::WrongState { id, state, edge: Edge::$edge }),
                    Some(Acted::NotFound) | None => Err(QueueError::NotFound { id }),
                }
            }

            $(#[$docs])*
            ///
            /// # Errors
            /// [`QueueError::Store`]; a job that can't is an answer, not an error.
            ///
            /// # Cancel safety
            /// Dropping it loses the answers, and neither undoes nor half-does the acts.
            pub async fn $many(&self, ids: impl IntoIterator<Item = JobId>) -> Result<Vec<Acted>, QueueError> {
                let ids = ids.into_iter().collect();
                Ok(self.0.store.$one(ids, self.now()).await?)
            }
        )* }
    };
}

acts! {
    /// Takes a job back before it runs: scheduled or pending → cancelled.
    Cancel cancel
    /// Takes jobs back before they run: scheduled or pending → cancelled.
    cancel_all;

    /// Runs a job again that has ended: dead, cancelled or completed → pending; attempts start at 0 again, the history
    /// stays.
    Retry retry
    /// Runs jobs again that have ended: dead, cancelled or completed → pending.
    retry_all;

    /// Runs a job before its time: scheduled → pending.
    RunNow run_now
    /// Runs jobs before their time: scheduled → pending.
    run_now_all;

    /// Deletes a job that has ended, with history and output.
    Delete delete
    /// Deletes jobs that have ended, with history and output.
    delete_all;
}

/// All jobs of a filter, page by page: [`JobQueue::pages`].
#[derive(Debug)]
pub struct Pages {
    queue: JobQueue,
    filter: JobFilter,
    ended: bool,
}

impl Pages {
    /// The next page, newest jobs first; `None` after the last one.
    ///
    /// # Errors
    /// [`QueueError::Store`]; the next call tries the same page again.
    pub async fn next(&mut self) -> Result<Option<Vec<JobRow>>, QueueError> {
        if self.ended {
            return Ok(None);
        }
        let page = self.queue.list(self.filter.clone()).await?;
        self.ended = page.len() < self.filter.page();
        self.filter.after = page.last().map(|job| job.id).or(self.filter.after);
        Ok((!page.is_empty()).then_some(page))
    }
}

/// What a queue can answer instead of doing what it was asked.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum QueueError {
    /// No such job: it never was in this queue, or it was deleted.
    #[error("there is no job {id} in this queue")]
    NotFound {
        /// The job.
        id: JobId,
    },
    /// The job is in a state that the act can't leave; it is untouched.
    #[error("job {id} is {state}; only {} jobs can {}", either(JobState::left_by(*edge)), verb(*edge))]
    WrongState {
        /// The job.
        id: JobId,
        /// Where it stands.
        state: JobState,
        /// The act.
        edge: Edge,
    },
    /// A setting can't be used.
    #[error("{0}")]
    Settings(String),
    /// An environment variable can't be used.
    #[error(transparent)]
    Env(#[from] EnvError),
    /// The storage failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

fn either(states: &[JobState]) -> String {
    match states {
        [] => String::new(),
        [one] => one.to_string(),
        [first @ .., last] => {
            let first: Vec<_> = first.iter().map(|state| state.as_str()).collect();
            format!("{} or {last}", first.join(", "))
        }
    }
}

fn verb(edge: Edge) -> &'static str {
    match edge {
        Edge::Promote => "be promoted",
        Edge::Claim => "be claimed",
        Edge::Complete => "complete",
        Edge::Fail => "fail",
        Edge::Snooze => "be snoozed",
        Edge::Release => "be released",
        Edge::Rescue => "be rescued",
        Edge::Cancel => "be cancelled",
        Edge::Retry => "be retried",
        Edge::RunNow => "be run before their time",
        Edge::Delete => "be deleted",
    }
}

/// An environment variable that can't be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{variable}{}: {why}", value.as_ref().map(|value| format!("={value:?}")).unwrap_or_default())]
pub struct EnvError {
    /// Its name.
    pub variable: &'static str,
    /// Its value, where it is set.
    pub value: Option<String>,
    /// What is wrong and what to write.
    pub why: String,
}

impl EnvError {
    /// Reads `variable` with `parse`, which says what a right value is; unset and empty are `None`.
    pub(crate) fn read<T>(
        variable: &'static str,
        look_up: impl Fn(&str) -> Option<String>,
        parse: impl Fn(&str) -> Result<T, String>,
    ) -> Result<Option<T>, Self> {
        let Some(value) = look_up(variable).filter(|value| !value.trim().is_empty()) else {
            return Ok(None);
        };
        match parse(value.trim()) {
            Ok(parsed) => Ok(Some(parsed)),
            Err(why) => Err(Self { variable, value: Some(value), why }),
        }
    }
}
