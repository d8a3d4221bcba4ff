//! Sweeps beside the loop: promotion of due jobs, rescue of lost workers' jobs, prune of old ones.
//!
//! Each sweep is a round that is repeated for ever. An error or a panic in one is logged, and after a wait the round
//! comes again; it never touches the other sweeps or the worker's loop.

use crate::{
    executor::{Ending, Terms, Verdict, caught, following, verdict},
    job::{JobId, NewJob, WorkerId},
    registry::{BackoffPolicy, JobEntry, Registry},
    store::{ClaimSet, Life, NewWorker, Next, Rescue, Retention, Running, Store, StoreError, WorkerRow},
    time::{Clock, Millis, NEVER, millis},
};
use std::{
    collections::{HashMap, HashSet},
    future::{Future, poll_fn},
    pin::Pin,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicI64, AtomicU64, Ordering},
    },
    task::Poll,
    time::Duration,
};
use tokio::sync::watch;

pub(crate) use crate::retry::trouble_wait;

/// Jobs that were lost together, and not for the first time, run again spread over this: should one of them have taken
/// its process with it, it is not to take the same others again.
const APART: Duration = Duration::from_secs(3);
/// Rows that one commit promotes or rescues at most.
const ROWS_PER_COMMIT: usize = 1000;
/// How often the living are counted.
const ROLL_CALL: Duration = Duration::from_secs(1);
/// How often old jobs are looked for: it means looking at every row.
const PRUNE_EVERY: Duration = Duration::from_secs(600);
/// Between two looks at what is due there is at least this, however often the store changes.
const LOOK_APART: Duration = Duration::from_millis(5);

// ---- what all sweeps share ---------------------------------------------------------------------------------

/// One round of a sweep, its wait included.
pub(crate) type Round<'a> = Pin<Box<dyn Future<Output = Result<(), StoreError>> + Send + 'a>>;

/// Something that is to be done again and again beside the loop.
pub(crate) trait Sweep: Send + 'static {
    /// What it is called in logs.
    const NAME: &'static str;

    /// Waits, then does its work once.
    fn round(&mut self) -> Round<'_>;
}

/// Repeats the sweep's rounds for ever, whatever becomes of one.
pub(crate) async fn repeat<S: Sweep>(mut sweep: S, clock: Arc<dyn Clock>, quiet: Arc<Quiet>) {
    let mut failures = 0;
    loop {
        let failed = answered(sweep.round()).await;
        let Err(error) = failed else {
            failures = 0;
            continue;
        };
        failures += 1;
        if let Some(left_out) = quiet.turn() {
            tracing::warn!(sweep = S::NAME, %error, left_out, "a sweep failed and will run again");
        }
        clock.sleep(trouble_wait(failures)).await;
    }
}

/// What the store answers; a panic on the way there is trouble like any other, for another try.
pub(crate) async fn answered<T>(
    answer: impl Future<Output = Result<T, StoreError>>,
) -> Result<T, StoreError> {
    let mut answer = std::pin::pin!(answer);
    let polled = poll_fn(|cx| {
        caught(|| answer.as_mut().poll(cx)).unwrap_or_else(|panic| {
            let text = format!("panicked: {panic}");
            Poll::Ready(Err(StoreError::Backend(Arc::new(std::io::Error::other(text)))))
        })
    });
    polled.await
}

/// `around`, 15 % more or less.
pub(crate) fn about(around: Duration) -> Duration {
    around.min(NEVER).mul_f64(0.85 + 0.3 * fastrand::f64())
}

/// Keeps trouble from flooding the log: ten lines a minute, and the next one says how many were left out.
pub(crate) struct Quiet {
    clock: Arc<dyn Clock>,
    said: Mutex<Said>,
}

#[derive(Debug, Default)]
struct Said {
    since: Duration,
    lines: u32,
    left_out: u64,
}

impl Quiet {
    const LINES_A_MINUTE: u32 = 10;

    pub(crate) fn new(clock: Arc<dyn Clock>) -> Self {
        Self { clock, said: Mutex::default() }
    }

    /// Whether a line may be written now, and how many were left out before it.
    pub(crate) fn turn(&self) -> Option<u64> {
        let now = self.clock.steady();
        let mut said = self.said.lock().unwrap_or_else(PoisonError::into_inner);
        if now.saturating_sub(said.since) >= Duration::from_secs(60) {
            (said.since, said.lines) = (now, 0);
        }
        if said.lines == Self::LINES_A_MINUTE {
            said.left_out += 1;
            return None;
        }
        said.lines += 1;
        Some(std::mem::take(&mut said.left_out))
    }
}

/// Who a worker is. It may change: a process that was stopped for long finds itself buried and signs in anew.
#[derive(Debug)]
pub(crate) struct Identity {
    sign: NewWorker,
    current: AtomicI64,
    former: Mutex<Vec<WorkerId>>,
}

impl Identity {
    pub(crate) fn new(sign: NewWorker, id: WorkerId) -> Self {
        Self { sign, current: AtomicI64::new(id.0), former: Mutex::default() }
    }

    pub(crate) fn id(&self) -> WorkerId {
        WorkerId(self.current.load(Ordering::Acquire))
    }

    /// All ids that jobs running here were claimed under.
    pub(crate) fn all(&self) -> Vec<WorkerId> {
        let former = self.former.lock().unwrap_or_else(PoisonError::into_inner);
        former.iter().copied().chain([self.id()]).collect()
    }

    /// Signs out former ids that no running job needs any more.
    async fn retire_former(&self, store: &dyn Store) -> Result<(), StoreError> {
        let former = self.former.lock().unwrap_or_else(PoisonError::into_inner).clone();
        for id in former {
            if store.running(vec![id]).await?.is_empty() {
                self.former.lock().unwrap_or_else(PoisonError::into_inner).retain(|other| *other != id);
                store.unregister(id);
            }
        }
        Ok(())
    }

    /// Signs in anew. Jobs may still run under the old id: it is kept until there is none.
    async fn renew(&self, store: &dyn Store, clock: &dyn Clock) -> Result<(), StoreError> {
        let old = self.id();
        let new = store.register(self.sign.clone(), clock.now()).await?;
        self.former.lock().unwrap_or_else(PoisonError::into_inner).push(old);
        self.current.store(new.0, Ordering::Release);
        store.withdraw(old);
        tracing::warn!(%old, %new, "this worker was taken for lost while it stood still; it has signed in anew");
        Ok(())
    }
}

/// Which claim of a worker waits in the store; odd while one does.
#[derive(Debug, Default)]
pub(crate) struct Asking(AtomicU64);

impl Asking {
    pub(crate) fn turn(&self) {
        self.0.fetch_add(1, Ordering::AcqRel);
    }

    fn now(&self) -> u64 {
        self.0.load(Ordering::Acquire)
    }
}

// ---- promotion ---------------------------------------------------------------------------------------------

/// Moves scheduled jobs to pending when they are due, ends pauses at their time, and lets jobs start when a limit does.
pub(crate) struct Promotion {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) set: Arc<ClaimSet>,
    pub(crate) identity: Arc<Identity>,
    pub(crate) asking: Arc<Asking>,
    pub(crate) changed: watch::Receiver<u64>,
    pub(crate) poll: Duration,
    /// Whether the wait before this round ended by the poll and not by a change.
    pub(crate) polled: bool,
    /// When a limit lets the next job start that it keeps waiting; nothing else moves then.
    pub(crate) next_start_at: Option<Millis>,
}

impl Sweep for Promotion {
    const NAME: &'static str = "promotion";

    fn round(&mut self) -> Round<'_> {
        Box::pin(async {
            let looked = self.clock.steady();
            let poll = about(self.poll);
            let wait = self.look().await?.map_or(poll, |due_in| due_in.min(poll));
            tokio::select! {
                () = self.clock.sleep_until(looked.saturating_add(wait)) => self.polled = wait == poll,
                Ok(()) = self.changed.changed() => {
                    self.polled = false;
                    self.clock.sleep_until(looked.saturating_add(LOOK_APART)).await;
                }
            }
            Ok(())
        })
    }
}

impl Promotion {
    /// Promotes what is due; how long it is until the next one.
    async fn look(&mut self) -> Result<Option<Duration>, StoreError> {
        self.changed.mark_unchanged();
        let asking = self.asking.now();
        let now = self.clock.now();
        let due = self.store.due(self.set.clone(), now).await?;
        // A store tries standing claims again by itself. Should one have stood since before this look although there
        // is work for it, it is asked anew.
        if self.polled && due.pending && asking % 2 == 1 && asking == self.asking.now() {
            self.store.withdraw(self.identity.id());
        }
        let started_at = std::mem::replace(&mut self.next_start_at, due.next_start_at);
        // What a limit kept waiting until now may wait no more.
        let started_at = started_at.filter(|at| *at <= now);
        match due.next_at().into_iter().chain(started_at).min() {
            Some(at) if at > now => Ok(Some(Duration::from_millis(at.abs_diff(now)))),
            Some(_) if promote_due(&*self.store, &*self.clock).await? > 0 => Ok(Some(Duration::ZERO)),
            _ => Ok(None),
        }
    }
}

/// Promotes until nothing more is due, so many rows a commit that none holds the lock for long. How many.
pub(crate) async fn promote_due(store: &dyn Store, clock: &dyn Clock) -> Result<usize, StoreError> {
    let mut all = 0;
    loop {
        let promoted = store.promote(ROWS_PER_COMMIT, clock.now()).await?;
        all += promoted;
        if promoted < ROWS_PER_COMMIT {
            return Ok(all);
        }
    }
}

// ---- rescue ------------------------------------------------------------------------------------------------

/// Who is lost, by what was seen of all workers so far; pure.
///
/// A worker whose process is [`Life::Gone`] is lost, one that is [`Life::Alive`] never is. Of any other only the beats
/// tell: it is lost when its counter has not moved for the time-out on this process's own steady clock. What happened
/// before the first look counts for nothing, no wall clock is ever asked, and after a gap in one's own looking (the
/// machine slept, the process was stopped) nobody is judged until there was time for one beat.
#[derive(Debug)]
pub struct Liveness {
    timeout: Duration,
    beat: Duration,
    seen: HashMap<WorkerId, (i64, Duration)>,
    looked: Option<Duration>,
    judge_from: Duration,
}

impl Liveness {
    /// Beats are expected every `beat`; without one for `timeout` a worker that nothing else is known of is lost.
    pub fn new(timeout: Duration, beat: Duration) -> Self {
        Self { timeout, beat, seen: HashMap::new(), looked: None, judge_from: Duration::ZERO }
    }

    /// The lost ones among `workers` as they stand at the steady time `now`.
    pub fn lost(&mut self, workers: &[WorkerRow], now: Duration) -> Vec<WorkerId> {
        let gap = self.looked.replace(now).map(|last| now.saturating_sub(last));
        if gap.is_some_and(|gap| gap > self.beat.max(ROLL_CALL * 3)) {
            self.judge_from = now.saturating_add(self.beat.saturating_mul(2));
        }
        self.seen.retain(|id, _| workers.iter().any(|worker| worker.id == *id));
        workers.iter().filter(|worker| self.is_lost(worker, now)).map(|worker| worker.id).collect()
    }

    fn is_lost(&mut self, worker: &WorkerRow, now: Duration) -> bool {
        let (beats, since) = self.seen.entry(worker.id).or_insert((worker.beats, now));
        if *beats != worker.beats {
            (*beats, *since) = (worker.beats, now);
        }
        match worker.life {
            Life::Alive => false,
            Life::Gone => true,
            Life::Unknown => now.saturating_sub(*since) >= self.timeout && now >= self.judge_from,
        }
    }
}

/// Takes running jobs from lost workers.
pub(crate) struct RollCall {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) identity: Arc<Identity>,
    pub(crate) liveness: Liveness,
    /// Of the jobs that are enqueued here, where their type says nothing.
    pub(crate) max_attempts: u32,
    /// Lost workers some of whose jobs were left to others.
    pub(crate) left: HashSet<WorkerId>,
}

impl Sweep for RollCall {
    const NAME: &'static str = "rescue";

    fn round(&mut self) -> Round<'_> {
        Box::pin(async {
            self.clock.sleep(about(ROLL_CALL)).await;
            self.call().await
        })
    }
}

impl RollCall {
    /// Counts the living once, and rescues what the lost ones held.
    pub(crate) async fn call(&mut self) -> Result<(), StoreError> {
        let mut workers = self.store.workers().await?;
        let me = self.identity.id();
        if !workers.iter().any(|worker| worker.id == me && worker.started_at > 0) {
            self.identity.renew(&*self.store, &*self.clock).await?;
        }
        self.identity.retire_former(&*self.store).await?;
        let mine = self.identity.all();
        workers.retain(|worker| !mine.contains(&worker.id));
        let lost = self.liveness.lost(&workers, self.clock.steady());
        self.left.retain(|left| lost.contains(left));
        workers.retain(|worker| lost.contains(&worker.id));
        // One worker whose jobs can't be rescued holds up no other.
        let mut failed = None;
        for worker in &workers {
            failed = failed.or(self.rescue_from(worker).await.err());
        }
        failed.map_or(Ok(()), Err)
    }

    /// The jobs first and then the burial, so that a rescuer that dies in between leaves a worker to be found again.
    async fn rescue_from(&mut self, worker: &WorkerRow) -> Result<(), StoreError> {
        let how = match worker.life {
            Life::Gone => "its process is gone".to_owned(),
            _ => format!("no beat for {:?}", self.liveness.timeout),
        };
        let text = format!("worker lost: {} on {} (process {}): {how}", worker.id, worker.host, worker.pid);
        let running = self.store.running(vec![worker.id]).await?;
        let spread = if running.len() > 1 { APART } else { Duration::ZERO };
        let mut rescued = 0;
        for some in running.chunks(ROWS_PER_COMMIT) {
            let mut rescues = Vec::with_capacity(some.len());
            for job in some {
                rescues.extend(self.rescue(job, &text, spread).await?);
            }
            rescued += rescues.len();
            // Another rescuer may have been quicker with some: then these are in good hands.
            let _settled = self.store.rescue(rescues, self.clock.now()).await?;
        }
        let left = running.len() - rescued;
        if left > 0 && !self.left.insert(worker.id) && rescued == 0 {
            return Ok(());
        }
        self.store.bury(vec![worker.id], self.clock.now()).await?;
        tracing::warn!(worker = %worker.id, host = worker.host, pid = worker.pid, how, jobs = rescued, "a worker was lost, its jobs are rescued");
        if left > 0 {
            tracing::warn!(worker = %worker.id, jobs = left, "last attempts of types that are not linked here were lost with a worker; a program that has them has to end these jobs");
        }
        Ok(())
    }

    /// How this job is rescued. `None`: that is left to others. Where the last attempt was lost, somebody may have to be
    /// told of the dead job, and only a process that has the type linked knows whom.
    async fn rescue(
        &self,
        job: &Running,
        text: &str,
        spread: Duration,
    ) -> Result<Option<Rescue>, StoreError> {
        let entry = Registry::linked().ok().and_then(|linked| linked.get(&job.job_type));
        if entry.is_none() && job.attempt >= job.max_attempts {
            return Ok(None);
        }
        let terms = Terms {
            attempt: job.attempt,
            max_attempts: job.max_attempts,
            backoff: job.backoff,
            policy: entry.map_or(BackoffPolicy::Unset, |entry| entry.backoff),
        };
        let now = self.clock.now();
        let (error, next) = match verdict(Ending::Lost(text.to_owned()), &terms, now, fastrand::f64()) {
            Verdict::Fail { error, next, .. } => (error, next),
            _ => return Ok(None),
        };
        let mut on_dead = None;
        let next = match next {
            Next::Dead => {
                let (id, job_type, attempt) = (job.id, &job.job_type, job.attempt);
                tracing::error!(%id, job_type, attempt, error, "the last attempt was lost with its worker; the job is dead");
                on_dead = self.on_dead(entry, id, &error).await?;
                Next::Dead
            }
            Next::At(at) if at > now => next,
            Next::At(_) | Next::AsBefore if job.attempt > 1 && !spread.is_zero() => {
                Next::At(now + millis(spread.mul_f64(fastrand::f64())))
            }
            next => next,
        };
        Ok(Some(Rescue { id: job.id, lease: job.lease, error, next, ties: job.ties, on_dead }))
    }

    /// The job that tells of this one's death, where its type wants that.
    async fn on_dead(
        &self,
        entry: Option<&JobEntry>,
        id: JobId,
        error: &str,
    ) -> Result<Option<Box<NewJob>>, StoreError> {
        let Some(entry) = entry.filter(|entry| entry.on_dead.is_some()) else { return Ok(None) };
        let Some(row) = self.store.get(id).await? else { return Ok(None) };
        Ok(following::on_dead(entry, self.max_attempts, || following::dying_row(row, error)))
    }
}

// ---- prune -------------------------------------------------------------------------------------------------

/// Deletes finished jobs that were kept long enough.
pub(crate) struct Prune {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) keep: Retention,
}

impl Sweep for Prune {
    const NAME: &'static str = "prune";

    fn round(&mut self) -> Round<'_> {
        Box::pin(async {
            self.clock.sleep(about(PRUNE_EVERY)).await;
            let pruned = self.store.prune(self.keep, self.clock.now()).await?;
            if pruned > 0 {
                tracing::info!(pruned, "old finished jobs were deleted");
            }
            Ok(())
        })
    }
}
