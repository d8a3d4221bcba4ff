//! Draining: what is due is run by a worker, now or from one instant to the next, and each attempt's end is told.

use super::TestQueue;
#[cfg(feature = "cron")]
use crate::worker::lay_schedules;
use crate::{
    enqueue::JobSet,
    executor::{Verdict, Watch},
    job::{AttemptOutcome, JobId},
    maintenance::promote_due,
    queue::QueueError,
    registry::Registry,
    state::JobState,
    store::{ClaimSet, Claimed, JobFilter, Next, ScheduleRow, StoreError},
    time::{Clock, Millis, date, millis, patiently},
    worker::{Worker, WorkerError},
};
use std::{
    any::Any,
    collections::BTreeMap,
    fmt,
    panic::Location,
    pin::Pin,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

/// Instants that a drain until idle goes through at most.
const MOST_INSTANTS: usize = 1000;

/// How far a drain goes.
#[derive(Clone, Copy)]
pub(super) enum Until {
    Now,
    Passed(Duration),
    Idle,
}

/// A drain on its way: [`TestQueue::drain`] and its like. Awaiting it runs the jobs.
///
/// # Panics
/// Awaiting it panics, and says why, where no worker can run: a job that is to run lacks its `#[data]`, two jobs share a
/// name, the store fails. Also where a job still runs after the [`patience`](Self::patience). A job that fails is no
/// reason: [`Drained`] tells.
#[must_use = "a drain does nothing until it is awaited"]
pub struct Drain {
    queue: TestQueue,
    until: Until,
    slots: usize,
    patience: Duration,
    from: &'static Location<'static>,
}

impl Drain {
    #[track_caller]
    pub(super) fn new(queue: &TestQueue, until: Until) -> Self {
        let patience = Duration::from_secs(30);
        Self { queue: queue.clone(), until, slots: 1, patience, from: Location::caller() }
    }

    /// Lends `value` to the jobs of this drain: see [`TestQueue::data`].
    pub fn data<T: Any + Send + Sync>(mut self, value: T) -> Self {
        self.queue = self.queue.data(value);
        self
    }

    /// Runs these jobs only: see [`TestQueue::jobs`].
    pub fn jobs<P>(mut self, jobs: impl JobSet<P>) -> Self {
        self.queue = self.queue.jobs(jobs);
        self
    }

    /// Runs up to this many jobs at once; by default one, so that their order is that of the queue.
    pub fn concurrency(mut self, jobs: usize) -> Self {
        self.slots = jobs;
        self
    }

    /// How long jobs may take in real time before the test fails; by default 30 s.
    pub fn patience(mut self, time: Duration) -> Self {
        self.patience = time;
        self
    }
}

impl IntoFuture for Drain {
    type Output = Drained;
    type IntoFuture = Pin<Box<dyn Future<Output = Drained> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move {
            let runs = Runs::default();
            match self.run(&runs).await {
                Ok(()) => Drained { runs: std::mem::take(&mut *runs.lock()) },
                Err(why) => panic!("{why}\nin the drain at {}", self.from),
            }
        })
    }
}

impl Drain {
    async fn run(&self, runs: &Runs) -> Result<(), Trouble> {
        let end = match self.until {
            Until::Now => return self.run_due(runs).await,
            Until::Passed(time) => Some(self.queue.millis().saturating_add(millis(time))),
            Until::Idle => None,
        };
        let mut instants = 0;
        loop {
            self.run_due(runs).await?;
            let ahead = Ahead::of(&self.queue).await?;
            // Schedules tick for ever: without a job that waits for its time, all is idle.
            let goes_on = end.is_some() || ahead.job.is_some();
            let next = ahead.next().filter(|next| goes_on && end.is_none_or(|end| *next <= end));
            let Some(next) = next else { break };
            if end.is_none() && instants == MOST_INSTANTS {
                return Err(Trouble::Endless);
            }
            instants += 1;
            self.advance_to(next);
        }
        if let Some(end) = end {
            self.advance_to(end);
            self.run_due(runs).await?;
        }
        Ok(())
    }

    fn advance_to(&self, instant: Millis) {
        let wait = instant.saturating_sub(self.queue.millis());
        self.queue.advance(Duration::from_millis(wait.unsigned_abs()));
    }

    /// Runs what is due: where the test names no jobs, with a worker for all types of which there is a job or a schedule,
    /// and once more where one of another type came meanwhile.
    async fn run_due(&self, runs: &Runs) -> Result<(), Trouble> {
        let linked = Registry::linked().map_err(WorkerError::from)?;
        if let Some(named) = &self.queue.jobs {
            return self.work(linked.pick(named).map_err(WorkerError::from)?, runs).await;
        }
        // By the worker, were there one; what lacks its data has none, and is due all the same.
        promote_due(&**self.queue.store(), self.queue.clock()).await?;
        let mut known = Registry::default();
        loop {
            let more = there(&self.queue, linked).await?;
            // A job that lacks its data, and is not due, is no reason not to run the others.
            let fed = more.iter().filter(|entry| entry.data.iter().all(|need| self.queue.data.has(need)));
            let fed = Registry::of(fed).map_err(WorkerError::from)?;
            if fed.iter().all(|entry| known.get(entry.job_type).is_some()) {
                break;
            }
            known = fed;
            self.work(known.clone(), runs).await?;
        }
        match due(&self.queue, linked).await?.missing(&self.queue.data) {
            missing if missing.is_empty() => Ok(()),
            missing => Err(WorkerError::MissingData(missing).into()),
        }
    }

    async fn work(&self, known: Registry, runs: &Runs) -> Result<(), Trouble> {
        let worker = Worker::watched(&self.queue, known, self.queue.data.clone(), runs.watch(&self.queue));
        let worked = patiently(worker.concurrency(self.slots).drain(), self.patience).await;
        match worked {
            Some(ended) => Ok(ended.map(drop)?),
            None => {
                let running = self.queue.list(JobFilter::default().state(JobState::Running)).await?;
                let running = running.iter().map(|row| format!("\n  {} {}", row.job_type, row.id)).collect();
                Err(Trouble::Stuck { patience: self.patience, running })
            }
        }
    }
}

/// The linked jobs of which there is one that has not ended, or a schedule.
async fn there(queue: &TestQueue, linked: &Registry) -> Result<Registry, Trouble> {
    let schedules = queue.store().schedules(None).await?;
    of_these(queue, linked, |state| !state.is_terminal(), schedules).await
}

/// The linked jobs of which one is due.
async fn due(queue: &TestQueue, linked: &Registry) -> Result<Registry, Trouble> {
    let schedules = queue.store().due_schedules(queue.millis()).await?.due;
    of_these(queue, linked, |state| state == JobState::Pending, schedules).await
}

async fn of_these(
    queue: &TestQueue,
    linked: &Registry,
    state: impl Fn(JobState) -> bool,
    schedules: Vec<ScheduleRow>,
) -> Result<Registry, Trouble> {
    let counts = queue.counts().await?;
    let jobs = counts.iter().filter(|count| state(count.state)).map(|count| &count.job_type);
    let ticks = schedules.iter().filter(|row| row.enabled).map(|row| &row.job_type);
    let entries: BTreeMap<_, _> =
        jobs.chain(ticks).filter_map(|name| linked.get(name)).map(|entry| (entry.job_type, entry)).collect();
    Ok(Registry::of(entries.into_values()).map_err(WorkerError::from)?)
}

/// What becomes due by the clock alone.
pub(super) struct Ahead {
    /// A job: its time, the end of a pause, or a start that a limit allows.
    job: Option<Millis>,
    /// A tick of a schedule.
    tick: Option<Millis>,
}

impl Ahead {
    pub(super) async fn of(queue: &TestQueue) -> Result<Self, Trouble> {
        let (store, now) = (queue.store(), queue.millis());
        let linked = Registry::linked().map_err(WorkerError::from)?;
        let named = queue.jobs.as_ref().map(|named| linked.pick(named)).transpose();
        let named = named.map_err(WorkerError::from)?;
        #[cfg(feature = "cron")]
        {
            let known = match &named {
                Some(named) => named,
                None => &there(queue, linked).await?,
            };
            lay_schedules(&**store, known, now).await?;
        }
        let due = store.due(Arc::new(ClaimSet::default()), now).await?;
        let ticking = named.as_ref().unwrap_or(linked);
        let schedules = store.schedules(None).await?;
        let ticks = schedules.iter().filter(|row| row.enabled && ticking.get(&row.job_type).is_some());
        let later = |at: &Millis| *at > now;
        Ok(Self { job: due.next_at().filter(later), tick: ticks.map(|row| row.next_run).filter(later).min() })
    }

    /// The next instant at which there is anything to do.
    pub(super) fn next(&self) -> Option<Millis> {
        self.job.into_iter().chain(self.tick).min()
    }
}

/// Why a drain came to no end.
#[derive(Debug, thiserror::Error)]
pub(super) enum Trouble {
    #[error(transparent)]
    Worker(#[from] WorkerError),
    #[error(transparent)]
    Queue(#[from] QueueError),
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(
        "after {patience:?} of real time there are jobs that still run; one that waits for the queue's clock goes on when \
         another task advances it, one that works for longer is waited for with `.patience(…)`:{running}"
    )]
    Stuck { patience: Duration, running: String },
    #[error(
        "after {MOST_INSTANTS} instants there is still a job that is due later: does one snooze, or enqueue itself, for ever? \
         Does a schedule tick often? `run_for(duration)` has an end"
    )]
    Endless,
}

/// The attempts so far.
#[derive(Clone, Default)]
struct Runs(Arc<Mutex<Vec<Run>>>);

impl Runs {
    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<Run>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn watch(&self, queue: &TestQueue) -> Watch {
        let (runs, clock) = (self.clone(), queue.clock().clone());
        Arc::new(move |job: &Claimed, verdict: &Verdict| {
            let Claimed { id, attempt, max_attempts, .. } = *job;
            let (job_type, at, verdict) = (job.job_type.to_string(), clock.now(), verdict.clone());
            runs.lock().push(Run { id, job_type, attempt, max_attempts, at, verdict });
        })
    }
}

/// One attempt that a drain has made.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Run {
    /// The job.
    pub id: JobId,
    /// Its stored name.
    pub job_type: String,
    /// 1 = first run.
    pub attempt: u32,
    /// Counted starts at most.
    pub max_attempts: u32,
    /// When it ended, by the queue's clock.
    pub at: Millis,
    /// What followed.
    pub verdict: Verdict,
}

impl Run {
    /// Why it failed, or was taken back by its handler; `None`: it did not.
    pub fn error(&self) -> Option<&str> {
        match &self.verdict {
            Verdict::Fail { error, .. } => Some(error),
            _ => None,
        }
    }
}

/// As a line for people.
impl fmt::Display for Run {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { id, job_type, attempt, max_attempts, at, verdict } = self;
        write!(f, "{} {job_type} {id}, attempt {attempt} of {max_attempts}: ", date(*at))?;
        match verdict {
            Verdict::Complete { result: Some(result) } => write!(f, "completed with {result}"),
            Verdict::Complete { result: None } => f.write_str("completed"),
            Verdict::Snooze { run_at } => write!(f, "snoozed until {}", date(*run_at)),
            Verdict::Fail { outcome: AttemptOutcome::Cancelled, error, .. } => {
                write!(f, "cancelled: {error}")
            }
            Verdict::Fail { outcome, error, next } => {
                write!(f, "{outcome}: {error}")?;
                match next {
                    Next::At(again) => write!(f, " (again at {})", date(*again)),
                    Next::AsBefore => f.write_str(" (again at once)"),
                    Next::Dead => f.write_str(" (dead)"),
                    Next::Cancelled => Ok(()),
                }
            }
            other => write!(f, "{other:?}"),
        }
    }
}

/// What a drain has done: each attempt, in the order of their ends. It is shown as a list, one attempt a line.
#[derive(Clone, Debug, Default)]
#[must_use = "jobs that failed are no panic: look at what was done, or `assert_ok()`"]
pub struct Drained {
    runs: Vec<Run>,
}

impl Drained {
    /// Every attempt, whatever its end.
    pub fn runs(&self) -> &[Run] {
        &self.runs
    }

    /// How many jobs completed.
    pub fn completed(&self) -> usize {
        self.runs.iter().filter(|run| matches!(run.verdict, Verdict::Complete { .. })).count()
    }

    /// The attempts that failed, each with its [`error`](Run::error).
    pub fn failed(&self) -> Vec<&Run> {
        let failed = |run: &&Run| matches!(&run.verdict, Verdict::Fail { outcome, .. } if *outcome != AttemptOutcome::Cancelled);
        self.runs.iter().filter(failed).collect()
    }

    /// Goes on where no attempt failed.
    ///
    /// # Panics
    /// Where one did, with a list of them all.
    #[track_caller]
    pub fn assert_ok(&self) -> &Self {
        let failed = self.failed();
        if !failed.is_empty() {
            panic!("{} of {} attempts failed:\n{self}", failed.len(), self.runs.len());
        }
        self
    }
}

impl fmt::Display for Drained {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.runs.is_empty() {
            return f.write_str("nothing was due");
        }
        for (place, run) in self.runs.iter().enumerate() {
            write!(f, "{}  {run}", if place == 0 { "" } else { "\n" })?;
        }
        Ok(())
    }
}
