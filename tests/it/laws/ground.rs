//! Where a law is tried: one fresh store, with bystanders in every state that no law may touch.

use crate::Ids;
use jobq::{
    job::{
        Attempt, AttemptOutcome, JobId, JobRow, Lease, LogLevel, NewJob, OnConflict, OutputLine, UniqueKey,
        Until, WorkerId,
    },
    state::{Edge, JobState},
    store::{
        Acted, Claim, ClaimSet, Claimed, Completion, Failure, JobFilter, NewStep, NewWorker, Next, Note,
        Progress, Recorded, Release, Rescue, Settled, Snooze, Step, Store, StoreError,
        memory::MemoryStore,
        sqlite::{Durability, SqliteOptions, SqliteStore},
    },
    time::Millis,
};
use std::{future::Future, pin::Pin, sync::Arc, time::Duration};
use tokio::sync::watch;

/// The instant at which every law begins: 2026-01-01T00:00:00Z. All later times are given as `NOW + …` milliseconds.
pub const NOW: Millis = 1_767_225_600_000;
/// Later than any law goes.
pub const FAR: Millis = NOW + 1_000_000_000_000;
/// The job type of a law's own jobs; bystanders that can't be claimed share it.
pub const WORK: &str = "work";
/// The job type of bystanders that could be claimed.
pub const BYSTANDER: &str = "bystander";

/// A law at work, its reference to the ground kept.
pub type Trial<'a> = Pin<Box<dyn Future<Output = ()> + 'a>>;

/// A promised answer, but for a store that never gives it.
pub async fn soon<T>(answer: impl Future<Output = T>) -> T {
    let in_time = tokio::time::timeout(Duration::from_secs(30), answer).await;
    in_time.expect("the answer was not given within 30 s")
}

/// Waits until the store has given the cue to look again, after this.
pub async fn cue(changed: &mut watch::Receiver<u64>, what: &str) {
    let rose = tokio::time::timeout(Duration::from_secs(30), changed.changed()).await;
    rose.unwrap_or_else(|_| panic!("no cue after {what} within 30 s")).expect("the store is there");
    changed.borrow_and_update();
}

/// A store, and whatever must live as long as it does.
pub struct Opened {
    pub store: Arc<dyn Store>,
    pub kept: Option<tempfile::TempDir>,
}

/// The store in memory.
pub async fn memory() -> Opened {
    Opened { store: Arc::new(MemoryStore::new()), kept: None }
}

/// The store on SQLite, on a file of its own. No law is about power cuts, so none waits for the disk.
pub async fn sqlite() -> Opened {
    let kept = tempfile::tempdir().unwrap();
    let options = SqliteOptions::new(kept.path().join("laws.db")).durability(Durability::Process);
    Opened { store: Arc::new(SqliteStore::open(options).await.unwrap()), kept: Some(kept) }
}

/// Tries one law on a fresh store, and holds the bystanders against what they were before.
pub fn try_law(open: impl AsyncFnOnce() -> Opened, law: impl for<'a> FnOnce(&'a Ground) -> Trial<'a>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let ground = Ground::lay(open().await).await;
        let before = ground.bystanders().await;
        law(&ground).await;
        assert_eq!(ground.bystanders().await, before, "a bystander was touched");
    });
}

/// A store with bystanders, and short words for what laws do all the time.
pub struct Ground {
    pub store: Arc<dyn Store>,
    /// A worker that has signed in.
    pub worker: WorkerId,
    bystanders: Vec<JobId>,
    _kept: Option<tempfile::TempDir>,
}

impl Ground {
    async fn lay(opened: Opened) -> Self {
        let store = opened.store;
        let stranger = store.register(worker_named("bystanders"), NOW).await.unwrap();
        let worker = store.register(worker_named("laws"), NOW).await.unwrap();
        let mut ground = Self { store, worker: stranger, bystanders: Vec::new(), _kept: opened.kept };
        for state in JobState::ALL {
            let (id, lease) = ground.job_in(state, keepsake(state)).await;
            ground.bystanders.push(id);
            if state == JobState::Running {
                let said =
                    Note { progress: Some(Progress { done: 1, total: 3 }), ..note(id, lease, ["said"]) };
                assert_eq!(ground.store.note(vec![said]).await.unwrap(), [Settled::Applied]);
                let step = NewStep { id, lease, name: "step".into(), result: "1".into(), most: 9 };
                assert_eq!(ground.store.record_step(step, NOW).await.unwrap(), Recorded::Stored);
            }
        }
        ground.worker = worker;
        ground
    }

    async fn bystanders(&self) -> Vec<(JobRow, Vec<Attempt>, Vec<OutputLine>, Vec<Step>)> {
        let mut rows = Vec::new();
        for &id in &self.bystanders {
            // The holder's beats go on while a law is tried; they move nothing.
            let row = JobRow { heartbeat_at: None, ..self.row(id).await };
            let steps = self.store.steps(id).await.unwrap();
            rows.push((row, self.attempts(id).await, self.output(id).await, steps));
        }
        rows
    }

    /// Enqueues one job.
    pub async fn enqueue(&self, job: NewJob, now: Millis) -> JobId {
        self.enqueue_all(vec![job], now).await[0]
    }

    pub async fn enqueue_all(&self, jobs: Vec<NewJob>, now: Millis) -> Vec<JobId> {
        self.store.enqueue(jobs, now).await.unwrap().ids()
    }

    /// A pending job without peculiarities.
    pub async fn pending(&self) -> JobId {
        self.enqueue(work(), NOW).await
    }

    /// A job that was just claimed, at `NOW`.
    pub async fn running(&self) -> Claimed {
        let id = self.pending().await;
        self.claim_this(id, NOW).await
    }

    /// Claims until this job comes; laws use it where it is the next one, or the only one.
    pub async fn claim_this(&self, id: JobId, now: Millis) -> Claimed {
        let claimed = self.claim(1, now).await;
        assert_eq!(ids(&claimed), [id], "the job to be claimed");
        claimed.into_iter().next().unwrap()
    }

    /// Claims up to `limit` jobs of the type [`WORK`] from any queue.
    pub async fn claim(&self, limit: usize, now: Millis) -> Vec<Claimed> {
        self.claim_of(&[WORK], None, limit, now).await
    }

    pub async fn claim_of(
        &self,
        job_types: &[&str],
        queues: Option<&[&str]>,
        limit: usize,
        now: Millis,
    ) -> Vec<Claimed> {
        let claim = Claim { worker: self.worker, set: set(job_types, queues), limit, standing: false };
        self.store.claim(claim, now).await.unwrap()
    }

    pub async fn row(&self, id: JobId) -> JobRow {
        self.store.get(id).await.unwrap().unwrap_or_else(|| panic!("no job {id}"))
    }

    pub async fn rows(&self, ids: &[JobId]) -> Vec<JobRow> {
        let mut rows = Vec::new();
        for &id in ids {
            rows.push(self.row(id).await);
        }
        rows
    }

    pub async fn state(&self, id: JobId) -> JobState {
        self.row(id).await.state
    }

    pub async fn attempts(&self, id: JobId) -> Vec<Attempt> {
        self.store.attempts(id).await.unwrap()
    }

    /// All that a job wrote.
    pub async fn output(&self, id: JobId) -> Vec<OutputLine> {
        self.store.output(id, None, usize::MAX).await.unwrap()
    }

    /// Notes these lines, from the first place on.
    pub async fn note<'a>(
        &self,
        id: JobId,
        lease: Lease,
        lines: impl IntoIterator<Item = &'a str>,
    ) -> Settled {
        self.store.note(vec![note(id, lease, lines)]).await.unwrap()[0]
    }

    /// The rows of a list, bystanders left out.
    pub async fn listed(&self, filter: JobFilter) -> Vec<JobId> {
        let rows = self.store.list(filter).await.unwrap();
        rows.into_iter().map(|row| row.id).filter(|id| !self.is_bystander(*id)).collect()
    }

    pub fn is_bystander(&self, id: JobId) -> bool {
        self.bystanders.contains(&id)
    }

    /// How many bystanders there are.
    pub fn strangers(&self) -> usize {
        self.bystanders.len()
    }

    pub async fn complete(&self, id: JobId, lease: Lease, now: Millis) -> Settled {
        let ended =
            Completion { id, lease, result: Some(r#"{"sent":true}"#.into()), ties: jobq::store::Ties::ALL };
        self.store.complete(vec![ended], now).await.unwrap()[0]
    }

    pub async fn fail(&self, id: JobId, lease: Lease, next: Next, now: Millis) -> Settled {
        self.store.fail(vec![failure(id, lease, next)], now).await.unwrap()[0]
    }

    pub async fn snooze(&self, id: JobId, lease: Lease, run_at: Millis, now: Millis) -> Settled {
        self.store
            .snooze(vec![Snooze { id, lease, run_at, ties: jobq::store::Ties::ALL }], now)
            .await
            .unwrap()[0]
    }

    pub async fn release(&self, id: JobId, lease: Lease, now: Millis) -> Settled {
        self.store.release(vec![Release { id, lease, ties: jobq::store::Ties::ALL }], now).await.unwrap()[0]
    }

    pub async fn rescue(&self, id: JobId, lease: Lease, next: Next, now: Millis) -> Settled {
        let lost = Rescue {
            id,
            lease,
            error: "the worker was lost".into(),
            next,
            ties: jobq::store::Ties::ALL,
            on_dead: None,
        };
        self.store.rescue(vec![lost], now).await.unwrap()[0]
    }

    /// Takes a running job out of the way.
    pub async fn cancel_running(&self, id: JobId) {
        let lease = self.row(id).await.lease;
        assert_eq!(self.fail(id, lease, Next::Cancelled, NOW).await, Settled::Applied);
    }

    pub async fn cancel(&self, id: JobId, now: Millis) -> Acted {
        self.store.cancel(vec![id], now).await.unwrap()[0]
    }

    pub async fn retry(&self, id: JobId, now: Millis) -> Acted {
        self.store.retry(vec![id], now).await.unwrap()[0]
    }

    pub async fn run_now(&self, id: JobId, now: Millis) -> Acted {
        self.store.run_now(vec![id], now).await.unwrap()[0]
    }

    pub async fn delete(&self, id: JobId, now: Millis) -> Acted {
        self.store.delete(vec![id], now).await.unwrap()[0]
    }

    /// A job brought into this state at `NOW`, and the lease it was last held under. Nothing else may be claimable.
    pub async fn job_in(&self, state: JobState, job: NewJob) -> (JobId, Lease) {
        let job_type = job.job_type.clone();
        let id = self.enqueue(job, NOW).await;
        if matches!(state, JobState::Running | JobState::Completed | JobState::Dead) {
            let claimed = self.claim_of(&[&job_type], None, 1, NOW).await;
            assert_eq!(ids(&claimed), [id]);
        }
        let settled = match state {
            JobState::Scheduled | JobState::Pending | JobState::Running => Settled::Applied,
            JobState::Completed => self.complete(id, 1, NOW).await,
            JobState::Dead => self.fail(id, 1, Next::Dead, NOW).await,
            JobState::Cancelled => {
                assert_eq!(self.cancel(id, NOW).await, Acted::Done);
                Settled::Applied
            }
        };
        assert_eq!(settled, Settled::Applied);
        let row = self.row(id).await;
        assert_eq!(row.state, state, "the job that was to be brought into this state");
        (id, row.lease)
    }

    /// Tries one edge on one job; whether it was taken, and that a refusal gives its reason.
    pub async fn take(&self, edge: Edge, id: JobId, lease: Lease, now: Millis) -> bool {
        let before = self.row(id).await.state;
        let settled = |settled| match settled {
            Settled::Applied => true,
            Settled::LeaseLost => false,
            Settled::Gone => panic!("{edge:?}: the job is there"),
        };
        let acted = |acted| match acted {
            // Of a running job it is to be, as soon as its attempt has ended.
            Acted::Done | Acted::Asked => true,
            Acted::WrongState(state) => {
                assert_eq!(state, before, "{edge:?} names the state it found");
                false
            }
            Acted::NotFound => panic!("{edge:?}: the job is there"),
            Acted::KeyHeld(other) => panic!("{edge:?}: {other} has no business with it"),
        };
        match edge {
            Edge::Promote => self.store.promote(1000, now).await.unwrap() == 1,
            Edge::Claim => ids(&self.claim(1000, now).await) == [id],
            Edge::Complete => settled(self.complete(id, lease, now).await),
            Edge::Fail => settled(self.fail(id, lease, Next::At(now), now).await),
            Edge::Snooze => settled(self.snooze(id, lease, now + 1, now).await),
            Edge::Release => settled(self.release(id, lease, now).await),
            Edge::Rescue => settled(self.rescue(id, lease, Next::At(now), now).await),
            Edge::Cancel => acted(self.cancel(id, now).await),
            Edge::Retry => acted(self.retry(id, now).await),
            Edge::RunNow => acted(self.run_now(id, now).await),
            Edge::Delete => acted(self.delete(id, now).await),
        }
    }
}

/// A job of the laws' own type.
pub fn work() -> NewJob {
    NewJob::new(WORK, r#"{"n":1}"#)
}

/// A job of this type.
pub fn of_type(job_type: &str) -> NewJob {
    NewJob { job_type: job_type.to_owned().into(), ..work() }
}

/// A job of the laws' own type in this queue.
pub fn in_queue(queue: &str) -> NewJob {
    NewJob { queue: queue.to_owned().into(), ..work() }
}

/// A job of the laws' own type that is due then.
pub fn due_at(run_at: Millis) -> NewJob {
    NewJob { run_at: Some(run_at), ..work() }
}

/// A bystander for this state: never due, never pruned, and not claimed as [`WORK`]; in other things like the laws' jobs.
fn keepsake(state: JobState) -> NewJob {
    let claimable = matches!(state, JobState::Scheduled | JobState::Pending);
    NewJob {
        label: Some(format!("bystander, {state}")),
        run_at: (state == JobState::Scheduled).then_some(FAR),
        retain: Some(Duration::from_millis((FAR - NOW) as u64)),
        unique: Some(Box::new(UniqueKey {
            key: state.to_string(),
            scope: BYSTANDER.into(),
            states: Until::Deleted.states(),
            within: Some(Duration::from_millis((FAR - NOW) as u64)),
            on_conflict: OnConflict::Keep,
        })),
        ..of_type(if claimable { BYSTANDER } else { WORK })
    }
}

pub fn failure(id: JobId, lease: Lease, next: Next) -> Failure {
    Failure {
        id,
        lease,
        outcome: AttemptOutcome::Failed,
        error: "no such host".into(),
        next,
        ties: jobq::store::Ties::ALL,
        on_dead: None,
    }
}

/// What a job says of itself: these lines, at `NOW`.
pub fn note<'a>(id: JobId, lease: Lease, lines: impl IntoIterator<Item = &'a str>) -> Note {
    let line = |(seq, text): (i64, &str)| OutputLine {
        lease,
        seq,
        at: NOW + seq,
        level: LogLevel::Info,
        text: text.into(),
    };
    Note { id, lease, progress: None, lines: (0..).zip(lines).map(line).collect() }
}

pub fn set(job_types: &[&str], queues: Option<&[&str]>) -> Arc<ClaimSet> {
    let owned = |names: &[&str]| names.iter().map(|name| name.to_string()).collect::<Vec<_>>();
    Arc::new(ClaimSet { job_types: owned(job_types), queues: queues.map(owned) })
}

pub fn worker_named(queues: &str) -> NewWorker {
    NewWorker { beat: Duration::from_secs(3600), queues: queues.into() }
}

pub fn ids(claimed: &[Claimed]) -> Vec<JobId> {
    claimed.iter().map(|job| job.id).collect()
}

/// An id that this store never gave: another store's tag on the same row.
pub fn foreign(id: JobId) -> JobId {
    other_digit(id, 35)
}

/// The same row and tag with another creation time: a row number that was guessed.
pub fn guessed(id: JobId) -> JobId {
    other_digit(id, 12)
}

fn other_digit(id: JobId, place: usize) -> JobId {
    let mut text = id.to_string();
    let other = if text.as_bytes()[place] == b'0' { "1" } else { "0" };
    text.replace_range(place..=place, other);
    text.parse().unwrap()
}

pub fn is_invalid<T>(answer: Result<T, StoreError>) -> bool {
    matches!(answer, Err(StoreError::Invalid(_)))
}
