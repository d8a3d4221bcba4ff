//! What a store knows of schedules: their rows, and what a tick writes.

use crate::{
    job::{JobId, MAX_NAME, MAX_PAYLOAD, NewJob},
    schedule::{CatchUp, Overlap},
    store::{StoreError, admit},
    time::{Millis, date},
};
use chrono::{DateTime, Utc};
use serde::Serialize;

/// The ticks of one schedule that are kept to be shown.
pub const TICKS_KEPT: usize = 100;

/// A schedule on its way into a store; the row of this name takes it over.
#[derive(Clone, Debug)]
pub struct NewSchedule {
    /// Its name.
    pub id: String,
    /// The stored name of its jobs' function.
    pub job_type: String,
    /// The payload of its jobs, JSON text.
    pub payload: String,
    /// The version of that payload.
    pub version: u32,
    /// The pattern.
    pub cron_expr: String,
    /// The pattern's time zone.
    pub tz: String,
    /// What becomes of missed ticks.
    pub catch_up: CatchUp,
    /// What becomes of a tick while the job of an earlier one is live.
    pub overlap: Overlap,
    /// Where it comes from. A row of another source is not taken over.
    pub source: Source,
    /// What its jobs are enqueued with beyond their type's defaults, JSON text.
    pub options: String,
    /// Its next tick; a row that waits by the same pattern and zone keeps its own.
    pub next_run: Millis,
    /// Whether it ticks; `None`: as the row that is there, and a new one does.
    pub enabled: Option<bool>,
}

/// Where a schedule comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    /// From `#[job(cron = …)]`, at each start of a worker that knows the job.
    Attribute,
    /// From `JobQueue::schedule`.
    Dynamic,
}

impl Source {
    /// As the store has it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Attribute => "attribute",
            Self::Dynamic => "dynamic",
        }
    }
}

/// One schedule as it stands in the store.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ScheduleRow {
    /// Its name.
    pub id: String,
    /// The stored name of its jobs' function.
    pub job_type: String,
    /// The payload of its jobs, JSON text.
    pub payload: String,
    /// The version of that payload.
    pub version: u32,
    /// The pattern.
    pub cron_expr: String,
    /// The pattern's time zone.
    pub tz: String,
    /// What becomes of missed ticks, as [`CatchUp`] is written.
    pub catch_up: String,
    /// What becomes of a tick while the job of an earlier one is live.
    pub overlap: Overlap,
    /// Where it comes from.
    pub source: Source,
    /// What its jobs are enqueued with beyond their type's defaults, JSON text.
    pub options: String,
    /// Its latest tick that had a job, or was skipped for one that was live.
    #[serde(serialize_with = "crate::job::rfc3339_option")]
    pub last_run: Option<Millis>,
    /// The tick that it waits for.
    #[serde(serialize_with = "crate::job::rfc3339")]
    pub next_run: Millis,
    /// Whether it ticks.
    pub enabled: bool,
    /// Its latest job.
    pub last_job: Option<JobId>,
    /// Ticks that had no job, since an earlier one's was live.
    pub skipped: u64,
    /// Why it can't tick, until it can.
    pub error: Option<String>,
    /// When it was first stored.
    #[serde(serialize_with = "crate::job::rfc3339")]
    pub created_at: Millis,
    /// When it was last written.
    #[serde(serialize_with = "crate::job::rfc3339")]
    pub updated_at: Millis,
}

impl ScheduleRow {
    /// The tick that it waits for, as a date.
    pub fn next_run_at(&self) -> DateTime<Utc> {
        date(self.next_run)
    }

    /// Its latest tick that had a job or was skipped, as a date.
    pub fn last_run_at(&self) -> Option<DateTime<Utc>> {
        self.last_run.map(date)
    }
}

/// One tick of a schedule on its way into the store, or a run that a person asked for.
#[derive(Clone, Debug)]
pub struct Tick {
    /// The schedule.
    pub schedule: String,
    /// How the schedule moves on; `None`: it does not, a person wants a run beside its ticks.
    pub turn: Option<Turn>,
    /// Its job; `None`: the tick was missed, and the schedule only moves on.
    pub job: Option<NewJob>,
    /// Whether it has a job while an earlier one is live.
    pub overlap: Overlap,
}

/// How a schedule moves on from the tick that it waits for. Nothing is written where it no longer waits for that one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Turn {
    /// The tick that it waits for.
    pub due: Millis,
    /// The tick that is made, later than every one before; the job's identity.
    pub at: Millis,
    /// The tick that it waits for then.
    pub next: Millis,
}

/// What became of a tick.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ticked {
    /// It has this job.
    Enqueued(JobId),
    /// It has none, since this one of an earlier tick is scheduled, pending or running.
    Overlapped(JobId),
    /// It has none, as asked.
    Passed,
    /// The schedule does not wait for it: somebody was quicker, or it was changed, disabled or deleted.
    NotDue,
}

/// A tick that was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct TickRow {
    /// Its instant.
    #[serde(serialize_with = "crate::job::rfc3339")]
    pub at: Millis,
    /// Its job, which may be gone by now; `None`: it was skipped for one that was live.
    pub job: Option<JobId>,
}

/// The schedules whose time has come.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DueSchedules {
    /// Those that are enabled and wait for a tick that is due, by it and by name.
    pub due: Vec<ScheduleRow>,
    /// The earliest tick after these.
    pub next: Option<Millis>,
}

/// Refuses a schedule that no store takes.
pub(crate) fn admit_schedule(new: &NewSchedule) -> Result<(), StoreError> {
    let name = |what: &str, name: &str| {
        let unfit = name.is_empty() || name.len() > MAX_NAME || name.contains('\0');
        unfit.then(|| format!("its {what} {name:?} is not 1 to {MAX_NAME} bytes of text"))
    };
    let why = name("name", &new.id).or_else(|| name("job type", &new.job_type)).or_else(|| {
        let size = new.payload.len();
        (size > MAX_PAYLOAD).then(|| format!("its payload has {size} bytes; the most is {MAX_PAYLOAD}"))
    });
    match why {
        Some(why) => Err(StoreError::Invalid(format!("a schedule can't be stored: {why}"))),
        None => Ok(()),
    }
}

/// Refuses a tick whose job no store takes.
pub(crate) fn admit_tick(tick: &Tick) -> Result<(), StoreError> {
    tick.job.as_ref().map_or(Ok(()), |job| admit(std::slice::from_ref(job)))
}
