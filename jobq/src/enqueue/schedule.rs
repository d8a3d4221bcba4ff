//! Schedule: a job that is enqueued at each tick of a cron pattern, and what people do with schedules.

use super::{EnqueueError, Options, fill, job_of, raw::new_job};
use crate::{
    job::{Job, JobId, MAX_NAME, NewJob},
    queue::JobQueue,
    registry::{Known, Registry},
    schedule::{CatchUp, Cron, CronError, Overlap},
    store::{NewSchedule, ScheduleRow, Source, StoreError, Tick, TickRow, Ticked},
    time::Millis,
};
use std::slice;

/// The job of a schedule, given what it is enqueued with.
type Work = Box<dyn FnOnce(Options, &JobQueue, Millis) -> Result<NewJob, EnqueueError> + Send>;

/// A job that is to be enqueued at each tick of a cron pattern: see [`JobQueue::schedule`].
///
/// ```standalone_crate
/// use jobq::{Schedule, prelude::*, schedule::{CatchUp, Overlap}};
///
/// #[job]
/// async fn send_report(team: String) {
///     println!("the numbers of {team}");
/// }
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let store = std::sync::Arc::new(jobq::MemoryStore::new());
/// # let queue = JobQueue::with_store(store, std::sync::Arc::new(jobq::SystemClock));
/// let monday = Schedule::new("report of sales", "30 7 * * MON", SendReport { team: "sales".into() })
///     .tz("Europe/Warsaw")
///     .overlap(Overlap::Skip)
///     .catch_up(CatchUp::OnceWithin(hours(12)))
///     .queue("reports");
/// let row = queue.schedule(monday).await?;
/// println!("{} runs next at {}", row.id, row.next_run_at());
/// # assert!(row.enabled);
/// # Ok(()) }
/// ```
#[must_use = "a schedule does nothing until it is given to `JobQueue::schedule`"]
pub struct Schedule {
    name: String,
    pattern: String,
    zone: String,
    work: Work,
    pub(super) options: Options,
    catch_up: CatchUp,
    overlap: Overlap,
    enabled: Option<bool>,
}

impl Schedule {
    /// This job at each tick of this pattern, in UTC. The name is the schedule's own, 1 to 64 bytes: another schedule of
    /// the name takes its place.
    ///
    /// The pattern has five fields, `minute hour day month weekday`, or six, with the second first, or is one of
    /// `@hourly`, `@daily`, `@weekly`, `@monthly`, `@yearly`; see [`Cron::parse`].
    pub fn new<J: Job>(name: impl Into<String>, pattern: impl Into<String>, job: J) -> Self {
        let work = move |options: Options, queue: &JobQueue, now| {
            fill(&options.template(J::TYPE, &J::DEFAULTS, queue, now)?, &job)
        };
        Self::of(name.into(), pattern.into(), Box::new(work))
    }

    /// The same with a job given by its stored name (or an alias), which must be linked into this program, and a payload
    /// that its function takes.
    pub fn raw(
        name: impl Into<String>,
        pattern: impl Into<String>,
        job_type: impl Into<String>,
        payload: serde_json::Value,
    ) -> Self {
        let job_type = job_type.into();
        let work =
            move |options: Options, queue: &JobQueue, now| new_job(&job_type, &payload, options, queue, now);
        Self::of(name.into(), pattern.into(), Box::new(work))
    }

    fn of(name: String, pattern: String, work: Work) -> Self {
        Self {
            name,
            pattern,
            zone: "UTC".into(),
            work,
            options: Options::default(),
            catch_up: CatchUp::default(),
            overlap: Overlap::default(),
            enabled: None,
        }
    }

    /// The time zone of the pattern, by its IANA name, such as `Europe/Warsaw`.
    pub fn tz(mut self, zone: impl Into<String>) -> Self {
        self.zone = zone.into();
        self
    }

    /// What becomes of ticks that no worker was there for; by default [`CatchUp::Once`].
    pub fn catch_up(mut self, policy: CatchUp) -> Self {
        self.catch_up = policy;
        self
    }

    /// What becomes of a tick while the job of an earlier one is scheduled, pending or running; by default
    /// [`Overlap::Allow`].
    pub fn overlap(mut self, policy: Overlap) -> Self {
        self.overlap = policy;
        self
    }

    /// Whether it ticks. Where this is not said a new schedule does, and one that is there stays as people left it.
    pub fn enabled(mut self, enabled: bool) -> Self {
        self.enabled = Some(enabled);
        self
    }

    fn stored(self, queue: &JobQueue, now: Millis) -> Result<NewSchedule, ScheduleError> {
        let Self { name, pattern, zone, work, options, catch_up, overlap, enabled } = self;
        if name.is_empty() || name.len() > MAX_NAME || name.contains(char::is_control) || name.trim() != name
        {
            return Err(ScheduleError::Name(name.chars().take(MAX_NAME).collect()));
        }
        let next_run = next_run(&name, &pattern, &zone, now)?;
        let written = options.stored();
        let job = work(options, queue, now)?;
        let options = written.map_err(|why| StoreError::Invalid(why.to_string()))?;
        let mut payload = job.payload;
        queue.seal_payload(&job.job_type, &mut payload)?;
        Ok(NewSchedule {
            id: name,
            job_type: job.job_type.into_owned(),
            payload,
            version: job.version,
            cron_expr: pattern.trim().to_owned(),
            tz: zone,
            catch_up,
            overlap,
            source: Source::Dynamic,
            options,
            next_run,
            enabled,
        })
    }
}

fn next_run(name: &str, pattern: &str, zone: &str, after: Millis) -> Result<Millis, ScheduleError> {
    let bad = |why| ScheduleError::Cron { name: name.to_owned(), why };
    let cron = Cron::parse(pattern, zone).map_err(bad)?;
    cron.next_after(after).ok_or_else(|| bad(CronError::Never { pattern: pattern.to_owned() }))
}

/// The schedule, with the secrets of its payload left out.
fn redacted(mut row: ScheduleRow) -> ScheduleRow {
    Known::at(&row.job_type, row.version).redact(&mut row.payload);
    row
}

/// The job of one tick of a schedule, as it is stored, due at `now` at the latest; or why there is none, for people.
pub(crate) fn tick_job(row: &ScheduleRow, queue: &JobQueue, now: Millis) -> Result<NewJob, String> {
    let linked = Registry::linked().map_err(|why| why.to_string())?;
    let entry = linked.get(&row.job_type);
    let entry = entry.ok_or_else(|| format!("this program knows no job `{}`", row.job_type))?;
    let options = Options::read(&row.options).map_err(|why| format!("its options can't be read: {why}"))?;
    let stored =
        queue.opened_payload(&row.job_type, row.version, &row.payload).map_err(|why| why.to_string())?;
    let payload = match row.version == entry.defaults.version {
        true => stored.into_owned(),
        false => entry.read(row.version, &stored).map_err(|why| why.to_string())?.payload,
    };
    let mut job = job_of(entry, payload, options, queue, now).map_err(|why| why.to_string())?;
    queue.seal(slice::from_mut(&mut job)).map_err(|why| why.to_string())?;
    Ok(job)
}

/// Schedules are rows in the store: they outlive all processes, and any worker that knows the job makes their ticks, each
/// of them once. The chapter [cron](crate::guide::cron) of the guide tells the rules.
impl JobQueue {
    /// Stores a schedule, or changes the one of its name: what is there takes over everything that is said here. It keeps
    /// the tick that it waits for unless pattern or zone are others.
    ///
    /// # Errors
    /// [`ScheduleError::Cron`]: the pattern or zone, with what to write. [`ScheduleError::Enqueue`]: a job that could
    /// not be enqueued. [`ScheduleError::FromAttribute`]: the name belongs to a `#[job(cron = …)]`.
    ///
    /// # Cancel safety
    /// Dropping it loses the answer, and neither undoes nor half-does the act.
    pub async fn schedule(&self, schedule: Schedule) -> Result<ScheduleRow, ScheduleError> {
        let now = self.now();
        let new = schedule.stored(self, now)?;
        let name = new.id.clone();
        let linked = Registry::linked().ok().and_then(|linked| linked.get(&name));
        let taken = linked.is_some_and(|entry| entry.cron.is_some() && entry.job_type == name);
        if taken || !self.store().put_schedule(new, now).await? {
            return Err(ScheduleError::FromAttribute(name));
        }
        self.find_schedule(&name).await?.ok_or(ScheduleError::NotFound(name))
    }

    /// Reads all schedules, by name, without the secrets of their payloads.
    ///
    /// # Errors
    /// [`ScheduleError::Store`].
    pub async fn schedules(&self) -> Result<Vec<ScheduleRow>, ScheduleError> {
        let rows = self.store().schedules(None).await?;
        Ok(rows.into_iter().map(redacted).collect())
    }

    /// Reads one schedule; `None` where there is none of this name.
    ///
    /// # Errors
    /// [`ScheduleError::Store`].
    pub async fn find_schedule(&self, name: &str) -> Result<Option<ScheduleRow>, ScheduleError> {
        Ok(self.stored_schedule(name).await?.map(redacted))
    }

    /// Reads the latest 100 ticks of a schedule and their jobs, latest first; empty where there is none of this name.
    ///
    /// # Errors
    /// [`ScheduleError::Store`].
    pub async fn schedule_ticks(&self, name: &str) -> Result<Vec<TickRow>, ScheduleError> {
        Ok(self.store().ticks(name.to_owned()).await?)
    }

    /// Lets a schedule tick again. Ticks of the time when it did not are not made up.
    ///
    /// # Errors
    /// [`ScheduleError::NotFound`]; [`ScheduleError::Cron`] where the row was broken by hand.
    ///
    /// # Cancel safety
    /// As [`schedule`](Self::schedule).
    pub async fn enable_schedule(&self, name: &str) -> Result<(), ScheduleError> {
        let row = self.found(name).await?;
        let now = self.now();
        let next = next_run(name, &row.cron_expr, &row.tz, now.max(row.last_run.unwrap_or(now)))?;
        self.there(name, self.store().enable_schedule(name.to_owned(), next, now).await?)
    }

    /// Lets a schedule tick no more until it is enabled; also one of an attribute, and over restarts.
    ///
    /// # Errors
    /// [`ScheduleError::NotFound`].
    ///
    /// # Cancel safety
    /// As [`schedule`](Self::schedule).
    pub async fn disable_schedule(&self, name: &str) -> Result<(), ScheduleError> {
        self.there(name, self.store().disable_schedule(name.to_owned(), self.now()).await?)
    }

    /// Deletes a schedule; its jobs stay. One of an attribute is there again with the next start of a worker: disable it
    /// instead.
    ///
    /// # Errors
    /// [`ScheduleError::NotFound`].
    ///
    /// # Cancel safety
    /// As [`schedule`](Self::schedule).
    pub async fn delete_schedule(&self, name: &str) -> Result<(), ScheduleError> {
        self.there(name, self.store().delete_schedule(name.to_owned(), self.now()).await?)
    }

    /// Enqueues the job of a schedule now, beside its ticks; also where it is disabled.
    ///
    /// # Errors
    /// [`ScheduleError::NotFound`]. [`ScheduleError::StillLive`]: the schedule skips what overlaps, and its latest job has
    /// not ended. [`ScheduleError::CanNotRun`]: this program does not know the job, or it does not take the payload.
    ///
    /// # Cancel safety
    /// As [`schedule`](Self::schedule).
    pub async fn run_schedule_now(&self, name: &str) -> Result<JobId, ScheduleError> {
        let row = self.found(name).await?;
        let now = self.now();
        let can_not = |why| ScheduleError::CanNotRun { name: name.to_owned(), why };
        let job = Some(tick_job(&row, self, now).map_err(can_not)?);
        let tick = Tick { schedule: row.id, turn: None, job, overlap: row.overlap };
        match self.store().tick(tick, now).await? {
            Ticked::Enqueued(job) => Ok(job),
            Ticked::Overlapped(job) => Err(ScheduleError::StillLive { name: name.to_owned(), job }),
            Ticked::NotDue | Ticked::Passed => Err(ScheduleError::NotFound(name.to_owned())),
        }
    }

    async fn found(&self, name: &str) -> Result<ScheduleRow, ScheduleError> {
        let missing = || {
            let linked = Registry::linked().ok().and_then(|linked| linked.get(name));
            match linked.is_some_and(|entry| entry.cron.is_some()) {
                true => ScheduleError::NotLaid(name.to_owned()),
                false => ScheduleError::NotFound(name.to_owned()),
            }
        };
        self.stored_schedule(name).await?.ok_or_else(missing)
    }

    async fn stored_schedule(&self, name: &str) -> Result<Option<ScheduleRow>, StoreError> {
        Ok(self.store().schedules(Some(name.to_owned())).await?.pop())
    }

    fn there(&self, name: &str, there: bool) -> Result<(), ScheduleError> {
        if there { Ok(()) } else { Err(ScheduleError::NotFound(name.to_owned())) }
    }
}

/// What can be wrong with a schedule.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ScheduleError {
    /// The pattern or the zone.
    #[error("schedule `{name}`: {why}")]
    Cron {
        /// The schedule.
        name: String,
        /// What is wrong, where, and what to write.
        why: CronError,
    },
    /// A job that can't be enqueued.
    #[error(transparent)]
    Enqueue(#[from] EnqueueError),
    /// A name that no schedule can have, cut to 64 characters.
    #[error(
        "{0:?} can't be the name of a schedule: it has 1 to {MAX_NAME} bytes, no control character and no space at its ends"
    )]
    Name(String),
    /// The name belongs to a job whose attribute says when it runs.
    #[error("schedule `{0}` is that of a `#[job(cron = …)]`: give yours another name, or disable that one")]
    FromAttribute(String),
    /// The schedule of a `#[job(cron = …)]`, which no worker has laid yet.
    #[error(
        "schedule `{0}` is that of a `#[job(cron = …)]`, and is laid when a worker starts that knows the job"
    )]
    NotLaid(String),
    /// No schedule of this name.
    #[error("there is no schedule `{0}`")]
    NotFound(String),
    /// It skips what overlaps, and its latest job is scheduled, pending or running.
    #[error("schedule `{name}` skips what overlaps, and its job {job} has not ended")]
    StillLive {
        /// The schedule.
        name: String,
        /// The job that has not ended.
        job: JobId,
    },
    /// Its job can't be enqueued by this program.
    #[error("schedule `{name}` can't run: {why}")]
    CanNotRun {
        /// The schedule.
        name: String,
        /// Why.
        why: String,
    },
    /// The storage failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}
