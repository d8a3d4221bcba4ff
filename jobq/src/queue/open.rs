//! How a queue is opened: settings, files, the environment.

use super::{
    JobQueue, QueueError,
    secrets::{keys, say_unsealed},
};
use crate::{
    secret::SecretKeys,
    store::{
        Retention, Store,
        sqlite::{Durability, SqliteOptions, SqliteStore},
    },
    time::{Clock, SystemClock, days},
};
use std::{fmt, num::NonZeroU32, sync::Arc, time::Duration};

#[derive(Clone, Copy, Debug)]
pub(super) struct Settings {
    pub(super) default_max_attempts: u32,
    pub(super) retention: Retention,
}

impl Default for Settings {
    fn default() -> Self {
        let retention = Retention { finished: Some(days(7)), dead: None };
        Self { default_max_attempts: 3, retention }
    }
}

impl JobQueue {
    /// Opens the queue in a SQLite file, with the default settings: a path, or a URL such as `sqlite://app.db`. A missing
    /// file is created, in a directory that is there; the tables are brought up to date; the full path is logged.
    ///
    /// # Errors
    /// [`QueueError::Store`], naming the full path, where the file can't be used, and [`QueueError::Settings`] where
    /// another kind of database is named.
    ///
    /// # Cancel safety
    /// Dropping it, and every other way to open a queue, leaves a file that the next open goes on with.
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
    /// - `JOBQ_SECRET_KEYS` or `JOBQ_SECRET_KEY`, with the feature `encryption`: see the guide's chapter on
    ///   [secrets](crate::guide::secrets). Every other way to open a file looks for these, too.
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
    keys: Option<SecretKeys>,
    require_keys: bool,
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

    async fn open_file(mut self, mut file: SqliteOptions) -> Result<JobQueue, QueueError> {
        self.settings.check()?;
        // However the queue is opened: a key that is set and not used would let secrets be stored as they are.
        if self.keys.is_none() {
            self.keys = keys(environment)?;
        }
        let clock = self.clock.clone().unwrap_or_else(|| Arc::new(SystemClock));
        file = file.clock(clock.clone());
        if let Some(durability) = self.durability {
            file = file.durability(durability);
        }
        if let Some(deadline) = self.deadline {
            file = file.deadline(deadline);
        }
        self.check_keys()?;
        say_unsealed(self.keys.as_ref());
        let queue = self.with_store(Arc::new(SqliteStore::open(file).await?), clock)?;
        queue.say_subscriptions().await?;
        Ok(queue)
    }

    /// Seals `#[secret]` parameters in the store with these keys; by default those of the variables `JOBQ_SECRET_KEYS` or
    /// `JOBQ_SECRET_KEY`, wherever a file is opened. Workers need them, too.
    #[cfg(feature = "encryption")]
    pub fn secret_keys(mut self, keys: SecretKeys) -> Self {
        self.keys = Some(keys);
        self
    }

    /// Refuses to open the queue where there is no key to seal `#[secret]` parameters with, rather than to store them as
    /// they are.
    pub fn require_secret_keys(mut self) -> Self {
        self.require_keys = true;
        self
    }

    fn check_keys(&self) -> Result<(), QueueError> {
        if !self.require_keys || self.keys.is_some() {
            return Ok(());
        }
        Err(QueueError::Settings(match cfg!(feature = "encryption") {
            true => "`require_secret_keys` is set and there is no key: set JOBQ_SECRET_KEYS or JOBQ_SECRET_KEY, or give \
                     the options `secret_keys`"
                .into(),
            false => "`require_secret_keys` is set, and this build of jobq can't seal secrets: build it with the feature \
                      `encryption`"
                .into(),
        }))
    }

    /// Reads `WORKER_DEFAULT_MAX_ATTEMPTS`, `JOBQ_SECRET_KEYS` and `JOBQ_SECRET_KEY` from the environment; unset or empty
    /// leaves the setting as it is.
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
        if let Some(keys) = keys(&look_up)? {
            self.keys = Some(keys);
        }
        let attempts = EnvError::read("WORKER_DEFAULT_MAX_ATTEMPTS", &look_up, |value| {
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
        self.check_keys()?;
        let settings = self.settings;
        settings.check()?;
        Ok(JobQueue::of(store, clock, settings, self.keys))
    }
}

impl fmt::Debug for JobQueueOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { settings, durability, deadline, keys, require_keys, clock: _ } = self;
        let mut shown = f.debug_struct("JobQueueOptions");
        shown.field("settings", settings).field("durability", durability).field("deadline", deadline);
        shown.field("keys", keys).field("require_keys", require_keys);
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

/// A variable of the process; what is no UTF-8 is shown with marks in it, and so refused by name.
pub(crate) fn environment(variable: &str) -> Option<String> {
    std::env::var_os(variable).map(|value| value.to_string_lossy().into_owned())
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
