//! The Store trait: one method per edge, each over a batch, every write out of `running` fenced by its lease.

use crate::{
    job::{
        Attempt, AttemptOutcome, FlowId, JobId, JobRow, Lease, MAX_KEY, MAX_LABEL, MAX_NAME, MAX_PAYLOAD,
        NewJob, OutputLine, Timeout, UniqueKey, Until, WorkerId, unique,
    },
    limit::{Bounds, Limit, Limited},
    retry::Backoff,
    state::JobState,
    time::{Millis, whole_millis},
};
use chrono::{DateTime, Utc};
use serde::Serialize;
use std::{any::Any, fmt, future::Future, path::PathBuf, pin::Pin, sync::Arc, time::Duration};
use tokio::sync::watch;

pub(crate) mod flows;
pub mod memory;
mod schedules;
pub mod sqlite;
mod steps;

pub use flows::{BatchOutcome, FlowRow, FlowState, LaidFlow, Link, NewFlow, Strand};
pub use steps::{NewStep, Recorded, Step};

pub use schedules::{
    DueSchedules, NewSchedule, ScheduleRow, Source, TICKS_KEPT, Tick, TickRow, Ticked, Turn,
};
pub(crate) use schedules::{admit_schedule, admit_tick};

/// The future of a store's method. Dropping it never undoes and never half-does a write: the write was handed over
/// whole, and only its answer is lost. ([`Store::prune`] is many writes: those not begun are not made.)
pub type Answer<'a, T> = Pin<Box<dyn Future<Output = Result<T, StoreError>> + Send + 'a>>;

/// A storage backend.
///
/// A store decides nothing: states, delays and limits are worked out above it and given as values. `now` is the
/// instant that the written rows carry; a store reads a clock only for its own heartbeats and for a standing claim.
pub trait Store: Send + Sync + 'static {
    /// (none) → pending, or scheduled where `run_at` is after `now`. All or none; what became of each, in the order given.
    ///
    /// A job whose unique key another one holds is not stored: the other is the answer, as it was or with what it took
    /// over, or, where the key says so, [`StoreError::Duplicate`] is, and nothing of the call is stored.
    fn enqueue(&self, jobs: Vec<NewJob>, now: Millis) -> Answer<'_, Vec<Enqueued>>;

    /// The same inside the caller's transaction: there when it commits, never there when it does not.
    fn enqueue_in<'a>(&'a self, tx: Tx<'a>, jobs: Vec<NewJob>, now: Millis) -> Answer<'a, Vec<Enqueued>>;

    /// Lays a flow: the jobs with which its strands begin, as [`enqueue`](Self::enqueue) does, and what is to follow. From
    /// here on every end of one of its jobs lays, in its own transaction, what follows from it. None of them is unique.
    fn enqueue_flow(&self, flow: NewFlow, now: Millis) -> Answer<'_, LaidFlow>;

    /// The same inside the caller's transaction.
    fn enqueue_flow_in<'a>(&'a self, tx: Tx<'a>, flow: NewFlow, now: Millis) -> Answer<'a, LaidFlow>;

    /// One flow.
    fn flow(&self, id: FlowId) -> Answer<'_, Option<FlowRow>>;

    /// scheduled → pending for up to `limit` jobs whose `run_at` has come, earliest first; and ends the pauses whose
    /// time has come. How many of both.
    fn promote(&self, limit: usize, now: Millis) -> Answer<'_, usize>;

    /// pending → running for up to `claim.limit` jobs of `claim.set`, in order: priority (larger first), run_at, id.
    ///
    /// A `standing` claim that finds nothing stays with the store and is answered by the first commit that brings
    /// work, or with an empty list when the store is asked to [`withdraw`](Self::withdraw) it.
    fn claim(&self, claim: Claim, now: Millis) -> Answer<'_, Vec<Claimed>>;

    /// Answers the standing claims of `worker` with what they have: nothing.
    fn withdraw(&self, worker: WorkerId);

    /// running → completed.
    fn complete(&self, ended: Vec<Completion>, now: Millis) -> Answer<'_, Vec<Settled>>;

    /// running → completed, laid inside the caller's transaction: a promise, which counts from its commit on, and never was
    /// where there is none. Any way out of running then is → completed with this result, whatever the settle says.
    fn complete_in<'a>(&'a self, tx: Tx<'a>, ended: Completion) -> Answer<'a, Promised>;

    /// What was promised of this attempt, as far as that has committed; `None`: nothing.
    fn promised(&self, id: JobId, lease: Lease) -> Answer<'_, Option<Promise>>;

    /// running → pending, scheduled, dead or cancelled: the attempt failed and counts.
    fn fail(&self, ended: Vec<Failure>, now: Millis) -> Answer<'_, Vec<Settled>>;

    /// running → pending or scheduled: the handler asked for a later time; the attempt is given back.
    fn snooze(&self, ended: Vec<Snooze>, now: Millis) -> Answer<'_, Vec<Settled>>;

    /// running → pending: a stopping worker gives the job and the attempt back.
    fn release(&self, ended: Vec<Release>, now: Millis) -> Answer<'_, Vec<Settled>>;

    /// running → pending, scheduled or dead: the worker is lost; the attempt counts.
    fn rescue(&self, ended: Vec<Rescue>, now: Millis) -> Answer<'_, Vec<Settled>>;

    /// What running jobs say of themselves: no edge. Written where the lease still holds; else nothing is, and nothing
    /// is kept. A line whose place is taken takes its place. A note that brings the first line of an attempt ends the
    /// output of claims from [`OUTPUTS_KEPT`](crate::job::OUTPUTS_KEPT) back on.
    fn note(&self, notes: Vec<Note>) -> Answer<'_, Vec<Settled>>;

    /// Records a step of a running job: no edge. Written where the lease still holds, the job has fewer steps than
    /// `step.most`, and none of this name; what is recorded stays.
    fn record_step(&self, step: NewStep, now: Millis) -> Answer<'_, Recorded>;

    /// scheduled or pending → cancelled. Of a running job it is noted that this is wished of the lease that it runs under:
    /// its holder hears of it by [`cancels`](Self::cancels), and any way out of running but
    /// [`complete`](Self::complete) then is → cancelled, the attempt's outcome cancelled, whatever the settle says.
    fn cancel(&self, ids: Vec<JobId>, now: Millis) -> Answer<'_, Vec<Acted>>;

    /// dead, cancelled or completed → pending: attempts start at 0 again, the history stays; so do the steps, but of a
    /// completed job. Not where another job holds its unique key.
    fn retry(&self, ids: Vec<JobId>, now: Millis) -> Answer<'_, Vec<Acted>>;

    /// scheduled → pending, before its time.
    fn run_now(&self, ids: Vec<JobId>, now: Millis) -> Answer<'_, Vec<Acted>>;

    /// completed, dead or cancelled → gone, with history, output and steps; a unique key is free then, whatever its
    /// window.
    fn delete(&self, ids: Vec<JobId>, now: Millis) -> Answer<'_, Vec<Acted>>;

    /// Deletes finished jobs older than their retention, in short transactions; completed ones not before the window of
    /// their unique key is over. How many.
    fn prune(&self, keep: Retention, now: Millis) -> Answer<'_, usize>;

    /// Pauses a queue or a job type: its jobs are accepted and promoted, but not claimed; those that run run on. A pause
    /// of what is paused already takes its place.
    fn pause(&self, pause: Pause) -> Answer<'_, ()>;

    /// Ends a pause; whether there was one.
    fn resume(&self, what: Paused, now: Millis) -> Answer<'_, bool>;

    /// All pauses, those of queues first, by name.
    fn pauses(&self) -> Answer<'_, Vec<Pause>>;

    /// One page of the payloads that may yet have to be run, those of scheduled, pending, running and dead jobs, in the
    /// order of their rows: those after this row, 0 for the first page. It holds some MiB at most, or one job.
    fn payloads(&self, after: i64) -> Answer<'_, PayloadPage>;

    /// Keeps which jobs of a program follow from which events, `(event, job type)`, in place of what it said before.
    fn subscribe(&self, program: String, follows: Vec<(String, String)>, now: Millis) -> Answer<'_, ()>;

    /// What all programs have said so, by event, job type and program.
    fn subscriptions(&self) -> Answer<'_, Vec<Subscribed>>;

    /// Limits a queue or a job type, over all processes: from here on so many of its jobs run at once, and so many start
    /// in a time. It takes the place of what was set before, and of what the job type itself declares.
    fn set_limit(&self, limit: Limit, now: Millis) -> Answer<'_, ()>;

    /// Takes back what was set; what the job type declares holds again. Whether something was set.
    fn clear_limit(&self, of: Limited, now: Millis) -> Answer<'_, bool>;

    /// What job types themselves say of their limits, which holds where nobody has set another.
    fn declare_limits(&self, types: Vec<(String, Bounds)>, now: Millis) -> Answer<'_, ()>;

    /// All limits, set or declared; those of queues first, by name.
    fn limits(&self, now: Millis) -> Answer<'_, Vec<LimitRow>>;

    /// Stores a schedule, or changes the one of its name and source; `false`: the one of its name is of another source,
    /// and untouched. Where the one that is there ticks by the same pattern and zone, it keeps the tick that it waits for.
    fn put_schedule(&self, schedule: NewSchedule, now: Millis) -> Answer<'_, bool>;

    /// Makes one tick of a schedule: moves it on and enqueues the job, both or neither.
    fn tick(&self, tick: Tick, now: Millis) -> Answer<'_, Ticked>;

    /// Lets a schedule tick again, `next` first where it did not; whether it is there.
    fn enable_schedule(&self, id: String, next: Millis, now: Millis) -> Answer<'_, bool>;

    /// Lets a schedule tick no more; whether it is there.
    fn disable_schedule(&self, id: String, now: Millis) -> Answer<'_, bool>;

    /// Deletes a schedule; its jobs stay. Whether it was there.
    fn delete_schedule(&self, id: String, now: Millis) -> Answer<'_, bool>;

    /// Notes why a schedule can't tick, to be shown until it does.
    fn blame_schedule(&self, id: String, error: String, now: Millis) -> Answer<'_, ()>;

    /// The schedules that are enabled and whose tick has come.
    fn due_schedules(&self, now: Millis) -> Answer<'_, DueSchedules>;

    /// All schedules by name, or the one of this name.
    fn schedules(&self, id: Option<String>) -> Answer<'_, Vec<ScheduleRow>>;

    /// The latest ticks of a schedule, at most [`TICKS_KEPT`], latest first; empty for an unknown one.
    fn ticks(&self, id: String) -> Answer<'_, Vec<TickRow>>;

    /// One job.
    fn get(&self, id: JobId) -> Answer<'_, Option<JobRow>>;

    /// How these jobs ended, as far as they have; in the order given, `None` for a job that is not there.
    fn outcomes(&self, ids: Vec<JobId>) -> Answer<'_, Vec<Option<Outcome>>>;

    /// The attempts of one job, first to latest; empty for an unknown job.
    fn attempts(&self, id: JobId) -> Answer<'_, Vec<Attempt>>;

    /// The output of one job in the order that it was written in, from after the line at this
    /// [place](OutputLine::place), at most `limit` lines; empty for an unknown job.
    fn output(&self, id: JobId, after: Option<(Lease, i64)>, limit: usize) -> Answer<'_, Vec<OutputLine>>;

    /// What a step of this name gave, as JSON text; `None` where none is recorded.
    fn step(&self, id: JobId, name: String) -> Answer<'_, Option<String>>;

    /// The steps of one job that are recorded, in the order of their time; empty for an unknown job.
    fn steps(&self, id: JobId) -> Answer<'_, Vec<Step>>;

    /// One page of jobs, newest first.
    fn list(&self, filter: JobFilter) -> Answer<'_, Vec<JobRow>>;

    /// How many jobs stand in each (queue, job_type, state); empty groups are left out.
    fn counts(&self) -> Answer<'_, Vec<Count>>;

    /// What a worker with this set could do, without taking the write lock.
    fn due(&self, set: Arc<ClaimSet>, now: Millis) -> Answer<'_, Due>;

    /// The running jobs that are to be cancelled, in no order.
    fn cancels(&self) -> Answer<'_, Vec<Cancel>>;

    /// The running jobs of these workers.
    fn running(&self, workers: Vec<WorkerId>) -> Answer<'_, Vec<Running>>;

    /// Signs a worker in. From here on the store beats for it until [`unregister`](Self::unregister), whatever the
    /// caller's runtime does.
    fn register(&self, worker: NewWorker, now: Millis) -> Answer<'_, WorkerId>;

    /// Signs a worker out: ends its beats and withdraws its claims. Also called when a worker is dropped, so it does not
    /// wait. One that still holds running jobs stays in [`workers`](Self::workers), as [`Life::Gone`], until they are
    /// rescued.
    fn unregister(&self, worker: WorkerId);

    /// All workers that have not signed out or hold running jobs, and what is known of their life.
    fn workers(&self) -> Answer<'_, Vec<WorkerRow>>;

    /// Marks lost workers as gone.
    fn bury(&self, workers: Vec<WorkerId>, now: Millis) -> Answer<'_, ()>;

    /// A counter that rises when rows were added or moved: the cue to look at [`due`](Self::due) again. Commits of others
    /// are seen while a claim stands here or somebody [`attend`](Self::attend)s, or with the next write of this store.
    fn changed(&self) -> watch::Receiver<u64>;

    /// While the answer lives, commits of others make [`changed`](Self::changed) rise as they come.
    fn attend(&self) -> Attention;

    /// What this store is, for logs and errors: kind, full path, versions, durability.
    fn describe(&self) -> String;
}

/// Refuses jobs that no store takes; the first one that is refused is named by its place.
pub(crate) fn admit(jobs: &[NewJob]) -> Result<(), StoreError> {
    let refused = |(place, job): (usize, &NewJob)| {
        let why = unfit(job)?;
        Some(StoreError::Invalid(format!("job {place} of {}: {why}; nothing was enqueued", jobs.len())))
    };
    jobs.iter().enumerate().find_map(refused).map_or(Ok(()), Err)
}

/// Refuses a flow with jobs that no store takes.
pub(crate) fn admit_flow(flow: &mut NewFlow) -> Result<(), StoreError> {
    let mut refused = None;
    flow.jobs(&mut |job| {
        let unique = || job.unique.is_some().then(|| "it is unique, and a flow has all of its jobs".into());
        refused = refused.take().or_else(|| unfit(job).or_else(unique));
    });
    match refused {
        Some(why) => Err(StoreError::Invalid(format!("a job of a flow: {why}; nothing was enqueued"))),
        None => Ok(()),
    }
}

/// Refuses ends that bring jobs with them which no store takes.
pub(crate) fn admit_brought<'a>(jobs: impl IntoIterator<Item = &'a NewJob>) -> Result<(), StoreError> {
    let refused = |job: &NewJob| {
        let unique = || job.unique.is_some().then(|| "it is unique, and has to be there whatever is".into());
        let why = unfit(job).or_else(unique)?;
        Some(StoreError::Invalid(format!("the job that an end brings with it: {why}; nothing was written")))
    };
    jobs.into_iter().find_map(refused).map_or(Ok(()), Err)
}

/// Why no store takes this job, if none does.
fn unfit(job: &NewJob) -> Option<String> {
    let name = |what: &str, name: &str| {
        let unfit = name.is_empty() || name.len() > MAX_NAME || name.contains('\0');
        unfit.then(|| format!("{what} {name:?} is not 1 to {MAX_NAME} bytes of text"))
    };
    let label = job.label.as_ref().map_or(0, |label| label.chars().count());
    let size = job.payload.len();
    name("job type", &job.job_type)
        .or_else(|| name("queue", &job.queue))
        .or_else(|| (job.version == 0).then(|| "its version is 0; the first is 1".into()))
        .or_else(|| (job.max_attempts == 0).then(|| "max_attempts is 0; the least is 1".into()))
        .or_else(|| {
            (label > MAX_LABEL).then(|| format!("a label of {label} characters; the most is {MAX_LABEL}"))
        })
        .or_else(|| {
            (size > MAX_PAYLOAD).then(|| format!("a payload of {size} bytes; the most is {MAX_PAYLOAD}"))
        })
        .or_else(|| job.unique.as_deref().and_then(unfit_key))
        .or_else(|| job.concurrency_key.as_deref().and_then(unfit_turn))
}

/// What is wrong with a unique key that no store takes.
fn unfit_key(UniqueKey { key, scope, states, within, .. }: &UniqueKey) -> Option<String> {
    let waiting = Until::Started.states();
    if key.is_empty() || key.len() > MAX_KEY || key.contains('\0') {
        Some(format!("its unique key {key:?} is not 1 to {MAX_KEY} bytes of text"))
    } else if scope.contains('\0') {
        Some(format!("the scope of its unique key, {scope:?}, has a NUL in it"))
    } else if states.and(waiting) != *states {
        Some(format!("its unique key is held in {states:?}; {waiting:?} are always among them"))
    } else {
        within.filter(Duration::is_zero).map(|_| "its unique key is held within no time".into())
    }
}

/// What is wrong with a concurrency key that no store takes.
fn unfit_turn(key: &str) -> Option<String> {
    let unfit = key.len() > MAX_KEY || key.contains('\0');
    unfit.then(|| format!("its concurrency key {key:?} is not up to {MAX_KEY} bytes of text"))
}

/// What an enqueue led to: the job that is really there, and how it came to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct Enqueued {
    /// The job.
    pub id: JobId,
    /// Whether it is a new one.
    pub landed: Landed,
}

/// How an enqueue landed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Landed {
    /// A new job is there.
    New,
    /// Another job holds its unique key, and stays as it is.
    Existing,
    /// Another job holds its unique key, and took over what was to be replaced.
    Replaced,
}

impl Enqueued {
    /// This new job.
    pub const fn new(id: JobId) -> Self {
        Self { id, landed: Landed::New }
    }

    /// Whether a job was added; else the one of this id was there.
    pub fn is_new(&self) -> bool {
        self.landed == Landed::New
    }
}

impl From<Enqueued> for JobId {
    fn from(enqueued: Enqueued) -> Self {
        enqueued.id
    }
}

impl From<&Enqueued> for JobId {
    fn from(enqueued: &Enqueued) -> Self {
        enqueued.id
    }
}

/// A caller's own connection or transaction, for [`Store::enqueue_in`].
pub enum Tx<'a> {
    /// On SQLite, through sqlx.
    Sqlite(&'a mut sqlx::SqliteConnection),
}

impl<'a> From<&'a mut sqlx::SqliteConnection> for Tx<'a> {
    fn from(connection: &'a mut sqlx::SqliteConnection) -> Self {
        Self::Sqlite(connection)
    }
}
impl<'a> From<&'a mut sqlx::Transaction<'_, sqlx::Sqlite>> for Tx<'a> {
    fn from(transaction: &'a mut sqlx::Transaction<'_, sqlx::Sqlite>) -> Self {
        Self::Sqlite(transaction)
    }
}
impl<'a> From<&'a mut sqlx::pool::PoolConnection<sqlx::Sqlite>> for Tx<'a> {
    fn from(connection: &'a mut sqlx::pool::PoolConnection<sqlx::Sqlite>) -> Self {
        Self::Sqlite(connection)
    }
}

/// Which jobs a worker knows and serves.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClaimSet {
    /// The stored names it knows, aliases included.
    pub job_types: Vec<String>,
    /// The queues it serves; `None`: all.
    pub queues: Option<Vec<String>>,
}

impl ClaimSet {
    /// Whether a worker with this set serves this queue.
    pub(crate) fn serves(&self, queue: &str) -> bool {
        self.queues.as_ref().is_none_or(|queues| queues.iter().any(|served| served == queue))
    }

    /// Whether it knows this type.
    pub(crate) fn knows(&self, job_type: &str) -> bool {
        self.job_types.iter().any(|known| known == job_type)
    }
}

/// A worker's wish for work.
#[derive(Clone, Debug)]
pub struct Claim {
    /// Who asks.
    pub worker: WorkerId,
    /// What it knows.
    pub set: Arc<ClaimSet>,
    /// At most this many.
    pub limit: usize,
    /// Whether the wish stays with the store while there is no work.
    pub standing: bool,
}

/// What of the store's side tables a job is tied to, told by its claim and handed back by its settle: a settle looks
/// at nothing that the job is not tied to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ties {
    /// Limits count it: its end may let another job start.
    pub limited: bool,
    /// It is one of a flow: something may follow from its end.
    pub flow: bool,
    /// Its completion was laid in a transaction of the application. No claim says so, but its holder knows.
    pub promised: bool,
}

impl Ties {
    /// Tied to nothing.
    pub const NONE: Self = Self { limited: false, flow: false, promised: false };
    /// Tied to whatever there is, for who does not know.
    pub const ALL: Self = Self { limited: true, flow: true, promised: true };
}

/// A job that was just claimed: everything that running it needs.
#[derive(Clone, PartialEq)]
pub struct Claimed {
    /// Its name.
    pub id: JobId,
    /// The right to it.
    pub lease: Lease,
    /// The stored name of its function; shared by the jobs of one claim.
    pub job_type: Arc<str>,
    /// The lane of work; shared likewise.
    pub queue: Arc<str>,
    /// JSON text.
    pub payload: String,
    /// The version of the payload.
    pub version: u32,
    /// 1 = first run.
    pub attempt: u32,
    /// Counted starts at most.
    pub max_attempts: u32,
    /// Larger runs first.
    pub priority: i16,
    /// When it became due.
    pub run_at: Millis,
    /// How long the attempt may take; `None`: as the worker says.
    pub timeout: Option<Timeout>,
    /// The wait between attempts; `None`: as the job type says.
    pub backoff: Option<Backoff>,
    /// What its settle has to look at.
    pub ties: Ties,
}

/// Without its payload, which may hold secrets.
impl fmt::Debug for Claimed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { id, lease, job_type, queue, attempt, max_attempts, priority, run_at, .. } = self;
        let mut shown = f.debug_struct("Claimed");
        shown.field("id", id).field("lease", lease).field("job_type", job_type).field("queue", queue);
        shown.field("attempt", attempt).field("max_attempts", max_attempts);
        shown.field("priority", priority).field("run_at", run_at).finish_non_exhaustive()
    }
}

/// An attempt that succeeded.
#[derive(Clone, Debug)]
pub struct Completion {
    /// The job.
    pub id: JobId,
    /// The right to it.
    pub lease: Lease,
    /// JSON text of the output; `None` for `()`.
    pub result: Option<String>,
    /// What the claim said of it.
    pub ties: Ties,
}

/// What became of a completion inside a caller's transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Promised {
    /// Laid: it stands when the transaction commits.
    Laid,
    /// It was there already: this attempt has completed before.
    Twice,
    /// The job is not this attempt's any more, or gone.
    LeaseLost,
}

/// A completion that has committed with the application's own rows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Promise {
    /// JSON text of the output; `None` for `()`.
    pub result: Option<String>,
}

/// What becomes of a job whose attempt failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Another attempt at this instant; dead where no attempt is left, whoever asks.
    At(Millis),
    /// Another attempt, due as before, so that it keeps its place in the order; dead where no attempt is left.
    AsBefore,
    /// Out of attempts, or never again.
    Dead,
    /// Taken back by its own handler.
    Cancelled,
}

/// An attempt that failed.
#[derive(Clone, Debug)]
pub struct Failure {
    /// The job.
    pub id: JobId,
    /// The right to it.
    pub lease: Lease,
    /// How it failed; an outcome that counts.
    pub outcome: AttemptOutcome,
    /// The text for people.
    pub error: String,
    /// What becomes of the job.
    pub next: Next,
    /// What the claim said of it.
    pub ties: Ties,
    /// A job that is enqueued in the same commit if this one is dead by it.
    pub on_dead: Option<Box<NewJob>>,
}

/// An attempt whose handler asked for a later time.
#[derive(Clone, Debug)]
pub struct Snooze {
    /// The job.
    pub id: JobId,
    /// The right to it.
    pub lease: Lease,
    /// When to run it again.
    pub run_at: Millis,
    /// What the claim said of it.
    pub ties: Ties,
}

/// A job given back by a worker that stops.
#[derive(Clone, Debug)]
pub struct Release {
    /// The job.
    pub id: JobId,
    /// The right to it.
    pub lease: Lease,
    /// What the claim said of it.
    pub ties: Ties,
}

/// A job taken from a lost worker.
#[derive(Clone, Debug)]
pub struct Rescue {
    /// The job.
    pub id: JobId,
    /// The lease of the lost worker.
    pub lease: Lease,
    /// The text for people.
    pub error: String,
    /// What becomes of the job; never [`Next::Cancelled`].
    pub next: Next,
    /// What the claim said of it.
    pub ties: Ties,
    /// A job that is enqueued in the same commit if this one is dead by it.
    pub on_dead: Option<Box<NewJob>>,
}

/// How far a job is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Items done; not below 0.
    pub done: i64,
    /// Items in all; not below 0.
    pub total: i64,
}

/// What a running job says of itself.
#[derive(Clone, Debug)]
pub struct Note {
    /// The job.
    pub id: JobId,
    /// The right to it.
    pub lease: Lease,
    /// How far it is; `None`: as before.
    pub progress: Option<Progress>,
    /// What it wrote, in order; all under `lease`.
    pub lines: Vec<OutputLine>,
}

/// What became of one fenced write out of `running`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Settled {
    /// Written.
    Applied,
    /// The job has moved on under another lease; an end is kept in the attempt history as late, and not applied.
    LeaseLost,
    /// The job is no longer there.
    Gone,
}

/// What became of one act of a person.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Acted {
    /// Done.
    Done,
    /// The job runs, and whoever runs it is asked to end it. Only of a cancel.
    Asked,
    /// The job is in a state that the act can't leave; untouched.
    WrongState(JobState),
    /// No such job in this store.
    NotFound,
    /// This other job holds the job's unique key; untouched.
    KeyHeld(JobId),
}

/// Where a job stands, and how it ended where it has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// The stored name of its function.
    pub job_type: String,
    /// Where it stands.
    pub state: JobState,
    /// Counted starts since the last retry.
    pub attempts: u32,
    /// JSON text of what the function returned; only of a completed job, and `None` for `()`.
    pub result: Option<String>,
    /// Why the latest attempt failed; only of a dead or cancelled job.
    pub error: Option<String>,
}

/// Somebody's wish to hear of the commits of others: [`Store::attend`].
#[must_use = "it ends when it is dropped"]
pub struct Attention(#[expect(dead_code, reason = "kept for its drop")] Box<dyn Any + Send>);

impl Attention {
    /// One that ends with the drop of `guard`.
    pub fn new(guard: impl Any + Send) -> Self {
        Self(Box::new(guard))
    }
}

impl fmt::Debug for Attention {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Attention")
    }
}

/// How long finished jobs are kept; `None`: for ever.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retention {
    /// Completed and cancelled jobs whose row says nothing.
    pub finished: Option<Duration>,
    /// Dead jobs. They are there for people: what a row says can lengthen this, not shorten it.
    pub dead: Option<Duration>,
}

/// Which jobs a list shows. All conditions hold together; an empty one does not restrict.
///
/// `JobFilter::default().state(JobState::Dead).queue("mail").limit(20)`, or by its fields.
#[derive(Clone, Debug, Default)]
pub struct JobFilter {
    /// Any of these states.
    pub states: Vec<JobState>,
    /// Exactly this stored name.
    pub job_type: Option<String>,
    /// Exactly this queue.
    pub queue: Option<String>,
    /// Exactly this unique key, whether the job holds it or not.
    pub unique_key: Option<String>,
    /// The label contains this text; ASCII letters of either case are equal.
    pub label: Option<String>,
    /// Enqueued at or after this.
    pub created_from: Option<Millis>,
    /// Enqueued before this.
    pub created_before: Option<Millis>,
    /// Only jobs of this flow.
    pub flow: Option<FlowId>,
    /// Only jobs older than this one: the last id of the page before. It need not exist any more.
    pub after: Option<JobId>,
    /// Rows at most; 0 stands for 100, and more than 1,000 are never given.
    pub limit: usize,
}

impl JobFilter {
    /// Also jobs in this state; said for several states, any of them.
    pub fn state(mut self, state: JobState) -> Self {
        self.states.push(state);
        self
    }

    /// Only jobs of exactly this stored name.
    pub fn job_type(mut self, job_type: impl Into<String>) -> Self {
        self.job_type = Some(job_type.into());
        self
    }

    /// Only jobs of this flow; those of flows within it are theirs.
    pub fn flow(mut self, flow: FlowId) -> Self {
        self.flow = Some(flow);
        self
    }

    /// Only jobs of exactly this queue.
    pub fn queue(mut self, queue: impl Into<String>) -> Self {
        self.queue = Some(queue.into());
        self
    }

    /// Only jobs of exactly this unique key, whether they hold it or not. One longer than [`MAX_KEY`] is found by what is
    /// stored of it.
    pub fn unique_key(mut self, key: &str) -> Self {
        self.unique_key = Some(unique::shortened(key));
        self
    }

    /// Only jobs whose label contains this text; ASCII letters of either case are equal.
    pub fn label(mut self, text: impl Into<String>) -> Self {
        self.label = Some(text.into());
        self
    }

    /// Only jobs enqueued at or after this.
    pub fn created_from(mut self, at: DateTime<Utc>) -> Self {
        self.created_from = Some(whole_millis(at));
        self
    }

    /// Only jobs enqueued before this.
    pub fn created_before(mut self, at: DateTime<Utc>) -> Self {
        self.created_before = Some(whole_millis(at));
        self
    }

    /// Only jobs older than this one, the last of the page before. It need not exist any more.
    pub fn after(mut self, job: impl Into<JobId>) -> Self {
        self.after = Some(job.into());
        self
    }

    /// Rows at most; 0 stands for 100, and more than 1,000 are never given.
    pub fn limit(mut self, rows: usize) -> Self {
        self.limit = rows;
        self
    }

    /// The number of rows that a page has at most.
    pub fn page(&self) -> usize {
        if self.limit == 0 { 100 } else { self.limit.min(1000) }
    }
}

/// How many jobs of one kind stand in one state.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Count {
    /// The lane of work.
    pub queue: String,
    /// The stored name.
    pub job_type: String,
    /// The state.
    pub state: JobState,
    /// How many.
    pub count: u64,
}

/// What there is to do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Due {
    /// A pending job of the set is there.
    pub pending: bool,
    /// The earliest `run_at` of a scheduled job, of any kind.
    pub next_run_at: Option<Millis>,
    /// The earliest end of a pause, of anything.
    pub next_resume_at: Option<Millis>,
    /// When a limit next lets a waiting job of any kind start that it keeps waiting now, as far as that is a matter of
    /// time: then a [`promote`](Store::promote) does it.
    pub next_start_at: Option<Millis>,
}

impl Due {
    /// When there is something to do by the clock alone; in the past: now.
    pub fn next_at(&self) -> Option<Millis> {
        self.next_run_at.into_iter().chain(self.next_resume_at).chain(self.next_start_at).min()
    }
}

/// What a pause is of.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case", tag = "kind", content = "name")]
pub enum Paused {
    /// The jobs of this queue, whatever their type.
    Queue(String),
    /// The jobs of this stored name, whatever their queue.
    JobType(String),
}

impl Paused {
    /// The name of the queue or of the job type.
    pub fn name(&self) -> &str {
        match self {
            Self::Queue(name) | Self::JobType(name) => name,
        }
    }
}

impl fmt::Display for Paused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Queue(name) => write!(f, "queue {name}"),
            Self::JobType(name) => write!(f, "job type {name}"),
        }
    }
}

/// A queue or a job type whose jobs are accepted and not run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Pause {
    /// What is paused.
    #[serde(flatten)]
    pub what: Paused,
    /// Since when.
    #[serde(serialize_with = "crate::job::rfc3339")]
    pub paused_at: Millis,
    /// When it ends by itself; `None`: when somebody ends it.
    #[serde(serialize_with = "crate::job::rfc3339_option")]
    pub ends_at: Option<Millis>,
    /// Who paused it, for people.
    pub by: Option<String>,
    /// Why, for people.
    pub note: Option<String>,
}

/// The longest note of a pause, in characters.
pub const MAX_NOTE: usize = 1000;

/// Refuses a pause that no store takes.
pub(crate) fn admit_pause(pause: &Pause) -> Result<(), StoreError> {
    let name = pause.what.name();
    let length = |text: &Option<String>| text.as_ref().map_or(0, |text| text.chars().count());
    let why = if name.is_empty() || name.len() > MAX_NAME || name.contains('\0') {
        format!("its name is not 1 to {MAX_NAME} bytes of text")
    } else if length(&pause.note) > MAX_NOTE {
        format!("a note of {} characters; the most is {MAX_NOTE}", length(&pause.note))
    } else if length(&pause.by) > MAX_LABEL {
        format!("who paused it is told in {} characters; the most is {MAX_LABEL}", length(&pause.by))
    } else {
        return Ok(());
    };
    Err(StoreError::Invalid(format!("{} can't be paused: {why}", pause.what)))
}

/// A page of payloads: [`Store::payloads`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PayloadPage {
    /// The payloads; there may be none although there are more pages.
    pub payloads: Vec<StoredPayload>,
    /// The row after which the next page begins.
    pub next: i64,
    /// The last row of all, as of now: there are no more pages once `next` has reached it.
    pub last: i64,
}

/// A payload that may yet have to be run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredPayload {
    /// The job.
    pub id: JobId,
    /// The stored name of its function.
    pub job_type: String,
    /// Where it stands.
    pub state: JobState,
    /// The version of the payload.
    pub version: u32,
    /// JSON text.
    pub payload: String,
}

/// Payloads on a page at most.
pub(crate) const PAGE_PAYLOADS: usize = 1000;
/// Bytes of payloads at which a page is full.
pub(crate) const PAGE_BYTES: usize = 1 << 20;

/// That a program knows a job which follows from an event.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Subscribed {
    /// The stored name of the event.
    pub event: String,
    /// The stored name of the job's function.
    pub job_type: String,
    /// The program that has it.
    pub program: String,
    /// When that program last said so.
    #[serde(serialize_with = "crate::job::rfc3339")]
    pub seen_at: Millis,
}

/// A limit as it stands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LimitRow {
    /// What is limited.
    #[serde(flatten)]
    pub of: Limited,
    /// What holds: what was set, or else what is declared.
    pub bounds: Bounds,
    /// What somebody has set at run time.
    pub set: Option<Bounds>,
    /// What the job type declares in its attribute.
    pub declared: Option<Bounds>,
    /// How many of its jobs run.
    pub running: u64,
    /// Where its rate lets none start now: when it lets the next one.
    #[serde(serialize_with = "crate::job::rfc3339_option")]
    pub next_start_at: Option<Millis>,
}

/// Refuses a limit that no store takes.
pub(crate) fn admit_limit(of: &Limited, bounds: &Bounds) -> Result<(), StoreError> {
    let name = of.name();
    let why = if name.is_empty() || name.len() > MAX_NAME || name.contains('\0') {
        format!("its name is not 1 to {MAX_NAME} bytes of text")
    } else if let Err(why) = bounds.check(of) {
        why
    } else {
        return Ok(());
    };
    Err(StoreError::Invalid(format!("{of} can't be limited: {why}")))
}

/// The same for what job types declare.
pub(crate) fn admit_declared(types: &[(String, Bounds)]) -> Result<(), StoreError> {
    types.iter().try_for_each(|(name, bounds)| admit_limit(&Limited::JobType(name.clone()), bounds))
}

/// A running job, as a rescue needs it.
#[derive(Clone, Debug, PartialEq)]
pub struct Running {
    /// The job.
    pub id: JobId,
    /// The lease of its holder.
    pub lease: Lease,
    /// The holder.
    pub worker: WorkerId,
    /// The stored name of its function.
    pub job_type: String,
    /// The attempt that runs.
    pub attempt: u32,
    /// Counted starts at most.
    pub max_attempts: u32,
    /// The wait between attempts; `None`: as the job type says.
    pub backoff: Option<Backoff>,
    /// What its settle has to look at.
    pub ties: Ties,
}

/// The wish that a running job be cancelled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Cancel {
    /// The job.
    pub id: JobId,
    /// The lease that it runs under.
    pub lease: Lease,
    /// When it was first asked for.
    pub asked_at: Millis,
}

/// A worker on its way into a store.
#[derive(Clone, Debug)]
pub struct NewWorker {
    /// How often the store beats for it.
    pub beat: Duration,
    /// The queues it serves, for people.
    pub queues: String,
}

/// A worker that has signed in and not out.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct WorkerRow {
    /// Its name.
    pub id: WorkerId,
    /// The machine.
    pub host: String,
    /// The process on it.
    pub pid: u32,
    /// The version of jobq it was built with.
    pub build: String,
    /// The queues it serves, for people.
    pub queues: String,
    /// Rises with each beat.
    pub beats: i64,
    /// Its last beat; shown, never used to decide.
    #[serde(serialize_with = "crate::job::rfc3339")]
    pub heartbeat_at: Millis,
    /// Its start; 0 where its row was deleted by hand, and it is known by the jobs that it holds alone.
    #[serde(serialize_with = "crate::job::rfc3339")]
    pub started_at: Millis,
    /// What the machine itself says of the process.
    pub life: Life,
}

/// What can be known of a worker's process without waiting.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Life {
    /// The kernel says that it is there.
    Alive,
    /// The kernel says that it is gone.
    Gone,
    /// Another machine, or one that can't tell: only its beats decide.
    Unknown,
}

/// What a store can answer instead of doing what it was asked.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// The write lock was not to be had in time. Nothing was written.
    #[error("the database was busy for {waited:?}: {holder}")]
    Busy {
        /// How long was waited.
        waited: Duration,
        /// Who may hold the lock and what to do, in words.
        holder: String,
    },
    /// A value that no store takes. Nothing was written.
    #[error("{0}")]
    Invalid(String),
    /// Another job holds the unique key of a job that is to be rejected then. Nothing was written.
    #[error(
        "job {place} has the unique key {key:?}, which {} holds; nothing was enqueued",
        existing.map_or("an earlier job of the same call".into(), |id| format!("job {id}"))
    )]
    Duplicate {
        /// The job that was refused, counted from 0.
        place: usize,
        /// Its key.
        key: String,
        /// Who holds it; `None`: an earlier job of the same call.
        existing: Option<JobId>,
    },
    /// This store knows no transactions of a caller.
    #[error(
        "this store has no transactions to enqueue or complete in; use a SQLite queue, or do without `in_tx` and \
         `complete_in`. A test of such a job does not `perform` it: enqueue it in `#[jobq::test(sqlite)]` and drain"
    )]
    NoTransactions,
    /// The caller's transaction is on another database.
    #[error("the transaction is on {theirs}, the queue on {ours}; open both on one file")]
    OtherDatabase {
        /// Where the caller's connection is.
        theirs: String,
        /// Where the queue is.
        ours: String,
    },
    /// The database file was renamed, replaced or deleted while it was open. What was asked is not stored.
    #[error("{what} of {} changed under the running program; stop it, put the file back, start again", path.display())]
    Moved {
        /// The database.
        path: PathBuf,
        /// Which of its files.
        what: &'static str,
    },
    /// The queue was opened before a fork; open it anew in the child.
    #[error("this queue was opened by process {opened_by}; open it anew after a fork")]
    Forked {
        /// The process that opened it.
        opened_by: u32,
    },
    /// The file can't be used as it is.
    #[error("{}: {why}", path.display())]
    Unusable {
        /// The database.
        path: PathBuf,
        /// What is wrong and what to do.
        why: String,
    },
    /// The store was closed.
    #[error("the queue is closed")]
    Closed,
    /// The database said no.
    #[error("{0}")]
    Backend(#[source] Arc<dyn std::error::Error + Send + Sync>),
}

impl StoreError {
    /// Whether the same call may succeed later without anybody changing anything here.
    pub fn is_transient(&self) -> bool {
        matches!(self, Self::Busy { .. } | Self::Backend(_))
    }
}
