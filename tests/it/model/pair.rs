//! Two stores that are told the same and must say the same.

use super::{
    flows::number,
    op::{Act, Ended, Op, Pick, QUEUES, STEPS, Said, Spec, TYPES, WORKERS, Way},
};
use jobq::{
    FlowId,
    job::{Attempt, JobId, JobRow, Lease, LogLevel, NewJob, OutputLine, UniqueKey, Until, WorkerId},
    limit::{Bounds, Limit, Limited},
    state::StateSet,
    store::{
        Acted, Cancel, Claim, ClaimSet, Claimed, Completion, Enqueued, Failure, JobFilter, Landed, NewStep,
        NewWorker, Next, Note, Pause, Paused, Progress, Release, Rescue, Retention, Running, Snooze, Store,
        StoreError,
        memory::MemoryStore,
        sqlite::{Durability, SqliteOptions, SqliteStore},
    },
    time::Millis,
};
use std::{collections::HashMap, fmt::Debug, sync::Arc, time::Duration};

/// What an operation ends in: nothing, or how the two differ.
pub type Compared = Result<(), String>;

/// The store in memory, the model, and the one that is held against it.
pub struct Pair {
    pub(super) model: Side,
    pub(super) other: Side,
    pub(super) now: Millis,
    /// All jobs enqueued in this sequence: the model's id, then the other's.
    pub(super) jobs: Vec<(JobId, JobId)>,
    /// All flows laid in it, likewise.
    pub(super) flows: Vec<(FlowId, FlowId)>,
    _kept: tempfile::TempDir,
}

/// A row with its place and the number of its flow, which both sides share.
type NamedRow = (usize, Option<u128>, JobRow);

pub(super) struct Side {
    store: Arc<dyn Store>,
    workers: Vec<WorkerId>,
    /// From this side's ids to places in `Pair::jobs`.
    pub(super) places: HashMap<JobId, usize>,
}

impl Pair {
    pub async fn open() -> Self {
        let kept = tempfile::tempdir().unwrap();
        let options = SqliteOptions::new(kept.path().join("model.db")).durability(Durability::Process);
        let sqlite = SqliteStore::open(options).await.unwrap();
        let now = 1_767_225_600_000;
        Self {
            model: Side::new(Arc::new(MemoryStore::new()), now).await,
            other: Side::new(Arc::new(sqlite), now).await,
            now,
            jobs: Vec::new(),
            flows: Vec::new(),
            _kept: kept,
        }
    }

    /// Does one operation on both; `Err` tells how their answers differ.
    pub async fn apply(&mut self, op: &Op) -> Compared {
        let now = self.now;
        match op {
            Op::Wait(millis) => self.now += millis,
            Op::Enqueue(specs) => self.enqueue(specs).await?,
            Op::Promote(limit) => {
                let [model, other] = self.stores();
                alike(model.promote(*limit, now).await, other.promote(*limit, now).await)?;
            }
            Op::Claim { worker, types, queues, limit } => {
                let set = Arc::new(ClaimSet {
                    job_types: chosen(&TYPES, *types),
                    queues: queues.map(|bits| chosen(&QUEUES, bits)),
                });
                let claim = |side: &Side| Claim {
                    worker: side.workers[*worker],
                    set: set.clone(),
                    limit: *limit,
                    standing: false,
                };
                let model = self.model.store.claim(claim(&self.model), now).await;
                let other = self.other.store.claim(claim(&self.other), now).await;
                alike(self.model.claimed(model), self.other.claimed(other))?;
                let [model, other] = self.stores();
                alike(model.due(set.clone(), now).await, other.due(set, now).await)?;
            }
            Op::Settle(way, ended) => self.settle(*way, ended).await?,
            Op::Note(said) => self.note(said).await?,
            Op::Step(pick, lease, at) => {
                if let Some((model, other)) = self.pick(*pick).await {
                    let row = self.model.store.get(model).await.unwrap();
                    let lease = row.map_or(0, |row| row.lease) + lease;
                    let (name, result, most) = (STEPS[*at].into(), now.to_string(), STEPS.len() - 1);
                    let step = NewStep { id: model, lease, name, result, most };
                    let other_step = NewStep { id: other, ..step.clone() };
                    let [model, other] = self.stores();
                    alike(model.record_step(step, now).await, other.record_step(other_step, now).await)?;
                }
            }
            Op::Act(act, picks) => self.act(*act, picks).await?,
            Op::Pause(at, end) => {
                let ends_at = end.map(|end| now + end);
                let pause = Pause { what: lane(*at), paused_at: now, ends_at, by: None, note: None };
                let [model, other] = self.stores();
                alike(model.pause(pause.clone()).await, other.pause(pause).await)?;
                alike(model.pauses().await, other.pauses().await)?;
            }
            Op::Resume(at) => {
                let [model, other] = self.stores();
                alike(model.resume(lane(*at), now).await, other.resume(lane(*at), now).await)?;
            }
            Op::Limit(at, bounds) => {
                let [model, other] = self.stores();
                match bounds {
                    Some(bounds) => {
                        let limit = Limit { of: limited(*at), bounds: *bounds };
                        alike(model.set_limit(limit.clone(), now).await, other.set_limit(limit, now).await)?;
                    }
                    None => alike(
                        model.clear_limit(limited(*at), now).await,
                        other.clear_limit(limited(*at), now).await,
                    )?,
                }
                alike(model.limits(now).await, other.limits(now).await)?;
            }
            Op::Declare(at, bounds) => {
                let types = vec![(TYPES[*at].to_owned(), *bounds)];
                let [model, other] = self.stores();
                alike(
                    model.declare_limits(types.clone(), now).await,
                    other.declare_limits(types, now).await,
                )?;
            }
            Op::Prune { finished, dead } => {
                let [finished, dead] = [finished, dead].map(|kept| kept.map(Duration::from_millis));
                let keep = Retention { finished, dead };
                let [model, other] = self.stores();
                alike(model.prune(keep, now).await, other.prune(keep, now).await)?;
            }
            Op::List { state, job_type, queue, label, key, since, before, after, limit } => {
                let after = match after {
                    Some(pick) => self.pick(*pick).await,
                    None => None,
                };
                let filter = |after| JobFilter {
                    flow: None,
                    states: state.iter().copied().collect(),
                    job_type: job_type.map(|at| TYPES[at].into()),
                    queue: queue.map(|at| QUEUES[at].into()),
                    label: label.map(str::to_owned),
                    unique_key: key.map(|key| key.to_string()),
                    created_from: since.map(|since| now + since),
                    created_before: before.map(|before| now + before),
                    after,
                    limit: *limit,
                };
                self.list(filter(after.map(|ids| ids.0)), filter(after.map(|ids| ids.1))).await?;
            }
            Op::Flow(drawn) => self.lay_flow(drawn).await?,
            Op::Schedule(at, deed) => self.schedule(*at, *deed).await?,
            Op::Look(pick) => {
                if let Some(ids) = self.pick(*pick).await {
                    self.look(ids).await?;
                }
            }
        }
        Ok(())
    }

    /// Every row, history, list and count.
    pub async fn compare_everything(&self) -> Compared {
        for &ids in &self.jobs {
            self.look(ids).await?;
        }
        let everything = || JobFilter { limit: 1000, ..JobFilter::default() };
        self.list(everything(), everything()).await?;
        let [model, other] = self.stores();
        alike(model.counts().await, other.counts().await)?;
        alike(model.pauses().await, other.pauses().await)?;
        self.look_at_schedules().await?;
        self.look_at_flows().await?;
        alike(model.limits(self.now).await, other.limits(self.now).await)?;
        // A token that has come back is there for a claim, and for a look once it was promoted.
        alike(model.promote(1000, self.now).await, other.promote(1000, self.now).await)?;
        let set = Arc::new(ClaimSet { job_types: chosen(&TYPES, u8::MAX), queues: None });
        alike(model.due(set.clone(), self.now).await, other.due(set, self.now).await)?;
        let cancels = self.model.store.cancels().await;
        let others = self.other.store.cancels().await;
        alike(self.model.cancels(cancels), self.other.cancels(others))?;
        for worker in 0..WORKERS {
            let held = self.model.store.running(vec![self.model.workers[worker]]).await;
            let held_by_other = self.other.store.running(vec![self.other.workers[worker]]).await;
            alike(self.model.running(held), self.other.running(held_by_other))?;
        }
        Ok(())
    }

    /// Empties both for the next sequence.
    pub async fn clear(&mut self) -> Compared {
        let everything = |job| Ended {
            job: Pick::Any(job),
            lease: 0,
            outcome: jobq::job::AttemptOutcome::Failed,
            next: None,
            text: "cleared",
            brings: false,
        };
        // What ends may let others follow.
        while !self.model.store.counts().await.unwrap().is_empty() {
            let all: Vec<_> = (0..self.jobs.len()).map(Pick::Any).collect();
            self.act(Act::Cancel, &all).await?;
            self.settle(Way::Fail, &(0..self.jobs.len()).map(everything).collect::<Vec<_>>()).await?;
            self.act(Act::Delete, &all).await?;
        }
        self.delete_schedules().await?;
        let [model, other] = self.stores();
        for at in 0..QUEUES.len() + TYPES.len() {
            alike(model.resume(lane(at), self.now).await, other.resume(lane(at), self.now).await)?;
            let of = limited(at);
            alike(model.clear_limit(of.clone(), self.now).await, other.clear_limit(of, self.now).await)?;
        }
        alike(model.counts().await, other.counts().await)?;
        alike(model.counts().await, Ok(Vec::new()))?;
        let none: Vec<_> = TYPES.iter().map(|name| ((*name).to_owned(), Bounds::NONE)).collect();
        alike(
            model.declare_limits(none.clone(), self.now).await,
            other.declare_limits(none, self.now).await,
        )?;
        // Longer than any bucket takes to be full again.
        self.now += 10_000;
        self.jobs.clear();
        self.flows.clear();
        self.model.places.clear();
        self.other.places.clear();
        Ok(())
    }

    pub(super) fn stores(&self) -> [&dyn Store; 2] {
        [&*self.model.store, &*self.other.store]
    }

    async fn enqueue(&mut self, specs: &[Spec]) -> Compared {
        let jobs: Vec<_> = specs.iter().map(|spec| new_job(spec, self.jobs.len(), self.now)).collect();
        let [model, other] = self.stores();
        let (model, other) =
            (model.enqueue(jobs.clone(), self.now).await, other.enqueue(jobs, self.now).await);
        if let (Ok(model), Ok(other)) = (&model, &other) {
            let new = |(model, other): &(&Enqueued, &Enqueued)| model.is_new() && other.is_new();
            for (model, other) in
                model.iter().zip(other).filter(new).map(|(model, other)| (model.id, other.id))
            {
                self.place(model, other);
            }
        }
        let (model, other) = (self.model.enqueued(model), self.other.enqueued(other));
        if model == other { Ok(()) } else { Err(format!("memory: {model:?}\nsqlite: {other:?}")) }
    }

    /// Gives a job its place, unless it has one.
    pub(super) fn place(&mut self, model: JobId, other: JobId) {
        if !self.model.places.contains_key(&model) && !self.other.places.contains_key(&other) {
            self.model.places.insert(model, self.jobs.len());
            self.other.places.insert(other, self.jobs.len());
            self.jobs.push((model, other));
        }
    }

    /// The job's ids in both stores; `None` where there is none at all.
    async fn pick(&self, pick: Pick) -> Option<(JobId, JobId)> {
        let any = |place: usize| self.jobs.get(place.checked_rem(self.jobs.len())?).copied();
        match pick {
            Pick::Any(place) => any(place),
            Pick::Foreign(place) => any(place).map(|ids| (foreign(ids.0), foreign(ids.1))),
            Pick::Running(place) => {
                let held = self.model.store.running(self.model.workers.clone()).await.unwrap();
                match place.checked_rem(held.len()) {
                    Some(at) => self.jobs.get(self.model.places[&held[at].id]).copied(),
                    None => any(place),
                }
            }
        }
    }

    async fn settle(&mut self, way: Way, ended: &[Ended]) -> Compared {
        let mut batches: [Vec<(JobId, Lease, Ended)>; 2] = Default::default();
        for end in ended {
            let Some((model, other)) = self.pick(end.job).await else { continue };
            let row = self.model.store.get(model).await.unwrap();
            let (lease, spent) = row.map_or((0, false), |row| (row.lease, row.attempts >= row.max_attempts));
            // Whoever settles gives no further attempt to a job that has none left.
            let end = Ended { next: end.next.filter(|_| !spent), ..*end };
            batches[0].push((model, lease + end.lease, end));
            batches[1].push((other, lease + end.lease, end));
        }
        let [model, other] = batches;
        alike(
            settle(&*self.model.store, way, model, self.now).await,
            settle(&*self.other.store, way, other, self.now).await,
        )?;
        let follows = !self.flows.is_empty() || ended.iter().any(|end| end.brings);
        if follows { self.meet_the_new().await } else { Ok(()) }
    }

    /// Names the jobs that the stores have enqueued by themselves.
    pub(super) async fn meet_the_new(&mut self) -> Compared {
        let all = || JobFilter { limit: 1000, ..JobFilter::default() };
        let [model, other] = self.stores();
        let (model, other) = (model.list(all()).await.unwrap(), other.list(all()).await.unwrap());
        let unknown = |rows: Vec<JobRow>, side: &Side| -> Vec<JobId> {
            rows.iter().rev().map(|row| row.id).filter(|id| !side.places.contains_key(id)).collect()
        };
        let (model, other) = (unknown(model, &self.model), unknown(other, &self.other));
        alike(Ok(model.len()), Ok(other.len()))?;
        model.into_iter().zip(other).for_each(|(model, other)| self.place(model, other));
        Ok(())
    }

    async fn note(&self, said: &[Said]) -> Compared {
        let mut batches: [Vec<Note>; 2] = Default::default();
        for said in said {
            let Some((model, other)) = self.pick(said.job).await else { continue };
            let lease = self.model.store.get(model).await.unwrap().map_or(0, |row| row.lease) + said.lease;
            let (first, count) = said.lines;
            let line = |seq| OutputLine {
                lease,
                seq,
                at: self.now,
                level: LogLevel::ALL[said.text.len() % 5],
                text: said.text.into(),
            };
            let lines: Vec<_> = (first..first + count).map(line).collect();
            let progress = said.progress.map(|(done, total)| Progress { done, total });
            batches[0].push(Note { id: model, lease, progress, lines: lines.clone() });
            batches[1].push(Note { id: other, lease, progress, lines });
        }
        let [model, other] = batches;
        alike(self.model.store.note(model).await, self.other.store.note(other).await)
    }

    async fn act(&mut self, act: Act, picks: &[Pick]) -> Compared {
        let (mut models, mut others) = (Vec::new(), Vec::new());
        for pick in picks {
            if let Some((model, other)) = self.pick(*pick).await {
                models.push(model);
                others.push(other);
            }
        }
        let now = self.now;
        let done = async |store: &dyn Store, ids| match act {
            Act::Cancel => store.cancel(ids, now).await,
            Act::Retry => store.retry(ids, now).await,
            Act::RunNow => store.run_now(ids, now).await,
            Act::Delete => store.delete(ids, now).await,
        };
        let (model, other) = (done(&*self.model.store, models).await, done(&*self.other.store, others).await);
        alike(self.model.acted(model), self.other.acted(other))?;
        if self.flows.is_empty() { Ok(()) } else { self.meet_the_new().await }
    }

    async fn look(&self, (model, other): (JobId, JobId)) -> Compared {
        let row = self.model.store.get(model).await.map(|row| row.map(|row| self.model.row(row)));
        let other_row = self.other.store.get(other).await.map(|row| row.map(|row| self.other.row(row)));
        alike(row, other_row)?;
        let attempts = self.model.store.attempts(model).await;
        let other_attempts = self.other.store.attempts(other).await;
        alike(self.model.attempts(attempts), self.other.attempts(other_attempts))?;
        let [model_store, other_store] = self.stores();
        alike(model_store.output(model, None, 1000).await, other_store.output(other, None, 1000).await)?;
        alike(model_store.steps(model).await, other_store.steps(other).await)?;
        for name in STEPS {
            alike(model_store.step(model, name.into()).await, other_store.step(other, name.into()).await)?;
        }
        Ok(())
    }

    async fn list(&self, model: JobFilter, other: JobFilter) -> Compared {
        let rows = self.model.store.list(model).await;
        let other_rows = self.other.store.list(other).await;
        alike(self.model.rows(rows), self.other.rows(other_rows))
    }
}

impl Side {
    async fn new(store: Arc<dyn Store>, now: Millis) -> Self {
        let mut workers = Vec::new();
        for _ in 0..WORKERS {
            let worker = NewWorker { beat: Duration::from_secs(3600), queues: String::new() };
            workers.push(store.register(worker, now).await.unwrap());
        }
        Self { store, workers, places: HashMap::new() }
    }

    fn place(&self, id: JobId) -> usize {
        self.places.get(&id).copied().unwrap_or(usize::MAX)
    }

    fn worker(&self, id: Option<WorkerId>) -> Option<WorkerId> {
        id.map(|id| WorkerId(self.workers.iter().position(|known| *known == id).map_or(-1, |at| at as i64)))
    }

    /// The row with names that both sides share, and without the beats, which nobody compares.
    fn row(&self, row: JobRow) -> NamedRow {
        let worker = self.worker(row.worker);
        let flow = row.flow.map(number);
        (self.place(row.id), flow, JobRow { id: nameless(), worker, heartbeat_at: None, flow: None, ..row })
    }

    fn rows(&self, rows: Result<Vec<JobRow>, StoreError>) -> Result<Vec<NamedRow>, StoreError> {
        rows.map(|rows| rows.into_iter().map(|row| self.row(row)).collect())
    }

    fn attempts(&self, attempts: Result<Vec<Attempt>, StoreError>) -> Result<Vec<Attempt>, StoreError> {
        let named = |attempt: Attempt| Attempt { worker: self.worker(attempt.worker), ..attempt };
        attempts.map(|attempts| attempts.into_iter().map(named).collect())
    }

    /// What became of each job; or which one was refused, and for whose sake.
    fn enqueued(&self, answer: Result<Vec<Enqueued>, StoreError>) -> Result<Vec<(usize, Landed)>, String> {
        match answer {
            Ok(jobs) => Ok(jobs.into_iter().map(|job| (self.place(job.id), job.landed)).collect()),
            Err(StoreError::Duplicate { place, key, existing }) => {
                Err(format!("{place} {key} {:?}", existing.map(|id| self.place(id))))
            }
            Err(error) => panic!("{error}"),
        }
    }

    fn acted(&self, answers: Result<Vec<Acted>, StoreError>) -> Result<Vec<(Acted, usize)>, StoreError> {
        let named = |acted| match acted {
            Acted::KeyHeld(holder) => (Acted::KeyHeld(nameless()), self.place(holder)),
            acted => (acted, 0),
        };
        answers.map(|answers| answers.into_iter().map(named).collect())
    }

    fn claimed(&self, jobs: Result<Vec<Claimed>, StoreError>) -> Result<Vec<(usize, Claimed)>, StoreError> {
        let named = |job: Claimed| (self.place(job.id), Claimed { id: nameless(), ..job });
        jobs.map(|jobs| jobs.into_iter().map(named).collect())
    }

    fn cancels(&self, cancels: Result<Vec<Cancel>, StoreError>) -> Result<Vec<(usize, Cancel)>, StoreError> {
        let named = |wish: Cancel| (self.place(wish.id), Cancel { id: nameless(), ..wish });
        let mut cancels: Vec<_> = cancels?.into_iter().map(named).collect();
        cancels.sort();
        Ok(cancels)
    }

    fn running(&self, jobs: Result<Vec<Running>, StoreError>) -> Result<Vec<(usize, Running)>, StoreError> {
        let named = |job: Running| {
            let worker = self.worker(Some(job.worker)).unwrap();
            (self.place(job.id), Running { id: nameless(), worker, ..job })
        };
        let mut jobs: Vec<_> = jobs?.into_iter().map(named).collect();
        jobs.sort_by_key(|(place, _)| *place);
        Ok(jobs)
    }
}

/// An id that stands for none.
fn nameless() -> JobId {
    "00000000-0000-7000-8000-000000000000".parse().unwrap()
}

fn foreign(id: JobId) -> JobId {
    crate::laws::foreign(id)
}

pub(super) fn new_job(spec: &Spec, n: usize, now: Millis) -> NewJob {
    NewJob {
        queue: QUEUES[spec.queue].into(),
        priority: spec.priority,
        run_at: spec.delay.map(|delay| now + delay),
        max_attempts: spec.max_attempts,
        label: spec.label.map(str::to_owned),
        retain: spec.retain.map(Duration::from_millis),
        unique: spec.unique.map(|unique| {
            Box::new(UniqueKey {
                key: unique.key.to_string(),
                scope: if unique.global { String::new() } else { TYPES[spec.job_type].into() },
                states: Until::Started.states().and(StateSet::from_code(unique.states)),
                within: unique.within.map(Duration::from_millis),
                on_conflict: unique.on_conflict,
            })
        }),
        version: 1 + n as u32 % 3,
        concurrency_key: spec.concurrency_key.map(str::to_owned),
        ..NewJob::new(TYPES[spec.job_type], format!("[{n}]"))
    }
}

async fn settle(
    store: &dyn Store,
    way: Way,
    batch: Vec<(JobId, Lease, Ended)>,
    now: Millis,
) -> Result<Vec<jobq::store::Settled>, StoreError> {
    let next = |end: Ended| match end.next {
        Some(-1) => Next::AsBefore,
        Some(delay) => Next::At(now + delay),
        None => Next::Dead,
    };
    let batch = batch.into_iter();
    match way {
        Way::Complete => {
            let ended = |(id, lease, end): (_, _, Ended)| {
                let result = end.next.map(|delay| delay.to_string());
                Completion { id, lease, result, ties: jobq::store::Ties::ALL }
            };
            store.complete(batch.map(ended).collect(), now).await
        }
        Way::Fail => {
            let ended = |(id, lease, end): (_, _, Ended)| {
                let cancelled = end.outcome == jobq::job::AttemptOutcome::Cancelled;
                let next = if cancelled { Next::Cancelled } else { next(end) };
                Failure {
                    id,
                    lease,
                    outcome: end.outcome,
                    error: end.text.into(),
                    next,
                    ties: jobq::store::Ties::ALL,
                    on_dead: brought(&end),
                }
            };
            store.fail(batch.map(ended).collect(), now).await
        }
        Way::Snooze => {
            let ended = |(id, lease, end): (_, _, Ended)| Snooze {
                id,
                lease,
                run_at: now + end.next.unwrap_or(0),
                ties: jobq::store::Ties::ALL,
            };
            store.snooze(batch.map(ended).collect(), now).await
        }
        Way::Release => {
            store
                .release(
                    batch.map(|(id, lease, _)| Release { id, lease, ties: jobq::store::Ties::ALL }).collect(),
                    now,
                )
                .await
        }
        Way::Rescue => {
            let ended = |(id, lease, end): (_, _, Ended)| Rescue {
                id,
                lease,
                error: end.text.into(),
                next: next(end),
                ties: jobq::store::Ties::ALL,
                on_dead: brought(&end),
            };
            store.rescue(batch.map(ended).collect(), now).await
        }
    }
}

fn brought(end: &Ended) -> Option<Box<NewJob>> {
    end.brings.then(|| Box::new(NewJob::new(TYPES[0], format!("{:?}", end.text))))
}

/// What the n-th pause is of: queues, then types.
fn lane(at: usize) -> Paused {
    match QUEUES.get(at) {
        Some(queue) => Paused::Queue((*queue).into()),
        None => Paused::JobType(TYPES[at - QUEUES.len()].into()),
    }
}

/// The same for limits.
fn limited(at: usize) -> Limited {
    match lane(at) {
        Paused::Queue(name) => Limited::Queue(name),
        Paused::JobType(name) => Limited::JobType(name),
    }
}

fn chosen(names: &[&str], bits: u8) -> Vec<String> {
    (0..names.len()).filter(|at| bits & (1 << at) != 0).map(|at| names[at].to_owned()).collect()
}

/// Whether both answered, and alike.
pub(super) fn alike<T: PartialEq + Debug>(
    model: Result<T, StoreError>,
    other: Result<T, StoreError>,
) -> Compared {
    match (&model, &other) {
        (Ok(one), Ok(two)) if one == two => Ok(()),
        _ => differ(&model, &other),
    }
}

fn differ<T: Debug>(model: &Result<T, StoreError>, other: &Result<T, StoreError>) -> Compared {
    Err(format!("memory: {model:?}\nsqlite: {other:?}"))
}
