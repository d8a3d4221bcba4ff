//! What a job is: its type, its id, its row, its attempts, and how an attempt may fail.

use crate::{
    limit::Bounds,
    retry::Backoff,
    secret::redacted,
    state::JobState,
    time::{Millis, date, millis},
};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use std::{borrow::Cow, error::Error, fmt, str::FromStr, time::Duration};
use uuid::Uuid;

mod flow;
mod output;

pub use flow::FlowId;
pub(crate) use output::line;
pub use output::{LogLevel, MAX_LINE, MAX_OUTPUT, MAX_OUTPUT_LINES, OUTPUTS_KEPT, OutputLine};
pub(crate) mod unique;

pub use unique::{
    Fields, JobField, KeyScope, MAX_KEY, OnConflict, Unique, UniqueKey, UniqueRow, UniqueRule, Until,
};

/// The longest `job_type` and queue name, in bytes.
pub const MAX_NAME: usize = 64;
/// The longest label, in characters.
pub const MAX_LABEL: usize = 255;
/// The largest payload, in bytes of JSON.
pub const MAX_PAYLOAD: usize = 16 << 20;
/// The largest stored result, in bytes of JSON.
pub const MAX_RESULT: usize = 1 << 20;
/// The most steps of one job.
pub const MAX_STEPS: usize = 1000;
/// The longest stored error text, in bytes; longer ones are cut, and the cut is marked.
pub const MAX_ERROR: usize = 16 << 10;

/// A payload that can be enqueued and run. `#[job]` implements it on the struct that it generates.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a job",
    label = "not a job",
    note = "a function becomes a job by `#[job]`",
    note = "what is enqueued in a queue is a payload, with names: `queue.enqueue(SendMail {{ to }})`; arguments alone go \
            to the function: `send_mail.enqueue(to)`, `send_mail.enqueue_all([to])`"
)]
pub trait Job: Serialize + DeserializeOwned + Sized + Send + 'static {
    /// The stored name.
    const TYPE: &'static str;
    /// What an enqueue of this type uses where it says nothing else.
    const DEFAULTS: Defaults;
    /// The parameters that are marked `#[secret]`.
    const SECRETS: &'static [&'static str] = &[];
    /// The payload parameters: `()` for none, the bare type for one, a tuple for more.
    type Args;
    /// What the function was written to return.
    type Return: Return;

    /// The payload of these arguments.
    fn from_args(args: Self::Args) -> Self;

    /// The title that people see; `None` where the attribute has no `label`.
    fn label(&self) -> Option<String> {
        None
    }

    /// The unique key of this payload; `None` where the attribute names none: then the whole payload is the key, should
    /// the job be unique.
    fn unique_key(&self) -> Option<String> {
        None
    }

    /// Whose turn a job of this payload takes, where its type is limited for each key; `None` where the attribute names
    /// no key.
    fn concurrency_key(&self) -> Option<String> {
        None
    }
}

/// What a job type sets for its jobs; each can be overridden at the enqueue.
#[derive(Clone, Copy, Debug)]
pub struct Defaults {
    /// The lane of work; `default` where the attribute names none.
    pub queue: &'static str,
    /// Larger runs first.
    pub priority: i16,
    /// Counted starts at most; `None`: the queue's default.
    pub max_attempts: Option<u32>,
    /// How long one attempt may take; `None`: the worker's default.
    pub timeout: Option<Timeout>,
    /// How long the row is kept when completed or cancelled; `None`: the queue's default.
    pub retain: Option<Duration>,
    /// How its jobs are unique; `None`: they are not.
    pub unique: Option<UniqueRule>,
    /// How many of its jobs run at once, and how often one starts; never overridden by an enqueue.
    pub limits: Bounds,
    /// The version of the payloads that this build writes; never overridden.
    pub version: u32,
}

impl Defaults {
    /// What an attribute without options sets.
    pub const NONE: Self = Self {
        queue: "default",
        priority: 0,
        max_attempts: None,
        timeout: None,
        retain: None,
        unique: None,
        limits: Bounds::NONE,
        version: 1,
    };
}

/// The return types a job may have: `()` and any `Result`.
#[diagnostic::on_unimplemented(
    message = "a job returns `()` or a `Result`, not `{Self}`",
    label = "return `Result<{Self}, jobq::JobError>` instead"
)]
pub trait Return: Send + 'static {
    /// What the job's `result` holds: the `Ok` of what was returned.
    type Output;
}
impl Return for () {
    type Output = ();
}
impl<T: Send + 'static, E: Send + 'static> Return for Result<T, E> {
    type Output = T;
}

/// The typed output of job `J`.
pub type Output<J> = <<J as Job>::Return as Return>::Output;

/// An output that can be read back from its JSON, so that others can wait for it.
#[diagnostic::on_unimplemented(
    message = "the output `{Self}` can't be read back from its JSON, so nobody can wait for it",
    label = "this job's output is not `Deserialize`",
    note = "derive `serde::Deserialize` on `{Self}`; its fields then own what they hold"
)]
pub trait Readable: DeserializeOwned {}

#[diagnostic::do_not_recommend]
impl<T: DeserializeOwned> Readable for T {}

/// How long one attempt may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Timeout {
    /// At most this long; then the attempt counts as timed out.
    After(Duration),
    /// As long as it likes, while its worker lives.
    Never,
}

impl Timeout {
    /// As it is stored: whole milliseconds, at least 1; 0 is never.
    pub(crate) fn in_millis(self) -> u64 {
        match self {
            Self::After(limit) => millis(limit).unsigned_abs().max(1),
            Self::Never => 0,
        }
    }

    /// What is stored so.
    pub(crate) fn of_millis(stored: u64) -> Self {
        match stored {
            0 => Self::Never,
            limit => Self::After(Duration::from_millis(limit)),
        }
    }
}

impl From<Duration> for Timeout {
    fn from(duration: Duration) -> Self {
        Self::After(duration)
    }
}

/// The name of one job, for ever: a UUID v7 whose random bits carry the row number and the store's tag, so that it
/// sorts by time, is looked up without an index of its own, and is not mistaken for a job of another database.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct JobId(Uuid);

const TAG_BITS: u32 = 26;
const ROW_LOW_BITS: u32 = 36;

impl JobId {
    /// The largest tag of a store.
    pub(crate) const MAX_TAG: u32 = (1 << TAG_BITS) - 1;

    /// Row `row` of the store `tag`, created at `created_at`.
    pub(crate) fn compose(created_at: Millis, row: i64, tag: u32) -> Self {
        let (row, tag) = (row as u128, u128::from(tag & Self::MAX_TAG));
        let low_row = row & ((1 << ROW_LOW_BITS) - 1);
        let bits = ((created_at as u128 & ((1 << 48) - 1)) << 80)
            | (0x7 << 76)
            | (((row >> ROW_LOW_BITS) & 0xfff) << 64)
            | (0b10 << 62)
            | (low_row << TAG_BITS)
            | tag;
        Self(Uuid::from_u128(bits))
    }

    /// The row number in its store.
    pub(crate) fn row(self) -> i64 {
        let bits = self.0.as_u128();
        let high = (bits >> 64) & 0xfff;
        let low = (bits >> TAG_BITS) & ((1 << ROW_LOW_BITS) - 1);
        ((high << ROW_LOW_BITS) | low) as i64
    }

    /// The tag of its store.
    pub(crate) fn tag(self) -> u32 {
        (self.0.as_u128() & u128::from(Self::MAX_TAG)) as u32
    }

    /// When the job was enqueued.
    pub fn created_at(self) -> Millis {
        (self.0.as_u128() >> 80) as Millis
    }

    /// The same id as a plain UUID.
    pub fn as_uuid(self) -> Uuid {
        self.0
    }
}

impl From<Uuid> for JobId {
    fn from(uuid: Uuid) -> Self {
        Self(uuid)
    }
}

impl FromStr for JobId {
    type Err = uuid::Error;

    fn from_str(text: &str) -> Result<Self, uuid::Error> {
        text.parse().map(Self)
    }
}

impl fmt::Display for JobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Debug for JobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The right to a running job: a number that rises by one with each claim of the job and is never used again.
pub type Lease = i64;

/// One start of a worker in one store, never used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct WorkerId(pub i64);

impl fmt::Display for WorkerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "#{}", self.0)
    }
}

/// A job on its way into a store; everything but the time is settled.
#[derive(Clone)]
pub struct NewJob {
    /// The stored name of its function.
    pub job_type: Cow<'static, str>,
    /// The lane of work.
    pub queue: Cow<'static, str>,
    /// JSON text.
    pub payload: String,
    /// Larger runs first.
    pub priority: i16,
    /// Not before this; `None`: now.
    pub run_at: Option<Millis>,
    /// Counted starts at most; at least 1.
    pub max_attempts: u32,
    /// How long one attempt may take; `None`: as the worker says.
    pub timeout: Option<Timeout>,
    /// The wait between attempts; `None`: as the job type says.
    pub backoff: Option<Backoff>,
    /// A title for people.
    pub label: Option<String>,
    /// How long the row is kept when completed or cancelled; `None`: as the queue says.
    pub retain: Option<Duration>,
    /// What no second job may be there with.
    pub unique: Option<Box<UniqueKey>>,
    /// The version of the payload, 1 where its type has none.
    pub version: u32,
    /// Whose turn the job takes, where its type is limited for each key.
    pub concurrency_key: Option<String>,
}

impl NewJob {
    /// A job of this type and payload with the defaults of an attribute without options and three attempts.
    pub fn new(job_type: impl Into<Cow<'static, str>>, payload: impl Into<String>) -> Self {
        Self {
            job_type: job_type.into(),
            queue: Cow::Borrowed(Defaults::NONE.queue),
            payload: payload.into(),
            priority: 0,
            run_at: None,
            max_attempts: 3,
            timeout: None,
            backoff: None,
            label: None,
            retain: None,
            unique: None,
            version: 1,
            concurrency_key: None,
        }
    }

    /// Whether it is an error for another job to hold its unique key.
    pub(crate) fn rejects(&self) -> bool {
        self.unique.as_ref().is_some_and(|unique| unique.on_conflict == OnConflict::Reject)
    }
}

/// Without whatever in its payload is marked as a secret.
impl fmt::Debug for NewJob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { job_type, queue, payload, priority, run_at, max_attempts, label, .. } = self;
        let mut shown = f.debug_struct("NewJob");
        shown.field("job_type", job_type).field("queue", queue).field("payload", &redacted(payload));
        shown.field("priority", priority).field("run_at", run_at).field("max_attempts", max_attempts);
        shown.field("label", label).finish_non_exhaustive()
    }
}

/// One job as it stands in the store. Instants are Unix milliseconds and serialize as RFC 3339.
#[derive(Clone, PartialEq, Serialize)]
pub struct JobRow {
    /// Its name.
    pub id: JobId,
    /// The stored name of its function.
    pub job_type: String,
    /// The lane of work.
    pub queue: String,
    /// Where it stands.
    pub state: JobState,
    /// Larger runs first.
    pub priority: i16,
    /// JSON text as it was enqueued. A `#[secret]` parameter is marked in the store, `{"$secret": …}`, and in what a
    /// [`JobQueue`](crate::JobQueue) shows it is `"[redacted]"`.
    #[serde(serialize_with = "without_secrets")]
    pub payload: String,
    /// The version of the payload: what the build that enqueued it called it.
    pub version: u32,
    /// A title for people.
    pub label: Option<String>,
    /// Not before this.
    #[serde(serialize_with = "rfc3339")]
    pub run_at: Millis,
    /// Counted starts since the last retry by a person.
    pub attempts: u32,
    /// Counted starts at most.
    pub max_attempts: u32,
    /// The number of the latest claim; 0 before the first.
    pub lease: Lease,
    /// Who holds it, or held it last.
    pub worker: Option<WorkerId>,
    /// The holder's last sign of life, while running; shown, never used to decide.
    #[serde(serialize_with = "rfc3339_option")]
    pub heartbeat_at: Option<Millis>,
    /// The start of the latest attempt.
    #[serde(serialize_with = "rfc3339_option")]
    pub started_at: Option<Millis>,
    /// When it became completed, dead or cancelled.
    #[serde(serialize_with = "rfc3339_option")]
    pub completed_at: Option<Millis>,
    /// When it was enqueued.
    #[serde(serialize_with = "rfc3339")]
    pub created_at: Millis,
    /// When an edge last moved it.
    #[serde(serialize_with = "rfc3339")]
    pub updated_at: Millis,
    /// When somebody asked that this attempt be cancelled, while it runs.
    #[serde(serialize_with = "rfc3339_option")]
    pub cancel_asked_at: Option<Millis>,
    /// How long one attempt may take; `None`: as the worker says.
    #[serde(skip)]
    pub timeout: Option<Timeout>,
    /// The wait between attempts; `None`: as the job type says.
    pub backoff: Option<Backoff>,
    /// How long the row is kept when completed or cancelled; `None`: as the queue says.
    #[serde(skip)]
    pub retain: Option<Duration>,
    /// What no second job may be there with.
    pub unique: Option<UniqueRow>,
    /// Items done, as the job said last, in its latest attempt that said so; cleared by a retry of a person.
    pub processed_items: Option<i64>,
    /// Items in all, likewise; 0: not known.
    pub total_items: Option<i64>,
    /// JSON text of what the function returned.
    pub result: Option<String>,
    /// Why the latest attempt failed; none once the job has completed.
    pub error: Option<String>,
    /// Whose turn it takes, where its type is limited for each key.
    pub concurrency_key: Option<String>,
    /// The flow that it is of.
    pub flow: Option<FlowId>,
}

/// As it is serialized: with every field, and without whatever in its payload is marked as a secret.
impl fmt::Debug for JobRow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = serde_json::to_string(self).map_err(|_| fmt::Error)?;
        let Self { timeout, retain, .. } = self;
        write!(f, "JobRow({shown}, timeout: {timeout:?}, retain: {retain:?})")
    }
}

impl JobRow {
    /// Failed at least once since the last retry, and neither running nor at its end: derived, never stored.
    pub fn is_retrying(&self) -> bool {
        self.attempts > 0 && matches!(self.state, JobState::Pending | JobState::Scheduled)
    }

    /// Whether the job holds its unique key: nobody else has it. Where its window alone held it, until somebody asks for it.
    pub fn holds_key(&self) -> bool {
        self.unique.as_ref().is_some_and(|unique| unique.is_held(self.state))
    }

    /// 0 to 100; 100 when completed.
    pub fn progress_percent(&self) -> u8 {
        match (self.state, self.processed_items, self.total_items) {
            (JobState::Completed, ..) => 100,
            (_, Some(done), Some(total)) if total > 0 => {
                (done.clamp(0, total) as i128 * 100 / total as i128) as u8
            }
            _ => 0,
        }
    }
}

/// How one attempt ended, or that it has not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AttemptOutcome {
    /// Still running.
    Running,
    /// Its result is the job's.
    Completed,
    /// The handler returned an error.
    Failed,
    /// It took longer than its time-out.
    TimedOut,
    /// The handler panicked.
    Panicked,
    /// The payload is not what this build's function takes.
    Undecodable,
    /// Its worker was gone.
    Lost,
    /// A stopping worker gave it back; not counted.
    Released,
    /// The handler asked for a later time; not counted.
    Snoozed,
    /// The handler, or a person, took the job back.
    Cancelled,
}

impl AttemptOutcome {
    /// All of them; the place is the stored number.
    pub const ALL: [Self; 10] = [
        Self::Running,
        Self::Completed,
        Self::Failed,
        Self::TimedOut,
        Self::Panicked,
        Self::Undecodable,
        Self::Lost,
        Self::Released,
        Self::Snoozed,
        Self::Cancelled,
    ];

    /// The stored number.
    pub const fn code(self) -> i64 {
        self as i64
    }

    /// The outcome with this stored number.
    pub fn from_code(code: i64) -> Option<Self> {
        usize::try_from(code).ok().and_then(|code| Self::ALL.get(code)).copied()
    }

    /// The word for it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::TimedOut => "timed out",
            Self::Panicked => "panicked",
            Self::Undecodable => "undecodable",
            Self::Lost => "worker lost",
            Self::Released => "released",
            Self::Snoozed => "snoozed",
            Self::Cancelled => "cancelled",
        }
    }

    /// Whether the attempt counts against `max_attempts`.
    pub const fn counts(self) -> bool {
        !matches!(self, Self::Released | Self::Snoozed)
    }
}

impl fmt::Display for AttemptOutcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// One attempt in a job's history.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Attempt {
    /// The claim it ran under; unique for the job.
    pub lease: Lease,
    /// 1 for the first run since the job was enqueued or retried by a person.
    pub attempt: u32,
    /// Who ran it.
    pub worker: Option<WorkerId>,
    /// Its start.
    #[serde(serialize_with = "rfc3339")]
    pub started_at: Millis,
    /// Its end.
    #[serde(serialize_with = "rfc3339_option")]
    pub ended_at: Option<Millis>,
    /// How it ended.
    pub outcome: AttemptOutcome,
    /// Why it failed.
    pub error: Option<String>,
    /// What its worker reported after it had lost the job: kept, not applied.
    pub late: Option<Late>,
}

/// A result that came after its lease was lost.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Late {
    /// When it came.
    #[serde(serialize_with = "rfc3339")]
    pub at: Millis,
    /// How the attempt would have ended.
    pub outcome: AttemptOutcome,
    /// Its result or error, cut to the usual length.
    pub text: Option<String>,
}

fn without_secrets<S: serde::Serializer>(payload: &str, to: S) -> Result<S::Ok, S::Error> {
    redacted(payload).serialize(to)
}

/// A job that has become dead, as its type's `on_dead` function is given it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DeadJob {
    /// Its name.
    pub id: JobId,
    /// The stored name of its function.
    pub job_type: String,
    /// The lane of work.
    pub queue: String,
    /// What it was enqueued with, without its `#[secret]` parameters; `None` where that is no JSON, or so large that it
    /// and the rest don't fit into a payload.
    pub payload: Option<serde_json::Value>,
    /// Why the last attempt failed.
    pub error: String,
    /// Counted starts since it was enqueued or retried by a person.
    pub attempts: u32,
}

/// `mail 0198… is dead after 3 attempts: no such host`
impl fmt::Display for DeadJob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { id, job_type, error, attempts, .. } = self;
        let plural = if *attempts == 1 { "" } else { "s" };
        write!(f, "{job_type} {id} is dead after {attempts} attempt{plural}: {error}")
    }
}

pub(crate) fn rfc3339<S: serde::Serializer>(at: &Millis, to: S) -> Result<S::Ok, S::Error> {
    date(*at).serialize(to)
}

pub(crate) fn rfc3339_option<S: serde::Serializer>(at: &Option<Millis>, to: S) -> Result<S::Ok, S::Error> {
    at.map(date).serialize(to)
}

/// Why an attempt did not succeed, and what is to become of the job.
///
/// Anything that converts into a boxed error becomes one with `?` and means: try again. So do `std::error::Error`s,
/// `anyhow::Error`, `eyre::Report`, `String` and `&str`. It is not itself a `std::error::Error`, so that this conversion
/// can exist; where one is wanted (a function that returns `anyhow::Result`), [`into_error`](Self::into_error) gives it,
/// and it keeps what is to become of the job:
///
/// ```
/// # use jobq::prelude::*;
/// #[job]
/// async fn charge(order: u64) -> anyhow::Result<()> {
///     if order == 0 {
///         return Err(JobError::dead("there is no order 0").into_error().into());
///     }
///     Ok(())
/// }
/// ```
pub struct JobError {
    class: ErrorClass,
    source: Box<dyn Error + Send + Sync>,
}

/// What is to become of a job whose handler returned an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorClass {
    /// Try again after the backoff, while attempts are left.
    Retry,
    /// Try again after this long, while attempts are left.
    RetryIn(Duration),
    /// Never again.
    Dead,
    /// Again after this long; the attempt does not count.
    Snooze(Duration),
    /// Take the job back.
    Cancel,
}

impl JobError {
    /// An attempt that failed; the job is tried again after its backoff while attempts are left. An error that was a
    /// [`JobError`] before, and passed through another library's error type, keeps its class.
    pub fn new(error: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        let source = error.into();
        let marked = causes(&*source).find_map(|cause| cause.downcast_ref::<Marked>());
        Self { class: marked.map_or(ErrorClass::Retry, |marked| marked.0.class), source }
    }

    /// The job is dead at once, whatever attempts are left.
    pub fn dead(error: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self { class: ErrorClass::Dead, source: error.into() }
    }

    /// The attempt failed; the next one, if any is left, comes after `delay` instead of the backoff.
    pub fn retry_in(delay: Duration, error: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self { class: ErrorClass::RetryIn(delay), source: error.into() }
    }

    /// Not now: the job runs again after `delay`, and this attempt does not count.
    pub fn snooze(delay: Duration) -> Self {
        Self { class: ErrorClass::Snooze(delay), source: "snoozed".into() }
    }

    /// The job is no longer wanted; it ends as cancelled.
    pub fn cancel(why: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self { class: ErrorClass::Cancel, source: why.into() }
    }

    /// What is to become of the job.
    pub fn class(&self) -> ErrorClass {
        self.class
    }

    /// The error inside.
    pub fn source(&self) -> &(dyn Error + Send + Sync + 'static) {
        &*self.source
    }

    /// The same as a `std::error::Error`, for functions whose error type wants one; its class is found again when it
    /// comes back as a job's error, also from inside `anyhow` or `eyre`.
    pub fn into_error(self) -> impl Error + Send + Sync + 'static {
        StdError(Marked(self))
    }
}

impl<E: Into<Box<dyn Error + Send + Sync>>> From<E> for JobError {
    fn from(error: E) -> Self {
        Self::new(error)
    }
}

/// The error and its causes, one after the other.
impl fmt::Display for JobError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let own = causes(&*self.source).filter(|cause| !cause.is::<Marked>());
        for (place, cause) in own.enumerate() {
            write!(f, "{}{cause}", if place == 0 { "" } else { ": " })?;
        }
        Ok(())
    }
}

/// As for people, so that a `main` that returns one says what is wrong.
impl fmt::Debug for JobError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.class {
            ErrorClass::Retry => write!(f, "{self}"),
            class => write!(f, "{self} ({class:?})"),
        }
    }
}

/// The error of an attempt whose handler completed its job in a transaction, with
/// [`complete_in`](crate::JobContext::complete_in), and ended well although that transaction did not commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the job was completed in a transaction that did not commit: it was rolled back, or dropped without `commit()`, when \
     the handler ended"
)]
pub struct CompletionRolledBack;

/// A [`JobError`] as a `std::error::Error`. Libraries box errors in types of their own; that its cause is marked is what
/// can be seen through them.
#[derive(Debug)]
struct StdError(Marked);

#[derive(Debug)]
struct Marked(JobError);

impl fmt::Display for StdError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
impl fmt::Display for Marked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.source.fmt(f)
    }
}
impl Error for StdError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(&self.0)
    }
}
impl Error for Marked {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.0.source.source()
    }
}

/// An error and what caused it, one after the other.
fn causes<'a>(error: &'a (dyn Error + 'static)) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    std::iter::successors(Some(error), |&error| error.source())
}

/// `text` within `limit` bytes: cut on a character boundary, and the cut marked with what was left out. NUL
/// characters, which end a text in some of SQLite's functions, are replaced.
pub(crate) fn cut(text: &str, limit: usize) -> Cow<'_, str> {
    const ROOM: usize = 40;
    let whole: Cow<'_, str> =
        if text.contains('\0') { text.replace('\0', "\u{fffd}").into() } else { text.into() };
    if whole.len() <= limit {
        return whole;
    }
    let end = whole.floor_char_boundary(limit.saturating_sub(ROOM));
    format!("{} … [{} bytes cut]", &whole[..end], whole.len() - end).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The largest that fit into an id: 48 bits of time, 48 bits of row.
    const LAST: i64 = (1 << 48) - 1;

    fn parts(id: JobId) -> (Millis, i64, u32) {
        (id.created_at(), id.row(), id.tag())
    }

    #[test]
    fn an_id_carries_its_time_row_and_tag() {
        let mut random = fastrand::Rng::with_seed(1);
        let edges = [0, 1, (1 << 36) - 1, 1 << 36, LAST];
        let drawn = (0..10_000).map(|_| random.i64(0..=LAST)).collect::<Vec<_>>();
        for (n, &row) in edges.iter().chain(&drawn).enumerate() {
            let at = if n % 2 == 0 { random.i64(0..=LAST) } else { edges[n % edges.len()] };
            let tag = if n % 3 == 0 { JobId::MAX_TAG } else { random.u32(..=JobId::MAX_TAG) };
            let id = JobId::compose(at, row, tag);
            assert_eq!(parts(id), (at, row, tag));
            assert_eq!(id.as_uuid().get_version_num(), 7);
            assert_eq!(id.as_uuid().get_variant(), uuid::Variant::RFC4122);
            assert_eq!(id.to_string().parse(), Ok(id));
        }
    }

    #[test]
    fn ids_sort_by_time_then_row() {
        let mut random = fastrand::Rng::with_seed(2);
        for _ in 0..10_000 {
            let mut draw = || (random.i64(0..4) * (LAST / 4), random.i64(0..=LAST), random.u32(..1 << 26));
            let (one, two) = (draw(), draw());
            let ids = [one, two].map(|(at, row, tag)| JobId::compose(at, row, tag));
            assert_eq!(ids[0].cmp(&ids[1]), one.cmp(&two), "{one:?} and {two:?}");
            let texts = ids.map(|id| id.to_string());
            assert_eq!(texts[0].cmp(&texts[1]), one.cmp(&two), "as text they sort alike");
        }
    }

    #[test]
    fn a_cut_falls_on_a_character_and_says_what_is_missing() {
        for character in ["x", "é", "€", "😀"] {
            let text = character.repeat(200);
            for limit in 50..text.len() {
                let short = cut(&text, limit);
                let (kept, mark) = short.rsplit_once(" … [").expect("a mark");
                assert!(short.len() <= limit && text.starts_with(kept));
                assert_eq!(mark, format!("{} bytes cut]", text.len() - kept.len()));
            }
            assert_eq!(cut(&text, text.len()), text);
        }
    }

    #[test]
    fn a_cut_replaces_nul() {
        assert_eq!(cut("a\0b\0", 100), "a\u{fffd}b\u{fffd}");
        assert!(cut(&"\0".repeat(100), 100).len() <= 100);
    }
}
