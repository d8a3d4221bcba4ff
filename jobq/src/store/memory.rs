//! The model store: everything in memory, every rule in plain sight.
//!
//! It is what the other stores are measured against (the laws and the model test run both), and the store of tests
//! that need no file. Nothing outlives the process.

use crate::store::{
    DueSchedules, NewSchedule, ScheduleRow, Tick, TickRow, Ticked, admit_schedule, admit_tick,
};
use crate::{
    job::{Attempt, FlowId, JobId, JobRow, Lease, NewJob, OutputLine, WorkerId},
    limit::{Bounds, Limit, Limited},
    store::{
        Acted, Answer, Attention, Cancel, Claim, ClaimSet, Claimed, Completion, Count, Due, Enqueued,
        Failure, FlowRow, JobFilter, LaidFlow, Life, LimitRow, NewFlow, NewStep, NewWorker, Note, Outcome,
        Pause, Paused, PayloadPage, Promise, Promised, Recorded, Release, Rescue, Retention, Running,
        Settled, Snooze, Step, Store, StoreError, Subscribed, Tx, WorkerRow, admit, admit_brought,
        admit_declared, admit_flow, admit_limit, admit_pause, steps::admit_step,
    },
    time::Millis,
};
use std::{
    future::{Future, ready},
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll},
};
use tables::Tables;
use tokio::sync::{oneshot, watch};

mod flows;
mod limits;
mod schedules;
mod tables;

/// A store in memory. Clones share one content.
///
/// Every method does its work when it is called, not when its answer is awaited. Rows are numbered as they come, and
/// that number is the last part of every order, so that a stepped wall clock reorders nothing.
#[derive(Clone)]
pub struct MemoryStore(Arc<Shared>);

struct Shared {
    tables: Mutex<Tables>,
    changed: watch::Sender<u64>,
}

impl MemoryStore {
    /// An empty store.
    pub fn new() -> Self {
        Self(Arc::new(Shared { tables: Mutex::new(Tables::new()), changed: watch::Sender::new(0) }))
    }

    /// For tests: from here on [`workers`](Store::workers) says that this worker's process is gone.
    pub fn kill(&self, worker: WorkerId) {
        self.set_life(worker, Life::Gone);
    }

    /// For tests: what [`workers`](Store::workers) says of this worker's process. A worker that signs in is
    /// [`Life::Alive`], since it shares the process.
    pub fn set_life(&self, worker: WorkerId, life: Life) {
        if let Some(row) = self.0.lock().workers.get_mut(&worker) {
            row.life = life;
        }
    }

    /// For tests: one beat. Nothing beats by itself in memory.
    pub fn beat(&self, worker: WorkerId, now: Millis) {
        self.0.lock().beat(worker, now);
    }

    fn write<T: Send + 'static>(&self, now: Millis, change: impl FnOnce(&mut Tables) -> T) -> Answer<'_, T> {
        let answer = self.0.commit(now, change);
        Box::pin(ready(Ok(answer)))
    }

    fn read<T: Send + 'static>(&self, look: impl FnOnce(&Tables) -> T) -> Answer<'_, T> {
        let answer = look(&self.0.lock());
        Box::pin(ready(Ok(answer)))
    }
}

impl Default for MemoryStore {
    fn default() -> Self {
        Self::new()
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Tables> {
        self.tables.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One commit: the change, then what it makes possible for standing claims, then the cue for those who watch.
    fn commit<T>(&self, now: Millis, change: impl FnOnce(&mut Tables) -> T) -> T {
        let mut tables = self.lock();
        let answer = change(&mut tables);
        tables.serve_standing(now);
        let moves = tables.moves;
        self.changed.send_if_modified(|seen| std::mem::replace(seen, moves) != moves);
        answer
    }
}

/// The answer of a claim. Dropped before it was taken, it gives back what it holds: no job waits for a caller that is gone.
struct Claiming {
    store: Arc<Shared>,
    answer: oneshot::Receiver<Vec<Claimed>>,
    now: Millis,
}

impl Future for Claiming {
    type Output = Result<Vec<Claimed>, StoreError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.answer).poll(cx).map_err(|_| StoreError::Closed)
    }
}

impl Drop for Claiming {
    fn drop(&mut self) {
        self.answer.close();
        if let Ok(undelivered) = self.answer.try_recv() {
            self.store.commit(self.now, |tables| tables.give_back(&undelivered));
        }
    }
}

impl Store for MemoryStore {
    fn enqueue(&self, jobs: Vec<NewJob>, now: Millis) -> Answer<'_, Vec<Enqueued>> {
        if let Err(refusal) = admit(&jobs) {
            return Box::pin(ready(Err(refusal)));
        }
        let answer = self.0.commit(now, |tables| tables.enqueue(jobs, now));
        Box::pin(ready(answer))
    }

    fn enqueue_in<'a>(&'a self, _: Tx<'a>, _: Vec<NewJob>, _: Millis) -> Answer<'a, Vec<Enqueued>> {
        Box::pin(ready(Err(StoreError::NoTransactions)))
    }

    fn enqueue_flow(&self, mut flow: NewFlow, now: Millis) -> Answer<'_, LaidFlow> {
        if let Err(refusal) = admit_flow(&mut flow) {
            return Box::pin(ready(Err(refusal)));
        }
        self.write(now, |tables| {
            let (row, jobs) = tables.lay_flow(flow, now);
            LaidFlow { id: FlowId::compose(row, tables.tag), jobs }
        })
    }

    fn enqueue_flow_in<'a>(&'a self, _: Tx<'a>, _: NewFlow, _: Millis) -> Answer<'a, LaidFlow> {
        Box::pin(ready(Err(StoreError::NoTransactions)))
    }

    fn flow(&self, id: FlowId) -> Answer<'_, Option<FlowRow>> {
        self.read(|tables| tables.flow_row(id))
    }

    fn promote(&self, limit: usize, now: Millis) -> Answer<'_, usize> {
        self.write(now, |tables| tables.promote(limit, now))
    }

    fn claim(&self, claim: Claim, now: Millis) -> Answer<'_, Vec<Claimed>> {
        let (answer, receiver) = oneshot::channel();
        self.0.commit(now, |tables| tables.answer(claim, answer, now));
        Box::pin(Claiming { store: self.0.clone(), answer: receiver, now })
    }

    fn withdraw(&self, worker: WorkerId) {
        self.0.lock().withdraw(worker);
    }

    fn complete(&self, ended: Vec<Completion>, now: Millis) -> Answer<'_, Vec<Settled>> {
        self.write(now, |tables| ended.into_iter().map(|ended| tables.complete(ended, now)).collect())
    }

    fn complete_in<'a>(&'a self, _: Tx<'a>, _: Completion) -> Answer<'a, Promised> {
        Box::pin(ready(Err(StoreError::NoTransactions)))
    }

    fn promised(&self, _: JobId, _: Lease) -> Answer<'_, Option<Promise>> {
        Box::pin(ready(Ok(None)))
    }

    fn fail(&self, ended: Vec<Failure>, now: Millis) -> Answer<'_, Vec<Settled>> {
        if let Err(refusal) = admit_brought(ended.iter().filter_map(|end| end.on_dead.as_deref())) {
            return Box::pin(ready(Err(refusal)));
        }
        self.write(now, |tables| ended.into_iter().map(|ended| tables.fail(ended, now)).collect())
    }

    fn snooze(&self, ended: Vec<Snooze>, now: Millis) -> Answer<'_, Vec<Settled>> {
        self.write(now, |tables| ended.into_iter().map(|ended| tables.snooze(ended, now)).collect())
    }

    fn release(&self, ended: Vec<Release>, now: Millis) -> Answer<'_, Vec<Settled>> {
        self.write(now, |tables| ended.into_iter().map(|ended| tables.release(ended, now)).collect())
    }

    fn rescue(&self, ended: Vec<Rescue>, now: Millis) -> Answer<'_, Vec<Settled>> {
        if let Err(refusal) = admit_brought(ended.iter().filter_map(|end| end.on_dead.as_deref())) {
            return Box::pin(ready(Err(refusal)));
        }
        self.write(now, |tables| ended.into_iter().map(|ended| tables.rescue(ended, now)).collect())
    }

    fn note(&self, notes: Vec<Note>) -> Answer<'_, Vec<Settled>> {
        let mut tables = self.0.lock();
        let settled = notes.into_iter().map(|note| tables.note(note)).collect();
        Box::pin(ready(Ok(settled)))
    }

    fn record_step(&self, step: NewStep, now: Millis) -> Answer<'_, Recorded> {
        let recorded = admit_step(&step).map(|()| self.0.lock().record_step(step, now));
        Box::pin(ready(recorded))
    }

    fn cancel(&self, ids: Vec<JobId>, now: Millis) -> Answer<'_, Vec<Acted>> {
        self.write(now, |tables| ids.into_iter().map(|id| tables.cancel(id, now)).collect())
    }

    fn retry(&self, ids: Vec<JobId>, now: Millis) -> Answer<'_, Vec<Acted>> {
        self.write(now, |tables| ids.into_iter().map(|id| tables.retry(id, now)).collect())
    }

    fn run_now(&self, ids: Vec<JobId>, now: Millis) -> Answer<'_, Vec<Acted>> {
        self.write(now, |tables| ids.into_iter().map(|id| tables.run_now(id, now)).collect())
    }

    fn delete(&self, ids: Vec<JobId>, now: Millis) -> Answer<'_, Vec<Acted>> {
        self.write(now, |tables| ids.into_iter().map(|id| tables.delete(id)).collect())
    }

    fn prune(&self, keep: Retention, now: Millis) -> Answer<'_, usize> {
        self.write(now, |tables| tables.prune(keep, now))
    }

    fn pause(&self, pause: Pause) -> Answer<'_, ()> {
        if let Err(refusal) = admit_pause(&pause) {
            return Box::pin(ready(Err(refusal)));
        }
        self.write(pause.paused_at, |tables| tables.pause(pause))
    }

    fn resume(&self, what: Paused, now: Millis) -> Answer<'_, bool> {
        self.write(now, move |tables| tables.resume(&what))
    }

    fn pauses(&self) -> Answer<'_, Vec<Pause>> {
        self.read(Tables::pauses)
    }

    fn payloads(&self, after: i64) -> Answer<'_, PayloadPage> {
        self.read(|tables| tables.payloads(after))
    }

    fn subscribe(&self, program: String, follows: Vec<(String, String)>, now: Millis) -> Answer<'_, ()> {
        self.write(now, |tables| tables.subscribe(program, follows, now))
    }

    fn subscriptions(&self) -> Answer<'_, Vec<Subscribed>> {
        self.read(Tables::subscriptions)
    }

    fn put_schedule(&self, schedule: NewSchedule, now: Millis) -> Answer<'_, bool> {
        if let Err(refusal) = admit_schedule(&schedule) {
            return Box::pin(ready(Err(refusal)));
        }
        self.write(now, |tables| tables.put_schedule(schedule, now))
    }

    fn tick(&self, tick: Tick, now: Millis) -> Answer<'_, Ticked> {
        if let Err(refusal) = admit_tick(&tick) {
            return Box::pin(ready(Err(refusal)));
        }
        self.write(now, |tables| tables.tick(tick, now))
    }

    fn enable_schedule(&self, id: String, next: Millis, now: Millis) -> Answer<'_, bool> {
        self.write(now, move |tables| tables.enable_schedule(&id, next, now))
    }

    fn disable_schedule(&self, id: String, now: Millis) -> Answer<'_, bool> {
        self.write(now, move |tables| tables.disable_schedule(&id, now))
    }

    fn delete_schedule(&self, id: String, now: Millis) -> Answer<'_, bool> {
        self.write(now, move |tables| tables.delete_schedule(&id))
    }

    fn blame_schedule(&self, id: String, error: String, now: Millis) -> Answer<'_, ()> {
        self.write(now, move |tables| tables.blame_schedule(&id, error, now))
    }

    fn due_schedules(&self, now: Millis) -> Answer<'_, DueSchedules> {
        self.read(|tables| tables.due_schedules(now))
    }

    fn schedules(&self, id: Option<String>) -> Answer<'_, Vec<ScheduleRow>> {
        self.read(|tables| tables.schedules(id.as_deref()))
    }

    fn ticks(&self, id: String) -> Answer<'_, Vec<TickRow>> {
        self.read(|tables| tables.ticks(&id))
    }

    fn set_limit(&self, limit: Limit, now: Millis) -> Answer<'_, ()> {
        if let Err(refusal) = admit_limit(&limit.of, &limit.bounds) {
            return Box::pin(ready(Err(refusal)));
        }
        self.write(now, |tables| {
            tables.limits.set(limit);
            tables.moves += 1;
        })
    }

    fn clear_limit(&self, of: Limited, now: Millis) -> Answer<'_, bool> {
        self.write(now, move |tables| {
            let there = tables.limits.clear(&of);
            tables.moves += u64::from(there);
            there
        })
    }

    fn declare_limits(&self, types: Vec<(String, Bounds)>, now: Millis) -> Answer<'_, ()> {
        if let Err(refusal) = admit_declared(&types) {
            return Box::pin(ready(Err(refusal)));
        }
        self.write(now, |tables| {
            tables.limits.declare(types);
            tables.moves += 1;
        })
    }

    fn limits(&self, now: Millis) -> Answer<'_, Vec<LimitRow>> {
        self.read(|tables| tables.limits(now))
    }

    fn get(&self, id: JobId) -> Answer<'_, Option<JobRow>> {
        self.read(|tables| tables.get(id))
    }

    fn outcomes(&self, ids: Vec<JobId>) -> Answer<'_, Vec<Option<Outcome>>> {
        self.read(|tables| ids.into_iter().map(|id| tables.outcome(id)).collect())
    }

    fn attempts(&self, id: JobId) -> Answer<'_, Vec<Attempt>> {
        self.read(|tables| tables.attempts(id))
    }

    fn output(&self, id: JobId, after: Option<(Lease, i64)>, limit: usize) -> Answer<'_, Vec<OutputLine>> {
        self.read(|tables| tables.output(id, after, limit))
    }

    fn step(&self, id: JobId, name: String) -> Answer<'_, Option<String>> {
        self.read(|tables| tables.step(id, &name))
    }

    fn steps(&self, id: JobId) -> Answer<'_, Vec<Step>> {
        self.read(|tables| tables.steps(id))
    }

    fn list(&self, filter: JobFilter) -> Answer<'_, Vec<JobRow>> {
        self.read(|tables| tables.list(&filter))
    }

    fn counts(&self) -> Answer<'_, Vec<Count>> {
        self.read(Tables::counts)
    }

    fn due(&self, set: Arc<ClaimSet>, now: Millis) -> Answer<'_, Due> {
        self.read(|tables| tables.due(&set, now))
    }

    fn cancels(&self) -> Answer<'_, Vec<Cancel>> {
        self.read(Tables::cancels)
    }

    fn running(&self, workers: Vec<WorkerId>) -> Answer<'_, Vec<Running>> {
        self.read(|tables| tables.running(&workers))
    }

    fn register(&self, worker: NewWorker, now: Millis) -> Answer<'_, WorkerId> {
        self.write(now, |tables| tables.register(worker, now))
    }

    fn unregister(&self, worker: WorkerId) {
        let mut tables = self.0.lock();
        tables.sign_out(worker);
        tables.withdraw(worker);
    }

    fn workers(&self) -> Answer<'_, Vec<WorkerRow>> {
        self.read(Tables::workers)
    }

    fn bury(&self, workers: Vec<WorkerId>, now: Millis) -> Answer<'_, ()> {
        self.write(now, |tables| workers.iter().for_each(|worker| tables.sign_out(*worker)))
    }

    fn changed(&self) -> watch::Receiver<u64> {
        self.0.changed.subscribe()
    }

    /// Nobody else commits here.
    fn attend(&self) -> Attention {
        Attention::new(())
    }

    fn describe(&self) -> String {
        format!("a store in the memory of process {}; nothing outlives it", std::process::id())
    }
}
