//! The store on SQLite: one writing thread, a few reading threads, and what wakes and what watches them.

mod alive;
mod desk;
mod files;
mod filter;
mod inbox;
mod migrate;
mod options;
mod read;
mod tx;
mod wake;
mod writer;

pub use self::options::{Durability, SqliteOptions};
use self::{
    alive::SideCar,
    desk::{Desk, Leave},
    files::Files,
    inbox::{Inbox, Message},
    options::{explain, full_path, retry_while_busy},
    read::{Readers, Watch},
    wake::{Gate, Listener},
    writer::Writer,
};
use crate::store::{
    DueSchedules, NewSchedule, ScheduleRow, Tick, TickRow, Ticked, admit_schedule, admit_tick,
};
use crate::{
    job::{Attempt, AttemptOutcome, FlowId, JobId, JobRow, Lease, NewJob, OutputLine, WorkerId},
    limit::{Bounds, Limit, Limited},
    store::{
        Acted, Answer, Attention, Cancel, Claim, ClaimSet, Claimed, Completion, Count, Due, Enqueued,
        Failure, FlowRow, JobFilter, LaidFlow, LimitRow, NewFlow, NewStep, NewWorker, Next, Note, Outcome,
        Pause, Paused, PayloadPage, Promise, Promised, Recorded, Release, Rescue, Retention, Running,
        Settled, Snooze, Step, Store, StoreError, Subscribed, Tx, WorkerRow, admit, admit_brought,
        admit_declared, admit_flow, admit_limit, admit_pause, steps::admit_step,
    },
    time::Millis,
};
use rusqlite::Connection;
use std::{
    future::ready,
    path::Path,
    sync::{Arc, Mutex, PoisonError, atomic::AtomicBool, mpsc::channel},
    thread,
    time::{Duration, Instant},
};
use tokio::sync::{oneshot, watch};

/// Reading threads of one open store, for people.
const READERS: usize = 2;
/// Rows that one step of a prune looks at, and that one of its transactions deletes at most.
const PRUNE_LOOKS: i64 = 20_000;
const PRUNE_ROWS: usize = 500;
/// Lines of output that one act writes at most, so that a transaction stays short.
const NOTE_LINES: usize = 2_000;

/// A process keeps a file open for each database that it has ever used. This one, the files of a test's database, was
/// deleted: its file is closed.
pub(crate) fn forget(path: &Path) {
    SideCar::forget(path);
}

/// Jobs in a SQLite file.
///
/// Cheap to share behind an `Arc`. Dropping the last one ends its threads after what they were told before.
pub struct SqliteStore {
    inbox: Inbox,
    readers: Readers,
    /// For what workers live by: no list of a person, however long, holds it up.
    sentry: Readers,
    changed: watch::Receiver<u64>,
    side_car: Arc<SideCar>,
    gate: Arc<Gate>,
    tag: u32,
    files: Mutex<Files>,
    options: SqliteOptions,
    warned: AtomicBool,
    /// The look for parked jobs that nobody brings up.
    watch: Arc<Mutex<Watch>>,
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
            gate: gate.clone(),
            state: Default::default(),
        };
        thread::Builder::new().name("jobq-write".into()).spawn(move || writer.run()).map_err(io)?;
        let readers = Readers::start(reading).map_err(io)?;
        let sentry = Readers::start(vec![connect(false)?]).map_err(io)?;
        tracing::info!(
            database = %path.display(), sqlite = rusqlite::version(), synchronous = options.durability.name(),
            "queue opened"
        );
        let inbox = Inbox::new(to_writer);
        let (files, warned) = (Mutex::new(files), AtomicBool::new(false));
        let watch = Arc::default();
        Ok(Self { inbox, readers, sentry, changed, side_car, gate, tag, files, options, warned, watch })
    }

    /// The database's full path.
    pub fn path(&self) -> &Path {
        &self.options.path
    }

    fn home(&self) -> tx::Home<'_> {
        let (path, tag, durability) = (self.path(), self.tag, self.options.durability);
        tx::Home { path, files: &self.files, tag, durability, warned: &self.warned }
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
        if let Err(refusal) = admit_brought(ended.iter().filter_map(|end| end.on_dead.as_deref())) {
            return Box::pin(ready(Err(refusal)));
        }
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
    fn enqueue(&self, jobs: Vec<NewJob>, now: Millis) -> Answer<'_, Vec<Enqueued>> {
        if let Err(refusal) = admit(&jobs) {
            return Box::pin(ready(Err(refusal)));
        }
        let jobs = Arc::new(jobs);
        if !jobs.iter().any(NewJob::rejects) {
            return self.act(jobs.len(), move |desk| desk.enqueue(&jobs, now));
        }
        let answer = self.act(jobs.len(), move |desk| desk.enqueue_or_refuse(&jobs, now));
        Box::pin(async { answer.await? })
    }

    fn enqueue_in<'a>(&'a self, tx: Tx<'a>, jobs: Vec<NewJob>, now: Millis) -> Answer<'a, Vec<Enqueued>> {
        let Tx::Sqlite(connection) = tx;
        Box::pin(async move {
            self.inbox.is_here()?;
            admit(&jobs)?;
            tx::enqueue_in(self.home(), connection, &jobs, now).await
        })
    }

    fn enqueue_flow(&self, mut flow: NewFlow, now: Millis) -> Answer<'_, LaidFlow> {
        if let Err(refusal) = admit_flow(&mut flow) {
            return Box::pin(ready(Err(refusal)));
        }
        let (tag, size) = (self.tag, flow.strands.len());
        let laid = self.act(size, move |desk| desk.lay_flow(flow.clone(), now));
        Box::pin(async move {
            let (row, jobs) = laid.await?;
            Ok(LaidFlow { id: FlowId::compose(row, tag), jobs })
        })
    }

    fn enqueue_flow_in<'a>(&'a self, tx: Tx<'a>, mut flow: NewFlow, now: Millis) -> Answer<'a, LaidFlow> {
        let Tx::Sqlite(connection) = tx;
        Box::pin(async move {
            self.inbox.is_here()?;
            admit_flow(&mut flow)?;
            let (row, jobs) = tx::enqueue_flow_in(self.home(), connection, flow, None, now).await?;
            Ok(LaidFlow { id: FlowId::compose(row, self.tag), jobs })
        })
    }

    fn flow(&self, id: FlowId) -> Answer<'_, Option<FlowRow>> {
        let tag = self.tag;
        self.read(move |db| read::flow(db, tag, id))
    }

    fn promote(&self, limit: usize, now: Millis) -> Answer<'_, usize> {
        let stranded =
            std::mem::take(&mut self.watch.lock().unwrap_or_else(PoisonError::into_inner).stranded);
        self.act(limit.min(1000), move |desk| desk.promote(limit, &stranded, now))
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

    fn complete_in<'a>(&'a self, tx: Tx<'a>, ended: Completion) -> Answer<'a, Promised> {
        let Tx::Sqlite(connection) = tx;
        Box::pin(async move {
            self.inbox.is_here()?;
            tx::complete_in(self.home(), connection, &ended).await
        })
    }

    fn promised(&self, id: JobId, lease: Lease) -> Answer<'_, Option<Promise>> {
        let tag = self.tag;
        self.sentry.read(move |db| read::promised(db, tag, id, lease))
    }

    fn fail(&self, ended: Vec<Failure>, now: Millis) -> Answer<'_, Vec<Settled>> {
        let leave = |Failure { id, lease, outcome, error, next, ties, on_dead }: Failure| Leave {
            id,
            lease,
            outcome,
            error: Some(error),
            next: Some(next),
            ties,
            on_dead,
        };
        self.leave(ended.into_iter().map(leave).collect(), now)
    }

    fn snooze(&self, ended: Vec<Snooze>, now: Millis) -> Answer<'_, Vec<Settled>> {
        let leave = |Snooze { id, lease, run_at, ties }: Snooze| Leave {
            id,
            lease,
            outcome: AttemptOutcome::Snoozed,
            error: None,
            next: Some(Next::At(run_at)),
            ties,
            on_dead: None,
        };
        self.leave(ended.into_iter().map(leave).collect(), now)
    }

    fn release(&self, ended: Vec<Release>, now: Millis) -> Answer<'_, Vec<Settled>> {
        let leave = |Release { id, lease, ties }: Release| Leave {
            id,
            lease,
            outcome: AttemptOutcome::Released,
            error: None,
            next: None,
            ties,
            on_dead: None,
        };
        self.leave(ended.into_iter().map(leave).collect(), now)
    }

    fn rescue(&self, ended: Vec<Rescue>, now: Millis) -> Answer<'_, Vec<Settled>> {
        let leave = |Rescue { id, lease, error, next, ties, on_dead }: Rescue| Leave {
            id,
            lease,
            outcome: AttemptOutcome::Lost,
            error: Some(error),
            next: Some(next),
            ties,
            on_dead,
        };
        self.leave(ended.into_iter().map(leave).collect(), now)
    }

    fn note(&self, notes: Vec<Note>) -> Answer<'_, Vec<Settled>> {
        let rows = |note: &Note| 1 + note.lines.len();
        let mut rest = notes.into_iter().peekable();
        let mut answers = Vec::new();
        while let Some(note) = rest.next() {
            let (mut size, mut portion) = (rows(&note), vec![note]);
            while let Some(note) = rest.next_if(|note| size + rows(note) <= NOTE_LINES) {
                size += rows(&note);
                portion.push(note);
            }
            answers.push(self.settle(size, move |desk| desk.note(&portion)));
        }
        Box::pin(async move {
            let mut settled = Vec::new();
            for answer in answers {
                settled.append(&mut answer.await?);
            }
            Ok(settled)
        })
    }

    /// Like the end of an attempt it waits for the lock as long as it takes: what the step did is done.
    fn record_step(&self, step: NewStep, now: Millis) -> Answer<'_, Recorded> {
        if let Err(refusal) = admit_step(&step) {
            return Box::pin(ready(Err(refusal)));
        }
        self.settle(1, move |desk| desk.record_step(&step, now))
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
                let mut rest = &expired[..];
                while !rest.is_empty() {
                    let rows = rest[..rest.len().min(PRUNE_ROWS)].to_vec();
                    let (gone, done) = self.act(rows.len(), move |desk| desk.prune(&rows, keep, now)).await?;
                    pruned += gone;
                    rest = &rest[done..];
                }
                after = last;
            }
            self.act(1, move |desk| desk.forget_the_gone(now)).await?;
            while self.act(1, move |desk| desk.forget_buckets(now)).await? {}
            Ok(pruned)
        })
    }

    fn pause(&self, pause: Pause) -> Answer<'_, ()> {
        if let Err(refusal) = admit_pause(&pause) {
            return Box::pin(ready(Err(refusal)));
        }
        self.act(1, move |desk| desk.pause(&pause))
    }

    fn resume(&self, what: Paused, now: Millis) -> Answer<'_, bool> {
        self.act(1, move |desk| desk.resume(&what, now))
    }

    fn pauses(&self) -> Answer<'_, Vec<Pause>> {
        self.read(read::pauses)
    }

    fn payloads(&self, after: i64) -> Answer<'_, PayloadPage> {
        let tag = self.tag;
        self.read(move |db| read::payloads(db, tag, after))
    }

    fn subscribe(&self, program: String, follows: Vec<(String, String)>, now: Millis) -> Answer<'_, ()> {
        self.act(follows.len() + 1, move |desk| desk.subscribe(&program, &follows, now))
    }

    fn subscriptions(&self) -> Answer<'_, Vec<Subscribed>> {
        self.sentry.read(read::subscriptions)
    }

    fn put_schedule(&self, schedule: NewSchedule, now: Millis) -> Answer<'_, bool> {
        if let Err(refusal) = admit_schedule(&schedule) {
            return Box::pin(ready(Err(refusal)));
        }
        self.act(1, move |desk| desk.put_schedule(&schedule, now))
    }

    fn tick(&self, tick: Tick, now: Millis) -> Answer<'_, Ticked> {
        if let Err(refusal) = admit_tick(&tick) {
            return Box::pin(ready(Err(refusal)));
        }
        let Tick { schedule, turn, job, overlap } = tick;
        let job = job.map(|job| Arc::new(vec![job]));
        self.act(1, move |desk| desk.tick(&schedule, turn, job.as_ref(), overlap, now))
    }

    fn enable_schedule(&self, id: String, next: Millis, now: Millis) -> Answer<'_, bool> {
        self.act(1, move |desk| desk.enable_schedule(&id, next, now))
    }

    fn disable_schedule(&self, id: String, now: Millis) -> Answer<'_, bool> {
        self.act(1, move |desk| desk.disable_schedule(&id, now))
    }

    fn delete_schedule(&self, id: String, now: Millis) -> Answer<'_, bool> {
        self.act(1, move |desk| desk.delete_schedule(&id, now))
    }

    fn blame_schedule(&self, id: String, error: String, now: Millis) -> Answer<'_, ()> {
        self.act(1, move |desk| desk.blame_schedule(&id, &error, now))
    }

    fn due_schedules(&self, now: Millis) -> Answer<'_, DueSchedules> {
        let tag = self.tag;
        self.sentry.read(move |db| read::due_schedules(db, tag, now))
    }

    fn schedules(&self, id: Option<String>) -> Answer<'_, Vec<ScheduleRow>> {
        let tag = self.tag;
        self.read(move |db| read::schedules(db, tag, id.as_deref()))
    }

    fn ticks(&self, id: String) -> Answer<'_, Vec<TickRow>> {
        let tag = self.tag;
        self.read(move |db| read::ticks(db, tag, &id))
    }

    fn set_limit(&self, limit: Limit, now: Millis) -> Answer<'_, ()> {
        if let Err(refusal) = admit_limit(&limit.of, &limit.bounds) {
            return Box::pin(ready(Err(refusal)));
        }
        self.act(1, move |desk| desk.set_limit(&limit, now))
    }

    fn clear_limit(&self, of: Limited, now: Millis) -> Answer<'_, bool> {
        self.act(1, move |desk| desk.clear_limit(&of, now))
    }

    fn declare_limits(&self, types: Vec<(String, Bounds)>, now: Millis) -> Answer<'_, ()> {
        if let Err(refusal) = admit_declared(&types) {
            return Box::pin(ready(Err(refusal)));
        }
        self.act(1, move |desk| desk.declare_limits(&types, now))
    }

    fn limits(&self, now: Millis) -> Answer<'_, Vec<LimitRow>> {
        self.read(move |db| read::limits(db, now))
    }

    fn get(&self, id: JobId) -> Answer<'_, Option<JobRow>> {
        let tag = self.tag;
        self.read(move |db| read::get(db, tag, id))
    }

    fn outcomes(&self, ids: Vec<JobId>) -> Answer<'_, Vec<Option<Outcome>>> {
        let tag = self.tag;
        self.sentry.read(move |db| read::outcomes(db, tag, &ids))
    }

    fn attempts(&self, id: JobId) -> Answer<'_, Vec<Attempt>> {
        let tag = self.tag;
        self.read(move |db| read::attempts(db, tag, id))
    }

    fn output(&self, id: JobId, after: Option<(Lease, i64)>, limit: usize) -> Answer<'_, Vec<OutputLine>> {
        let tag = self.tag;
        self.read(move |db| read::output(db, tag, id, after, limit))
    }

    fn step(&self, id: JobId, name: String) -> Answer<'_, Option<String>> {
        let tag = self.tag;
        self.sentry.read(move |db| read::step(db, tag, id, &name))
    }

    fn steps(&self, id: JobId) -> Answer<'_, Vec<Step>> {
        let tag = self.tag;
        self.read(move |db| read::steps(db, tag, id))
    }

    fn list(&self, filter: JobFilter) -> Answer<'_, Vec<JobRow>> {
        let tag = self.tag;
        self.read(move |db| read::list(db, tag, &filter))
    }

    fn counts(&self) -> Answer<'_, Vec<Count>> {
        self.read(read::counts)
    }

    fn due(&self, set: Arc<ClaimSet>, now: Millis) -> Answer<'_, Due> {
        let watch = self.watch.clone();
        self.sentry.read(move |db| read::due(db, &set, now, &watch))
    }

    fn cancels(&self) -> Answer<'_, Vec<Cancel>> {
        let tag = self.tag;
        self.sentry.read(move |db| read::cancels(db, tag))
    }

    fn running(&self, workers: Vec<WorkerId>) -> Answer<'_, Vec<Running>> {
        let tag = self.tag;
        self.sentry.read(move |db| read::running(db, tag, &workers))
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
        self.sentry.read(move |db| read::workers(db, &side_car))
    }

    fn bury(&self, workers: Vec<WorkerId>, now: Millis) -> Answer<'_, ()> {
        self.act(workers.len(), move |desk| desk.bury(&workers, now))
    }

    fn changed(&self) -> watch::Receiver<u64> {
        self.changed.clone()
    }

    fn attend(&self) -> Attention {
        Attention::new(Listener::new(self.gate.clone(), self.inbox.to_writer.clone()))
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

/// Whether the error is about one row and not about the database.
fn blames_one(error: &rusqlite::Error) -> bool {
    use rusqlite::ErrorCode::{ConstraintViolation, TooBig, TypeMismatch};
    matches!(error.sqlite_error_code(), None | Some(ConstraintViolation | TooBig | TypeMismatch))
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
