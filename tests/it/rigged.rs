//! A store in memory that fails on demand and tells what it was asked, for the tests of queue and worker.

use jobq::{
    JobFilter, JobRow, MemoryStore, OutputLine, StoreError, WorkerId,
    job::{Attempt, JobId, NewJob},
    store::*,
};
use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};
use tokio::sync::{Notify, watch};

/// A store in memory whose methods can be made to fail, to hang or to panic, each by its name.
#[derive(Clone)]
pub struct Rigged {
    inner: MemoryStore,
    faults: Arc<Mutex<HashMap<&'static str, Fault>>>,
    forgets: Arc<AtomicBool>,
    withdrawn: Arc<Notify>,
    calls: Arc<Mutex<HashMap<&'static str, usize>>>,
    noted: Arc<Mutex<HashMap<JobId, usize>>>,
    enqueued: Arc<Mutex<Vec<usize>>>,
}

#[derive(Clone)]
pub enum Fault {
    /// Nothing is written, and this is the answer, to every call after so many.
    Fails(StoreError, usize),
    /// There is no answer, and nothing is written, until it is healed.
    Hangs(Arc<Healing>),
    /// A fault of the program.
    Panics,
}

#[derive(Default)]
pub struct Healing {
    healed: AtomicBool,
    cue: Notify,
}

pub fn busy() -> StoreError {
    StoreError::Busy { waited: Duration::from_secs(5), holder: "the test".into() }
}

impl Rigged {
    pub fn over(inner: MemoryStore) -> Self {
        let (forgets, withdrawn, noted, enqueued) = Default::default();
        Self { inner, faults: Arc::default(), forgets, withdrawn, calls: Arc::default(), noted, enqueued }
    }

    /// How many jobs each call of `enqueue` brought.
    pub fn enqueued(&self) -> Vec<usize> {
        self.enqueued.lock().unwrap().clone()
    }

    /// How many notes were written of each job.
    pub fn noted(&self) -> HashMap<JobId, usize> {
        self.noted.lock().unwrap().clone()
    }

    /// The next claim is not served, whatever work comes; it is answered when it is withdrawn.
    pub fn forget_the_next_claim(&self) {
        self.forgets.store(true, Ordering::SeqCst);
    }

    /// Whether such a claim is standing, or has been.
    pub fn has_forgotten(&self) -> bool {
        !self.forgets.load(Ordering::SeqCst)
    }

    /// How often this method was called.
    pub fn calls(&self, method: &str) -> usize {
        self.calls.lock().unwrap().get(method).copied().unwrap_or(0)
    }

    pub fn fail(&self, method: &'static str, error: StoreError) {
        self.fail_after(0, method, error);
    }

    /// So many calls of this method succeed, then none.
    pub fn fail_after(&self, calls: usize, method: &'static str, error: StoreError) {
        self.faults.lock().unwrap().insert(method, Fault::Fails(error, calls));
    }

    pub fn hang(&self, method: &'static str) {
        self.faults.lock().unwrap().insert(method, Fault::Hangs(Arc::default()));
    }

    pub fn panic(&self, method: &'static str) {
        self.faults.lock().unwrap().insert(method, Fault::Panics);
    }

    pub fn heal(&self) {
        for fault in std::mem::take(&mut *self.faults.lock().unwrap()).into_values() {
            if let Fault::Hangs(healing) = fault {
                healing.healed.store(true, Ordering::SeqCst);
                healing.cue.notify_waiters();
            }
        }
    }

    /// One method works again.
    pub fn heal_one(&self, method: &str) {
        self.faults.lock().unwrap().remove(method);
    }

    fn call<'a, T: Send + 'a>(
        &'a self,
        method: &'static str,
        work: impl FnOnce(&'a MemoryStore) -> Answer<'a, T> + Send + 'a,
    ) -> Answer<'a, T> {
        let calls = {
            let mut calls = self.calls.lock().unwrap();
            let calls = calls.entry(method).or_default();
            *calls += 1;
            *calls
        };
        let fault = self.faults.lock().unwrap().get(method).cloned();
        match fault {
            None => work(&self.inner),
            Some(Fault::Fails(_, after)) if calls <= after => work(&self.inner),
            Some(Fault::Fails(error, _)) => Box::pin(async { Err(error) }),
            Some(Fault::Panics) => panic!("{method} panics for the test"),
            Some(Fault::Hangs(healing)) => Box::pin(async move {
                loop {
                    let cue = healing.cue.notified();
                    if healing.healed.load(Ordering::SeqCst) {
                        return work(&self.inner).await;
                    }
                    cue.await;
                }
            }),
        }
    }
}

macro_rules! rig {
    ($($method:ident($($name:ident: $kind:ty),*) -> $output:ty;)*) => {
        impl Store for Rigged {
            $(fn $method(&self, $($name: $kind),*) -> Answer<'_, $output> {
                self.call(stringify!($method), move |inner| inner.$method($($name),*))
            })*

            fn enqueue_in<'a>(&'a self, tx: Tx<'a>, jobs: Vec<NewJob>, now: i64) -> Answer<'a, Vec<Enqueued>> {
                self.inner.enqueue_in(tx, jobs, now)
            }

            fn enqueue_flow_in<'a>(&'a self, tx: Tx<'a>, flow: NewFlow, now: i64) -> Answer<'a, LaidFlow> {
                self.inner.enqueue_flow_in(tx, flow, now)
            }

            fn enqueue(&self, jobs: Vec<NewJob>, now: i64) -> Answer<'_, Vec<Enqueued>> {
                self.enqueued.lock().unwrap().push(jobs.len());
                self.call("enqueue", move |inner| inner.enqueue(jobs, now))
            }

            fn note(&self, notes: Vec<Note>) -> Answer<'_, Vec<Settled>> {
                let ids: Vec<JobId> = notes.iter().map(|note| note.id).collect();
                self.call("note", move |inner| {
                    ids.into_iter().for_each(|id| *self.noted.lock().unwrap().entry(id).or_default() += 1);
                    inner.note(notes)
                })
            }

            fn complete_in<'a>(&'a self, tx: Tx<'a>, ended: Completion) -> Answer<'a, Promised> {
                self.inner.complete_in(tx, ended)
            }

            fn claim(&self, claim: Claim, now: i64) -> Answer<'_, Vec<Claimed>> {
                if self.forgets.swap(false, Ordering::SeqCst) {
                    return Box::pin(async {
                        self.withdrawn.notified().await;
                        Ok(Vec::new())
                    });
                }
                self.call("claim", move |inner| inner.claim(claim, now))
            }

            fn withdraw(&self, worker: WorkerId) {
                self.withdrawn.notify_waiters();
                self.inner.withdraw(worker);
            }

            fn unregister(&self, worker: WorkerId) {
                self.inner.unregister(worker);
            }

            fn changed(&self) -> watch::Receiver<u64> {
                self.inner.changed()
            }

            fn attend(&self) -> Attention {
                self.inner.attend()
            }

            fn describe(&self) -> String {
                self.inner.describe()
            }
        }
    };
}
rig! {
    promote(limit: usize, now: i64) -> usize;
    complete(ended: Vec<Completion>, now: i64) -> Vec<Settled>;
    fail(ended: Vec<Failure>, now: i64) -> Vec<Settled>;
    snooze(ended: Vec<Snooze>, now: i64) -> Vec<Settled>;
    release(ended: Vec<Release>, now: i64) -> Vec<Settled>;
    rescue(ended: Vec<Rescue>, now: i64) -> Vec<Settled>;
    cancel(ids: Vec<JobId>, now: i64) -> Vec<Acted>;
    retry(ids: Vec<JobId>, now: i64) -> Vec<Acted>;
    run_now(ids: Vec<JobId>, now: i64) -> Vec<Acted>;
    delete(ids: Vec<JobId>, now: i64) -> Vec<Acted>;
    prune(keep: Retention, now: i64) -> usize;
    pause(pause: Pause) -> ();
    resume(what: Paused, now: i64) -> bool;
    put_schedule(schedule: NewSchedule, now: i64) -> bool;
    tick(tick: Tick, now: i64) -> Ticked;
    enable_schedule(id: String, next: i64, now: i64) -> bool;
    disable_schedule(id: String, now: i64) -> bool;
    delete_schedule(id: String, now: i64) -> bool;
    blame_schedule(id: String, error: String, now: i64) -> ();
    due_schedules(now: i64) -> DueSchedules;
    schedules(id: Option<String>) -> Vec<ScheduleRow>;
    ticks(id: String) -> Vec<TickRow>;
    pauses() -> Vec<Pause>;
    subscribe(program: String, follows: Vec<(String, String)>, now: i64) -> ();
    subscriptions() -> Vec<Subscribed>;
    payloads(after: i64) -> PayloadPage;
    enqueue_flow(flow: NewFlow, now: i64) -> LaidFlow;
    flow(id: jobq::FlowId) -> Option<FlowRow>;
    set_limit(limit: jobq::limit::Limit, now: i64) -> ();
    clear_limit(of: jobq::limit::Limited, now: i64) -> bool;
    declare_limits(types: Vec<(String, jobq::limit::Bounds)>, now: i64) -> ();
    limits(now: i64) -> Vec<LimitRow>;
    record_step(step: NewStep, now: i64) -> Recorded;
    step(id: JobId, name: String) -> Option<String>;
    steps(id: JobId) -> Vec<Step>;
    get(id: JobId) -> Option<JobRow>;
    outcomes(ids: Vec<JobId>) -> Vec<Option<Outcome>>;
    attempts(id: JobId) -> Vec<Attempt>;
    output(id: JobId, after: Option<(i64, i64)>, limit: usize) -> Vec<OutputLine>;
    list(filter: JobFilter) -> Vec<JobRow>;
    counts() -> Vec<Count>;
    due(set: Arc<ClaimSet>, now: i64) -> Due;
    cancels() -> Vec<Cancel>;
    promised(id: JobId, lease: i64) -> Option<Promise>;
    running(workers: Vec<WorkerId>) -> Vec<Running>;
    register(worker: NewWorker, now: i64) -> WorkerId;
    workers() -> Vec<WorkerRow>;
    bury(workers: Vec<WorkerId>, now: i64) -> ();
}
