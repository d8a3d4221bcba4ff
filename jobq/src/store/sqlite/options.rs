//! How a database is opened: where it is, what its connections are set to, and what is said when it can't be.

use super::{busy, migrate};
use crate::{
    store::StoreError,
    time::{Clock, SystemClock},
};
use rusqlite::{
    Connection, OpenFlags,
    config::DbConfig,
    trace::{TraceEvent, TraceEventCodes},
};
use std::{
    path::{Path, PathBuf},
    str::FromStr,
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

/// What a commit outlives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Durability {
    /// A power cut (`synchronous=FULL`).
    #[default]
    Power,
    /// The end of the process, but the latest commits may be lost in a power cut (`synchronous=NORMAL`).
    Process,
}

impl Durability {
    pub(super) fn pragma(self) -> i64 {
        match self {
            Self::Power => 2,
            Self::Process => 1,
        }
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Power => "FULL",
            Self::Process => "NORMAL",
        }
    }
}

/// How to open a database.
///
/// Where the target `jobq::sql` is enabled at level TRACE in the program's global `tracing` subscriber when the database
/// is opened, every statement of the queue's own connections is told there as it begins: its text, never the values
/// bound to it. Statements inside of a caller's transaction are told by sqlx.
#[derive(Clone)]
pub struct SqliteOptions {
    pub(super) path: PathBuf,
    pub(super) create: bool,
    pub(super) durability: Durability,
    pub(super) deadline: Duration,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) migrations: usize,
}

impl SqliteOptions {
    /// A file; relative paths are taken from the current directory of now. It is created if it is not there, in a
    /// directory that is.
    pub fn new(path: impl AsRef<Path>) -> Self {
        Self {
            path: path.as_ref().to_owned(),
            create: true,
            durability: Durability::Power,
            deadline: Duration::from_secs(5),
            clock: Arc::new(SystemClock),
            migrations: migrate::MIGRATIONS.len(),
        }
    }

    /// A `sqlite:` URL as sqlx takes it, or a plain path.
    ///
    /// # Errors
    /// `Unusable` for a URL that is none, and for a database in memory: use `MemoryStore` for that.
    pub fn from_url_or_path(text: &str) -> Result<Self, StoreError> {
        // In quotes, as it was written: an empty text is seen, and no colon runs into the next.
        let unusable = |why| StoreError::Unusable { path: format!("{text:?}").into(), why };
        let checked = |options: Self| match options.unfit() {
            Some(why) => Err(unusable(why.into())),
            None => Ok(options),
        };
        if !text.starts_with("sqlite:") {
            return match text.split_once("://") {
                Some(_) => {
                    Err(unusable("not a SQLite database; write a path, or `sqlite://` and a path".into()))
                }
                None => checked(Self::new(text)),
            };
        }
        let options =
            sqlx::sqlite::SqliteConnectOptions::from_str(text).map_err(|e| unusable(e.to_string()))?;
        let asks_for = |mode| text.split(['?', '&']).skip(1).any(|part| part == mode);
        if asks_for("mode=memory") {
            return checked(Self::new(":memory:"));
        }
        if asks_for("mode=ro") || asks_for("immutable=1") {
            return Err(unusable("opened for reading alone, and a queue must write".into()));
        }
        checked(Self::new(options.get_filename()))
    }

    /// The file of an application's pool. Only the path is taken over; the queue opens connections of its own.
    ///
    /// # Errors
    /// `Unusable` for a pool of databases in memory.
    pub fn from_pool(pool: &sqlx::SqlitePool) -> Result<Self, StoreError> {
        let options = Self::new(pool.connect_options().get_filename());
        match options.unfit() {
            Some(why) => Err(StoreError::Unusable { path: options.path, why: why.into() }),
            None => Ok(options),
        }
    }

    /// Whether a missing file is created; yes by default.
    pub fn create(mut self, create: bool) -> Self {
        self.create = create;
        self
    }

    /// What a commit outlives; a power cut by default.
    pub fn durability(mut self, durability: Durability) -> Self {
        self.durability = durability;
        self
    }

    /// How long an enqueue, or an act of a person, waits for the write lock before it is `Busy`; 5 s by default.
    pub fn deadline(mut self, deadline: Duration) -> Self {
        self.deadline = deadline;
        self
    }

    /// Where heartbeats and standing claims take the time from; the system clock by default.
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = clock;
        self
    }

    /// Knows only the first migrations, as an older build does: for tests of mixed versions.
    #[doc(hidden)]
    pub fn migrations(mut self, upto: usize) -> Self {
        self.migrations = upto;
        self
    }

    /// Why the path names no file on disk, and what to do.
    fn unfit(&self) -> Option<&'static str> {
        let name = self.path.to_string_lossy();
        if name.is_empty() {
            Some("an empty path; name the database file, as in `app.db`")
        } else if name.contains(":memory:") || name.starts_with("file:") {
            Some(
                "a queue on SQLite needs a plain file on disk; name one, as in `app.db`, and for tests in memory use \
                 `JobQueue::with_store` with a `MemoryStore`",
            )
        } else {
            None
        }
    }

    pub(super) fn connect(&self, writes: bool) -> rusqlite::Result<Connection> {
        let mode = if writes && self.create {
            OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE
        } else {
            OpenFlags::SQLITE_OPEN_READ_WRITE
        };
        let db = Connection::open_with_flags(&self.path, mode | OpenFlags::SQLITE_OPEN_NO_MUTEX)?;
        db.busy_timeout(if writes { Duration::ZERO } else { Duration::from_secs(5) })?;
        // A plan is made once, whatever values are bound; otherwise each new `LIMIT ?` has its statement made anew.
        db.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
        // Asked once: who does not listen now pays nothing later.
        if tracing::enabled!(target: "jobq::sql", tracing::Level::TRACE) {
            db.trace_v2(TraceEventCodes::SQLITE_TRACE_STMT, Some(tell));
        }
        Ok(db)
    }

    /// Sets what is set per connection, and reads it back.
    pub(super) fn set_up(&self, db: &Connection, writes: bool) -> rusqlite::Result<Result<(), String>> {
        let journal: String = db.query_row("PRAGMA journal_mode = WAL", [], |row| row.get(0))?;
        if !journal.eq_ignore_ascii_case("wal") {
            return Ok(Err(format!(
                "its journal mode stays `{journal}`, and jobq needs `wal`; is it on a network disk?"
            )));
        }
        db.execute_batch(&format!(
            "PRAGMA synchronous = {}; PRAGMA foreign_keys = ON; PRAGMA journal_size_limit = 67108864;
             PRAGMA query_only = {}",
            self.durability.name(),
            !writes
        ))?;
        let synchronous: i64 = db.query_row("PRAGMA synchronous", [], |row| row.get(0))?;
        let foreign_keys: bool = db.query_row("PRAGMA foreign_keys", [], |row| row.get(0))?;
        if synchronous != self.durability.pragma() || !foreign_keys {
            return Ok(Err("its connection refuses `synchronous` or `foreign_keys`".into()));
        }
        Ok(Ok(()))
    }
}

/// Tells a statement without its comments, on one line.
fn tell(event: TraceEvent<'_>) {
    // The text as it was prepared: payloads and results, which are bound, have no business in a log.
    if let TraceEvent::Stmt(_, text) = event {
        let lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with("--"));
        let sql = lines.collect::<Vec<_>>().join(" ");
        // A trigger that somebody laid on our tables is told as a comment alone.
        tracing::trace!(target: "jobq::sql", "{}", if sql.is_empty() { text } else { &sql });
    }
}

/// Runs `step` until the database is not busy, about every millisecond; then says so in the log now and then.
pub(super) fn retry_while_busy<T>(
    path: &Path,
    end: Instant,
    mut step: impl FnMut() -> rusqlite::Result<T>,
) -> Result<T, StoreError> {
    let began = Instant::now();
    let mut told = began;
    loop {
        match step() {
            Err(error) if busy(&error) => {
                if Instant::now() >= end {
                    let holder = "another process keeps the database locked".into();
                    return Err(StoreError::Busy { waited: began.elapsed(), holder });
                }
                if told.elapsed() > Duration::from_secs(5) {
                    told = Instant::now();
                    tracing::warn!(database = %path.display(), "waits for another process that keeps the database locked");
                }
                thread::sleep(Duration::from_micros(fastrand::u64(500..5000)));
            }
            other => return other.map_err(StoreError::from),
        }
    }
}

/// The path from the root, whatever the current directory becomes; the file's links are followed, so that two names
/// of one file share their side-car.
pub(super) fn full_path(path: &Path, create: bool) -> Result<PathBuf, StoreError> {
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let unusable = |why: &str| Err(StoreError::Unusable { path: path.clone(), why: why.into() });
    if path.is_dir() {
        return unusable("that is a directory; name a file in it");
    }
    if let Ok(real) = path.canonicalize() {
        return Ok(real);
    }
    // A link that leads to no file yet leads to where it is to be.
    let path = match (path.read_link(), path.parent()) {
        (Ok(target), Some(beside)) => beside.join(target),
        _ => path,
    };
    let unusable = |why: &str| Err(StoreError::Unusable { path: path.clone(), why: why.into() });
    let directory =
        path.parent().filter(|directory| directory.is_dir()).and_then(|found| found.canonicalize().ok());
    match (directory, path.file_name()) {
        _ if !create => unusable("there is no such file, and it was not to be created"),
        (Some(directory), Some(name)) => Ok(directory.join(name)),
        _ => unusable("its directory does not exist; create that first"),
    }
}

/// Gives errors of opening the path and something to do.
pub(super) fn explain(error: StoreError, path: &Path) -> StoreError {
    let StoreError::Backend(source) = &error else { return error };
    let Some(code) = source.downcast_ref::<rusqlite::Error>().and_then(rusqlite::Error::sqlite_error_code)
    else {
        return error;
    };
    use rusqlite::ErrorCode::{CannotOpen, NotADatabase, PermissionDenied, ReadOnly};
    let hint = match code {
        CannotOpen | PermissionDenied => "; may this user read and write the file and its directory?",
        ReadOnly => "; the queue must write to the file and to its directory",
        NotADatabase => "; this file is not a SQLite database",
        _ => "",
    };
    StoreError::Unusable { path: path.into(), why: format!("{source}{hint}") }
}
