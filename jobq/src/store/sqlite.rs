//! The store on SQLite: one writing thread, a few reading threads, and what wakes and what watches them.

mod alive;
mod desk;
mod files;
mod filter;
mod migrate;
mod read;
mod tx;
mod wake;
mod writer;

use self::{
    alive::SideCar,
    desk::{Desk, Leave},
    files::Files,
    read::Readers,
    wake::Gate,
    writer::{Inbox, Message, Writer},
};
use crate::{
    job::{Attempt, AttemptOutcome, JobId, JobRow, NewJob, WorkerId},
    store::{
        Acted, Answer, Claim, ClaimSet, Claimed, Completion, Count, Due, Failure, JobFilter, NewWorker, Next,
        Release, Rescue, Retention, Running, Settled, Snooze, Store, StoreError, Tx, WorkerRow, admit,
    },
    time::{Clock, Millis, SystemClock},
};
use rusqlite::{Connection, OpenFlags};
use std::{
    future::ready,
    path::{Path, PathBuf},
    str::FromStr,
    sync::{Arc, Mutex, atomic::AtomicBool, mpsc::channel},
    thread,
    time::{Duration, Instant},
};
use tokio::sync::{oneshot, watch};

/// Reading threads of one open store.
const READERS: usize = 2;
/// Rows that one step of a prune looks at, and that one of its transactions deletes at most.
const PRUNE_LOOKS: i64 = 20_000;
const PRUNE_ROWS: usize = 500;

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
    fn pragma(self) -> i64 {
        match self {
            Self::Power => 2,
            Self::Process => 1,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Power => "FULL",
            Self::Process => "NORMAL",
        }
    }
}

/// How to open a database.
#[derive(Clone)]
pub struct SqliteOptions {
    path: PathBuf,
    create: bool,
    durability: Durability,
    deadline: Duration,
    clock: Arc<dyn Clock>,
    migrations: usize,
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

    fn connect(&self, writes: bool) -> rusqlite::Result<Connection> {
        let mode = if writes && self.create {
            OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE
        } else {
            OpenFlags::SQLITE_OPEN_READ_WRITE
        };
        let db = Connection::open_with_flags(&self.path, mode | OpenFlags::SQLITE_OPEN_NO_MUTEX)?;
        db.busy_timeout(if writes { Duration::ZERO } else { Duration::from_secs(5) })?;
        Ok(db)
    }

    /// Sets what is set per connection, and reads it back.
    fn set_up(&self, db: &Connection, writes: bool) -> rusqlite::Result<Result<(), String>> {
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

/// Jobs in a SQLite file.
///
/// Cheap to share behind an `Arc`. Dropping the last one ends its threads after what they were told before.
pub struct SqliteStore {
    inbox: Inbox,
    readers: Readers,
    changed: watch::Receiver<u64>,
    side_car: Arc<SideCar>,
    tag: u32,
    files: Mutex<Files>,
    options: SqliteOptions,
    warned: AtomicBool,
}

impl SqliteStore {
    /// Opens the database, creates the file where that is allowed, and brings its tables up to date. Waits for other
    /// processes that are busy with it for a minute at most.
    ///
    /// # Errors
    /// `Unusable`, naming the full path, where the file or its directory is missing, can't be written, is no
    /// database, belongs to a newer build, or can't be used safely; `Busy` after a minute.
    ///
    /// # Cancel safety
    /// Dropping the future leaves a database that the next open goes on with.
    pub async fn open(options: SqliteOptions) -> Result<Self, StoreError> {
        let (reply, opened) = oneshot::channel();
        // Opening may wait for locks and read a large WAL: not on a thread of the caller's runtime.
        let opening = thread::Builder::new().name("jobq-open".into());
        let spawned = opening.spawn(move || {
            reply.send(Self::open_now(options)).ok();
        });
        spawned.map_err(|error| StoreError::Backend(Arc::new(error)))?;
        opened.await.unwrap_or(Err(StoreError::Closed))
    }

    fn open_now(mut options: SqliteOptions) -> Result<Self, StoreError> {
        options.path = full_path(&options.path, options.create)?;
        let path = options.path.clone();
        let unusable = |why: String| StoreError::Unusable { path: path.clone(), why };
        let io = |error: std::io::Error| unusable(error.to_string());

        let patience = Duration::from_secs(60);
        let end = Instant::now() + patience;
        let connect = |writes| {
            retry_while_busy(&path, end, || {
                let db = options.connect(writes)?;
                options.set_up(&db, writes).map(|set| set.map(|()| db))
            })
            .map_err(|error| explain(error, &path))?
            .map_err(unusable)
        };
        let mut writing = connect(true)?;
        migrate::migrate(&mut writing, &path, options.migrations, patience, options.clock.now())
            .map_err(|error| explain(error, &path))?;
        let reading = (0..READERS).map(|_| connect(false)).collect::<Result<Vec<_>, _>>()?;

        let side_car = SideCar::of(&path).map_err(io)?;
        let files = Files::of(&path).ok_or_else(|| unusable("it vanished while it was opened".into()))?;
        let desk = Desk::new(writing, side_car.clone())?;
        let tag = desk.tag;
        let (to_writer, messages) = channel();
        let (changes, changed) = watch::channel(0);
        let gate = Arc::new(Gate::default());
        let writer = Writer {
            desk,
            files: files.clone(),
            clock: options.clock.clone(),
            messages,
            myself: to_writer.clone(),
            changed: changes,
            watcher: wake::watch(&path, gate.clone(), to_writer.clone()),
            gate,
            state: Default::default(),
        };
        thread::Builder::new().name("jobq-write".into()).spawn(move || writer.run()).map_err(io)?;
        let readers = Readers::start(reading).map_err(io)?;
        tracing::info!(
            database = %path.display(), sqlite = rusqlite::version(), synchronous = options.durability.name(),
            "queue opened"
        );
        let inbox = Inbox::new(to_writer);
        let (files, warned) = (Mutex::new(files), AtomicBool::new(false));
        Ok(Self { inbox, readers, changed, side_car, tag, files, options, warned })
    }

    /// The database's full path.
    pub fn path(&self) -> &Path {
        &self.options.path
    }

    fn act<T: Send + 'static>(
        &self,
        rows: usize,
        run: impl FnMut(&mut Desk) -> rusqlite::Result<T> + Send + 'static,
    ) -> Answer<'_, T> {
        self.inbox.write(rows, Some(self.options.deadline), run)
    }

    /// Results of attempts wait for the lock as long as it takes.
    fn settle<T: Send + 'static>(
        &self,
        rows: usize,
        run: impl FnMut(&mut Desk) -> rusqlite::Result<T> + Send + 'static,
    ) -> Answer<'_, T> {
        self.inbox.write(rows, None, run)
    }

    fn leave(&self, ended: Vec<Leave>, now: Millis) -> Answer<'_, Vec<Settled>> {
        self.settle(ended.len(), move |desk| desk.leave(&ended, now))
    }

    fn read<T: Send + 'static>(
        &self,
        ask: impl FnOnce(&Connection) -> rusqlite::Result<T> + Send + 'static,
    ) -> Answer<'_, T> {
        self.readers.read(ask)
    }
}

impl Drop for SqliteStore {
    fn drop(&mut self) {
        self.inbox.to_writer.send(Message::Close).ok();
    }
}

impl Store for SqliteStore {
    fn enqueue(&self, jobs: Vec<NewJob>, now: Millis) -> Answer<'_, Vec<JobId>> {
        if let Err(refusal) = admit(&jobs) {
            return Box::pin(ready(Err(refusal)));
        }
        self.act(jobs.len(), move |desk| desk.enqueue(&jobs, now))
    }

    fn enqueue_in<'a>(&'a self, tx: Tx<'a>, jobs: Vec<NewJob>, now: Millis) -> Answer<'a, Vec<JobId>> {
        let Tx::Sqlite(connection) = tx;
        let (path, tag, durability) = (self.path(), self.tag, self.options.durability);
        let home = tx::Home { path, files: &self.files, tag, durability, warned: &self.warned };
        Box::pin(async move {
            self.inbox.is_here()?;
            admit(&jobs)?;
            tx::enqueue_in(home, connection, &jobs, now).await
        })
    }

    fn promote(&self, limit: usize, now: Millis) -> Answer<'_, usize> {
        self.act(limit.min(1000), move |desk| desk.promote(limit, now))
    }

    fn claim(&self, claim: Claim, now: Millis) -> Answer<'_, Vec<Claimed>> {
        self.inbox.claim(claim, now)
    }

    fn withdraw(&self, worker: WorkerId) {
        self.inbox.to_writer.send(Message::Withdraw(worker)).ok();
    }

    fn complete(&self, ended: Vec<Completion>, now: Millis) -> Answer<'_, Vec<Settled>> {
        self.settle(ended.len(), move |desk| desk.complete(&ended, now))
    }

    fn fail(&self, ended: Vec<Failure>, now: Millis) -> Answer<'_, Vec<Settled>> {
        let leave = |Failure { id, lease, outcome, error, next }: Failure| Leave {
            id,
            lease,
            outcome,
            error: Some(error),
            next: Some(next),
        };
        self.leave(ended.into_iter().map(leave).collect(), now)
    }

    fn snooze(&self, ended: Vec<Snooze>, now: Millis) -> Answer<'_, Vec<Settled>> {
        let leave = |Snooze { id, lease, run_at }: Snooze| Leave {
            id,
            lease,
            outcome: AttemptOutcome::Snoozed,
            error: None,
            next: Some(Next::At(run_at)),
        };
        self.leave(ended.into_iter().map(leave).collect(), now)
    }

    fn release(&self, ended: Vec<Release>, now: Millis) -> Answer<'_, Vec<Settled>> {
        let leave = |Release { id, lease }: Release| Leave {
            id,
            lease,
            outcome: AttemptOutcome::Released,
            error: None,
            next: None,
        };
        self.leave(ended.into_iter().map(leave).collect(), now)
    }

    fn rescue(&self, ended: Vec<Rescue>, now: Millis) -> Answer<'_, Vec<Settled>> {
        let leave = |Rescue { id, lease, error, next }: Rescue| Leave {
            id,
            lease,
            outcome: AttemptOutcome::Lost,
            error: Some(error),
            next: Some(next),
        };
        self.leave(ended.into_iter().map(leave).collect(), now)
    }

    fn cancel(&self, ids: Vec<JobId>, now: Millis) -> Answer<'_, Vec<Acted>> {
        self.act(ids.len(), move |desk| desk.cancel(&ids, now))
    }

    fn retry(&self, ids: Vec<JobId>, now: Millis) -> Answer<'_, Vec<Acted>> {
        self.act(ids.len(), move |desk| desk.retry(&ids, now))
    }

    fn run_now(&self, ids: Vec<JobId>, now: Millis) -> Answer<'_, Vec<Acted>> {
        self.act(ids.len(), move |desk| desk.run_now(&ids, now))
    }

    fn delete(&self, ids: Vec<JobId>, now: Millis) -> Answer<'_, Vec<Acted>> {
        self.act(ids.len(), move |desk| desk.delete(&ids, now))
    }

    /// Looks through the rows in slices, on a reading thread; nothing on finished rows costs the hot path an index.
    fn prune(&self, keep: Retention, now: Millis) -> Answer<'_, usize> {
        Box::pin(async move {
            let (mut after, mut pruned) = (0, 0);
            let end = self.read(read::last_id).await?;
            while after < end {
                let last = (after + PRUNE_LOOKS).min(end);
                let expired = self.read(move |db| read::expired(db, after, last, keep, now)).await?;
                for rows in expired.chunks(PRUNE_ROWS).map(<[i64]>::to_vec) {
                    pruned += self.act(rows.len(), move |desk| desk.prune(&rows, keep, now)).await?;
                }
                after = last;
            }
            Ok(pruned)
        })
    }

    fn get(&self, id: JobId) -> Answer<'_, Option<JobRow>> {
        let tag = self.tag;
        self.read(move |db| read::get(db, tag, id))
    }

    fn attempts(&self, id: JobId) -> Answer<'_, Vec<Attempt>> {
        let tag = self.tag;
        self.read(move |db| read::attempts(db, tag, id))
    }

    fn list(&self, filter: JobFilter) -> Answer<'_, Vec<JobRow>> {
        let tag = self.tag;
        self.read(move |db| read::list(db, tag, &filter))
    }

    fn counts(&self) -> Answer<'_, Vec<Count>> {
        self.read(read::counts)
    }

    fn due(&self, set: Arc<ClaimSet>, _now: Millis) -> Answer<'_, Due> {
        self.read(move |db| read::due(db, &set))
    }

    fn running(&self, workers: Vec<WorkerId>) -> Answer<'_, Vec<Running>> {
        let tag = self.tag;
        self.read(move |db| read::running(db, tag, &workers))
    }

    fn register(&self, worker: NewWorker, now: Millis) -> Answer<'_, WorkerId> {
        let beat = worker.beat;
        let registered = self.act(1, move |desk| desk.register(&worker, now));
        Box::pin(async move {
            let id = registered.await?;
            self.inbox.to_writer.send(Message::Beat(id, beat)).map_err(|_| StoreError::Closed)?;
            Ok(id)
        })
    }

    fn unregister(&self, worker: WorkerId) {
        self.inbox.to_writer.send(Message::Leave(worker)).ok();
    }

    fn workers(&self) -> Answer<'_, Vec<WorkerRow>> {
        let side_car = self.side_car.clone();
        self.read(move |db| read::workers(db, &side_car))
    }

    fn bury(&self, workers: Vec<WorkerId>, now: Millis) -> Answer<'_, ()> {
        self.act(workers.len(), move |desk| desk.bury(&workers, now))
    }

    fn changed(&self) -> watch::Receiver<u64> {
        self.changed.clone()
    }

    fn describe(&self) -> String {
        format!(
            "SQLite {} at {}, synchronous={}",
            rusqlite::version(),
            self.path().display(),
            self.options.durability.name()
        )
    }
}

/// Runs `step` until the database is not busy, about every millisecond; then says so in the log now and then.
fn retry_while_busy<T>(
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

fn busy(error: &rusqlite::Error) -> bool {
    use rusqlite::ErrorCode::{DatabaseBusy, DatabaseLocked};
    matches!(error.sqlite_error_code(), Some(DatabaseBusy | DatabaseLocked))
}

impl From<rusqlite::Error> for StoreError {
    fn from(error: rusqlite::Error) -> Self {
        Self::Backend(Arc::new(error))
    }
}

/// The path from the root, whatever the current directory becomes; the file's links are followed, so that two names
/// of one file share their side-car.
fn full_path(path: &Path, create: bool) -> Result<PathBuf, StoreError> {
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
fn explain(error: StoreError, path: &Path) -> StoreError {
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
