//! The rules of the model store: what each edge does to the rows, one after the other, in plain sight.

use super::flows::FlowTables;
use super::limits::Limits;
use super::schedules::Schedules;
use crate::{
    job::{
        Attempt, AttemptOutcome, Fields, FlowId, JobField, JobId, JobRow, Late, Lease, MAX_ERROR, NewJob,
        OUTPUTS_KEPT, OnConflict, OutputLine, UniqueKey, UniqueRow, WorkerId, cut,
    },
    state::{Edge, JobState, StateSet},
    store::{
        Acted, Cancel, Claim, ClaimSet, Claimed, Completion, Count, Due, Enqueued, Failure, JobFilter,
        Landed, Life, LimitRow, NewStep, NewWorker, Next, Note, Outcome, PAGE_BYTES, PAGE_PAYLOADS, Pause,
        Paused, PayloadPage, Recorded, Release, Rescue, Retention, Running, Settled, Snooze, Step,
        StoreError, StoredPayload, Subscribed, Ties, WorkerRow,
    },
    time::{Millis, millis},
};
use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
};
use tokio::sync::oneshot;

/// The attempts of a job that its history keeps for ever: the first ones, and beside them the latest ones.
const FIRST_KEPT: usize = 10;
const LATEST_KEPT: usize = 90;

pub(super) struct Tables {
    /// Marks the ids of this store: a foreign id names no job here.
    pub(super) tag: u32,
    jobs: BTreeMap<i64, JobRow>,
    history: BTreeMap<i64, BTreeMap<Lease, Attempt>>,
    output: BTreeMap<i64, BTreeMap<(Lease, i64), OutputLine>>,
    /// Steps by name, each with its result.
    steps: BTreeMap<i64, BTreeMap<String, (Step, String)>>,
    pub(super) workers: BTreeMap<WorkerId, WorkerRow>,
    signed_out: BTreeSet<WorkerId>,
    standing: Vec<Standing>,
    pauses: BTreeMap<Paused, Pause>,
    subscriptions: BTreeSet<Subscribed>,
    /// By row; one whose lease is over counts for nothing.
    cancels: BTreeMap<i64, Cancel>,
    pub(super) schedules: Schedules,
    pub(super) limits: Limits,
    pub(super) flows: FlowTables,
    last_row: i64,
    last_worker: i64,
    /// How many times a row was added or moved.
    pub(super) moves: u64,
}

/// A claim that found nothing and waits, and where its answer goes.
struct Standing {
    claim: Claim,
    answer: oneshot::Sender<Vec<Claimed>>,
}

impl Tables {
    pub(super) fn new() -> Self {
        Self {
            tag: fastrand::u32(..=JobId::MAX_TAG),
            jobs: BTreeMap::new(),
            history: BTreeMap::new(),
            output: BTreeMap::new(),
            steps: BTreeMap::new(),
            workers: BTreeMap::new(),
            signed_out: BTreeSet::new(),
            standing: Vec::new(),
            pauses: BTreeMap::new(),
            subscriptions: BTreeSet::new(),
            cancels: BTreeMap::new(),
            schedules: Schedules::default(),
            limits: Limits::default(),
            flows: FlowTables::default(),
            last_row: 0,
            last_worker: 0,
            moves: 0,
        }
    }

    pub(super) fn get(&self, id: JobId) -> Option<JobRow> {
        self.jobs.get(&id.row()).filter(|job| job.id == id).map(|job| self.shown(job))
    }

    /// Claims for the answer given, or lets the claim stand until there is something.
    pub(super) fn answer(&mut self, claim: Claim, answer: oneshot::Sender<Vec<Claimed>>, now: Millis) {
        let claimed = self.claim(&claim, now);
        if claimed.is_empty() && claim.standing && claim.limit > 0 {
            self.standing.push(Standing { claim, answer });
        } else if let Err(undelivered) = answer.send(claimed) {
            self.give_back(&undelivered);
        }
    }

    fn find(&mut self, id: JobId) -> Option<&mut JobRow> {
        self.jobs.get_mut(&id.row()).filter(|job| job.id == id)
    }

    /// All or none.
    pub(super) fn enqueue(&mut self, jobs: Vec<NewJob>, now: Millis) -> Result<Vec<Enqueued>, StoreError> {
        let before = jobs.iter().any(NewJob::rejects).then(|| (self.jobs.clone(), self.last_row));
        let first = self.last_row + 1;
        let mut enqueued = Vec::with_capacity(jobs.len());
        for (place, job) in jobs.into_iter().enumerate() {
            match self.enqueue_one(job, now) {
                Ok(landed) => enqueued.push(landed),
                Err((key, holder)) => {
                    (self.jobs, self.last_row) = before.expect("a job rejects");
                    let existing = Some(holder).filter(|id| id.row() < first);
                    return Err(StoreError::Duplicate { place, key, existing });
                }
            }
        }
        Ok(enqueued)
    }

    /// `Err`: the key, and who holds it.
    pub(super) fn enqueue_one(&mut self, new: NewJob, now: Millis) -> Result<Enqueued, (String, JobId)> {
        let Some(UniqueKey { key, scope, on_conflict, .. }) = new.unique.as_deref() else {
            return Ok(Enqueued::new(self.insert(new, now)));
        };
        let Some(holder) = self.holder(key, scope, None, now) else {
            return Ok(Enqueued::new(self.insert(new, now)));
        };
        let landed = match on_conflict {
            OnConflict::Keep => Landed::Existing,
            OnConflict::Reject => return Err((key.clone(), holder)),
            OnConflict::Replace(fields) => {
                let fields = *fields;
                let job = self.find(holder).expect("it holds the key");
                let waits = matches!(job.state, JobState::Scheduled | JobState::Pending);
                match waits && job.job_type == new.job_type {
                    true => {
                        replace(job, new, fields, now);
                        self.moves += 1;
                        Landed::Replaced
                    }
                    false => Landed::Existing,
                }
            }
        };
        Ok(Enqueued { id: holder, landed })
    }

    /// Who else than `own` holds this key. A window that is over ends here.
    fn holder(&mut self, key: &str, scope: &str, own: Option<JobId>, now: Millis) -> Option<JobId> {
        let job = self.jobs.values_mut().find(|job| {
            let same = |unique: &UniqueRow| unique.key == key && unique.scope == scope;
            Some(job.id) != own && job.holds_key() && job.unique.as_ref().is_some_and(same)
        })?;
        let unique = job.unique.as_mut().expect("it holds its key");
        if unique.has_lapsed(job.state, now) {
            unique.window_ends_at = None;
            return None;
        }
        Some(job.id)
    }

    /// Who else holds the key of this job.
    fn rival(&mut self, id: JobId, now: Millis) -> Option<JobId> {
        let UniqueRow { key, scope, .. } = self.find(id)?.unique.clone()?;
        self.holder(&key, &scope, Some(id), now)
    }

    pub(super) fn insert(&mut self, new: NewJob, now: Millis) -> JobId {
        self.last_row += 1;
        self.moves += 1;
        let id = JobId::compose(now, self.last_row, self.tag);
        let run_at = new.run_at.unwrap_or(now);
        let job = JobRow {
            id,
            job_type: new.job_type.into_owned(),
            queue: new.queue.into_owned(),
            state: waiting(run_at, now),
            priority: new.priority,
            payload: new.payload,
            version: new.version,
            label: new.label,
            run_at,
            attempts: 0,
            max_attempts: new.max_attempts,
            lease: 0,
            worker: None,
            heartbeat_at: None,
            started_at: None,
            completed_at: None,
            cancel_asked_at: None,
            created_at: now,
            updated_at: now,
            timeout: new.timeout,
            backoff: new.backoff,
            retain: new.retain,
            unique: new.unique.map(|unique| UniqueRow {
                key: unique.key,
                scope: unique.scope,
                states: unique.states,
                window_ends_at: unique.within.map(|window| now.saturating_add(millis(window))),
            }),
            processed_items: None,
            total_items: None,
            result: None,
            error: None,
            concurrency_key: new.concurrency_key,
            flow: None,
        };
        self.jobs.insert(self.last_row, job);
        id
    }

    pub(super) fn promote(&mut self, limit: usize, now: Millis) -> usize {
        self.limits.right(now);
        let due = |job: &&mut JobRow| job.state.allows(Edge::Promote) && job.run_at <= now;
        let mut due: Vec<_> = self.jobs.values_mut().filter(due).collect();
        due.sort_by_key(|job| (job.run_at, job.id.row()));
        due.truncate(limit);
        for job in &mut due {
            (job.state, job.updated_at) = (JobState::Pending, now);
        }
        let promoted = due.len();
        let paused = self.pauses.len();
        self.pauses.retain(|_, pause| pause.ends_at.is_none_or(|end| end > now));
        let moved = promoted + paused - self.pauses.len();
        self.moves += moved as u64;
        moved
    }

    pub(super) fn pause(&mut self, pause: Pause) {
        self.pauses.insert(pause.what.clone(), pause);
        self.moves += 1;
    }

    pub(super) fn resume(&mut self, what: &Paused) -> bool {
        let there = self.pauses.remove(what).is_some();
        self.moves += u64::from(there);
        there
    }

    pub(super) fn payloads(&self, after: i64) -> PayloadPage {
        let mut page = PayloadPage { payloads: Vec::new(), next: after, last: self.last_row };
        let mut bytes = 0;
        for (&row, job) in self.jobs.range(after + 1..) {
            if page.payloads.len() >= PAGE_PAYLOADS || bytes >= PAGE_BYTES {
                return page;
            }
            page.next = row;
            if !matches!(job.state, JobState::Completed | JobState::Cancelled) {
                bytes += job.payload.len();
                page.payloads.push(StoredPayload {
                    id: job.id,
                    job_type: job.job_type.clone(),
                    state: job.state,
                    version: job.version,
                    payload: job.payload.clone(),
                });
            }
        }
        page.next = page.last.max(after);
        page
    }

    pub(super) fn subscribe(&mut self, program: String, follows: Vec<(String, String)>, now: Millis) {
        self.subscriptions.retain(|said| said.program != program);
        self.subscriptions.extend(follows.into_iter().map(|(event, job_type)| Subscribed {
            event,
            job_type,
            program: program.clone(),
            seen_at: now,
        }));
    }

    pub(super) fn subscriptions(&self) -> Vec<Subscribed> {
        self.subscriptions.iter().cloned().collect()
    }

    pub(super) fn limits(&self, now: Millis) -> Vec<LimitRow> {
        self.limits.rows(&self.jobs, now)
    }

    pub(super) fn pauses(&self) -> Vec<Pause> {
        self.pauses.values().cloned().collect()
    }

    fn claim(&mut self, claim: &Claim, now: Millis) -> Vec<Claimed> {
        let open = |job: &&mut JobRow| {
            job.state.allows(Edge::Claim) && serves(&claim.set, job) && !is_paused(&self.pauses, job)
        };
        let mut tally = self.limits.tally(self.jobs.values());
        let mut open: Vec<_> = self.jobs.values_mut().filter(open).collect();
        open.sort_by_key(|job| (Reverse(job.priority), job.run_at, job.id.row()));
        let mut taken = Vec::new();
        for job in open {
            if taken.len() == claim.limit {
                break;
            }
            if !self.limits.admit(job, &tally, now) {
                continue;
            }
            self.limits.start(job, &mut tally, now);
            job.state = JobState::Running;
            job.lease += 1;
            job.attempts += 1;
            job.worker = Some(claim.worker);
            (job.started_at, job.updated_at) = (Some(now), now);
            taken.push(claimed(
                job,
                Ties { limited: self.limits.count(job), flow: job.flow.is_some(), ..Ties::NONE },
            ));
        }
        self.moves += taken.len() as u64;
        taken
    }

    /// Offers the pending jobs to the standing claims, the longest waiting first.
    pub(super) fn serve_standing(&mut self, now: Millis) {
        for standing in std::mem::take(&mut self.standing) {
            if standing.answer.is_closed() {
                continue;
            }
            let claimed = self.claim(&standing.claim, now);
            if claimed.is_empty() {
                self.standing.push(standing);
            } else if let Err(undelivered) = standing.answer.send(claimed) {
                self.give_back(&undelivered);
            }
        }
    }

    /// Releases what was claimed for somebody who no longer listens.
    pub(super) fn give_back(&mut self, undelivered: &[Claimed]) {
        for &Claimed { id, lease, ties, .. } in undelivered {
            let now = self.find(id).map_or(0, |job| job.updated_at);
            self.release(Release { id, lease, ties }, now);
        }
    }

    /// The fence of every write out of `running`: `change` is made only for the holder of the lease. What a worker
    /// reports without it is kept beside the attempt that it belongs to; the first report stays.
    fn settle(
        &mut self,
        (id, lease): (JobId, Lease),
        now: Millis,
        report: Option<Late>,
        change: impl FnOnce(&mut JobRow) -> Option<Attempt>,
    ) -> Settled {
        let Some(job) = self.jobs.get_mut(&id.row()).filter(|job| job.id == id) else {
            return Settled::Gone;
        };
        let before = (job.attempts, job.run_at);
        if job.state != JobState::Running || job.lease != lease {
            let attempt = self.history.get_mut(&id.row()).and_then(|history| history.get_mut(&lease));
            if let Some(attempt) = attempt {
                attempt.late = attempt.late.take().or(report);
            }
            return Settled::LeaseLost;
        }
        let mut attempt = change(job);
        if job.state != JobState::Completed
            && self.cancels.get(&id.row()).is_some_and(|wish| wish.lease == lease)
        {
            // Whatever the settle said: an attempt was made, and there is to be no other.
            let (attempts, run_at) = before;
            (job.attempts, job.run_at) = (attempts, run_at);
            finish(job, JobState::Cancelled, job.updated_at);
            if let Some(attempt) = &mut attempt {
                attempt.outcome = AttemptOutcome::Cancelled;
            }
        }
        // It comes back to a state in which it would hold its key, and another has it: it goes on without.
        if job.holds_key()
            && self.rival(id, now).is_some()
            && let Some(unique) = self.find(id).and_then(|job| job.unique.as_mut())
        {
            (unique.states, unique.window_ends_at) = (StateSet::NONE, None);
        }
        self.moves += 1;
        self.archive(id, attempt);
        Settled::Applied
    }

    fn archive(&mut self, id: JobId, attempt: Option<Attempt>) {
        let Some(attempt) = attempt else { return };
        let history = self.history.entry(id.row()).or_default();
        history.insert(attempt.lease, attempt);
        if history.len() > FIRST_KEPT + LATEST_KEPT {
            let oldest_of_the_middle = *history.keys().nth(FIRST_KEPT).expect("longer than that");
            history.remove(&oldest_of_the_middle);
        }
    }

    pub(super) fn complete(&mut self, ended: Completion, now: Millis) -> Settled {
        let report = late(now, AttemptOutcome::Completed, ended.result.as_deref());
        let settled = self.settle((ended.id, ended.lease), now, report, |job| {
            finish(job, JobState::Completed, now);
            (job.result, job.error) = (ended.result, None);
            None
        });
        self.go_on(ended.id, settled, now)
    }

    /// What follows in the flow of a job whose end was just written.
    fn go_on(&mut self, id: JobId, settled: Settled, now: Millis) -> Settled {
        if settled == Settled::Applied {
            self.flow_on(id, now);
        }
        settled
    }

    /// A job is one of a flow.
    pub(super) fn join(&mut self, id: JobId, flow: FlowId) {
        if let Some(job) = self.find(id) {
            job.flow = Some(flow);
        }
    }

    pub(super) fn state_of(&self, row: i64) -> Option<JobState> {
        self.jobs.get(&row).map(|job| job.state)
    }

    pub(super) fn fail(&mut self, ended: Failure, now: Millis) -> Settled {
        let report = late(now, ended.outcome, Some(&ended.error));
        let settled = self.settle((ended.id, ended.lease), now, report, |job| {
            Some(failed(job, ended.outcome, &ended.error, ended.next, now))
        });
        self.bring(ended.id, settled, ended.on_dead, now);
        self.go_on(ended.id, settled, now)
    }

    /// What a job brings with it when it is dead by the end that was just written.
    fn bring(&mut self, id: JobId, settled: Settled, on_dead: Option<Box<NewJob>>, now: Millis) {
        let Some(on_dead) = on_dead else { return };
        if settled == Settled::Applied && self.find(id).is_some_and(|job| job.state == JobState::Dead) {
            self.insert(*on_dead, now);
        }
    }

    pub(super) fn rescue(&mut self, ended: Rescue, now: Millis) -> Settled {
        let settled = self.settle((ended.id, ended.lease), now, None, |job| {
            Some(failed(job, AttemptOutcome::Lost, &ended.error, ended.next, now))
        });
        self.bring(ended.id, settled, ended.on_dead, now);
        self.go_on(ended.id, settled, now)
    }

    pub(super) fn snooze(&mut self, ended: Snooze, now: Millis) -> Settled {
        let report = late(now, AttemptOutcome::Snoozed, None);
        let settled = self.settle((ended.id, ended.lease), now, report, |job| {
            let attempt = over(job, AttemptOutcome::Snoozed, None, now);
            job.attempts = job.attempts.saturating_sub(1);
            wait(job, ended.run_at, now);
            Some(attempt)
        });
        self.go_on(ended.id, settled, now)
    }

    /// `run_at` stays: the job keeps its place.
    pub(super) fn release(&mut self, ended: Release, now: Millis) -> Settled {
        let report = late(now, AttemptOutcome::Released, None);
        let settled = self.settle((ended.id, ended.lease), now, report, |job| {
            let attempt = over(job, AttemptOutcome::Released, None, now);
            job.attempts = job.attempts.saturating_sub(1);
            (job.state, job.updated_at) = (JobState::Pending, now);
            Some(attempt)
        });
        self.go_on(ended.id, settled, now)
    }

    /// What a running job says; not an edge, so nothing is moved.
    pub(super) fn note(&mut self, note: Note) -> Settled {
        let Some(job) = self.find(note.id) else {
            return Settled::Gone;
        };
        if job.state != JobState::Running || job.lease != note.lease {
            return Settled::LeaseLost;
        }
        if let Some(progress) = note.progress {
            (job.processed_items, job.total_items) = (Some(progress.done), Some(progress.total));
        }
        if !note.lines.is_empty() {
            let output = self.output.entry(note.id.row()).or_default();
            if note.lines[0].seq == 0 {
                output.retain(|(lease, _), _| *lease > note.lease - OUTPUTS_KEPT);
            }
            output.extend(note.lines.into_iter().map(|line| (line.place(), line)));
        }
        Settled::Applied
    }

    /// Not an edge either.
    pub(super) fn record_step(&mut self, step: NewStep, now: Millis) -> Recorded {
        let holds = |job: &mut JobRow| job.state == JobState::Running && job.lease == step.lease;
        if !self.find(step.id).is_some_and(holds) {
            return Recorded::LeaseLost;
        }
        let steps = self.steps.entry(step.id.row()).or_default();
        if steps.contains_key(&step.name) {
            return Recorded::Before;
        }
        if steps.len() >= step.most {
            return Recorded::Full;
        }
        let recorded = Step { name: step.name.clone(), lease: step.lease, at: now };
        steps.insert(step.name, (recorded, step.result));
        Recorded::Stored
    }

    pub(super) fn step(&self, id: JobId, name: &str) -> Option<String> {
        self.get(id)?;
        Some(self.steps.get(&id.row())?.get(name)?.1.clone())
    }

    pub(super) fn steps(&self, id: JobId) -> Vec<Step> {
        let all = self.steps.get(&id.row()).filter(|_| self.get(id).is_some());
        let mut steps: Vec<_> =
            all.into_iter().flat_map(BTreeMap::values).map(|(step, _)| step.clone()).collect();
        steps.sort_by_key(|step| (step.at, step.lease));
        steps
    }

    /// The fence of every act of a person: `change` is made only in a state that the edge may leave.
    fn act(&mut self, id: JobId, edge: Edge, change: impl FnOnce(&mut JobRow) -> Option<Attempt>) -> Acted {
        let Some(job) = self.find(id) else {
            return Acted::NotFound;
        };
        if !job.state.allows(edge) {
            return Acted::WrongState(job.state);
        }
        let attempt = change(job);
        self.moves += 1;
        self.archive(id, attempt);
        Acted::Done
    }

    /// A running job is its worker's: it is asked.
    pub(super) fn cancel(&mut self, id: JobId, now: Millis) -> Acted {
        if let Some(&mut JobRow { state: JobState::Running, lease, .. }) = self.find(id) {
            let wish = self.cancels.entry(id.row()).or_insert(Cancel { id, lease, asked_at: now });
            if wish.lease != lease {
                *wish = Cancel { id, lease, asked_at: now };
            }
            self.moves += 1;
            return Acted::Asked;
        }
        let acted = self.act(id, Edge::Cancel, |job| {
            finish(job, JobState::Cancelled, now);
            None
        });
        if acted == Acted::Done {
            self.flow_on(id, now);
        }
        acted
    }

    /// A completed attempt, until now shown from the row itself, goes into the history; the latest error stays.
    pub(super) fn retry(&mut self, id: JobId, now: Millis) -> Acted {
        let ended = self.find(id).is_some_and(|job| job.state.allows(Edge::Retry) && wants_key(job));
        if ended && let Some(holder) = self.rival(id, now) {
            return Acted::KeyHeld(holder);
        }
        if self.get(id).is_some_and(|job| job.state == JobState::Completed) {
            self.steps.remove(&id.row());
        }
        let was = self.state_of(id.row());
        let acted = self.act(id, Edge::Retry, |job| {
            let completed = current_attempt(job);
            wait(job, now, now);
            job.attempts = 0;
            (job.completed_at, job.result) = (None, None);
            (job.processed_items, job.total_items) = (None, None);
            completed
        });
        if let (Acted::Done, Some(was)) = (acted, was) {
            self.flow_back(id, was);
        }
        acted
    }

    pub(super) fn run_now(&mut self, id: JobId, now: Millis) -> Acted {
        self.act(id, Edge::RunNow, |job| {
            wait(job, now, now);
            None
        })
    }

    pub(super) fn delete(&mut self, id: JobId) -> Acted {
        let acted = self.act(id, Edge::Delete, |_| None);
        if acted == Acted::Done {
            self.jobs.remove(&id.row());
            self.history.remove(&id.row());
            self.output.remove(&id.row());
            self.steps.remove(&id.row());
            self.flows.forget(id.row());
        }
        acted
    }

    pub(super) fn prune(&mut self, keep: Retention, now: Millis) -> usize {
        let expired = |job: &&JobRow| {
            let kept = match job.state {
                JobState::Dead => keep.dead.map(|kept| kept.max(job.retain.unwrap_or_default())),
                _ => job.retain.or(keep.finished),
            };
            let (Some(end), Some(kept)) = (job.completed_at, kept) else {
                return false;
            };
            let in_window =
                job.unique.as_ref().and_then(|unique| unique.window_ends_at).is_some_and(|end| end > now);
            if job.state == JobState::Completed && in_window {
                return false;
            }
            job.state.is_terminal() && end.saturating_add(millis(kept)) <= now
        };
        let expired: Vec<_> = self.jobs.values().filter(expired).map(|job| job.id).collect();
        for id in &expired {
            self.delete(*id);
        }
        self.flows.forget_the_ended(now);
        expired.len()
    }

    /// The row as people see it: a running job shows its holder's last beat.
    fn shown(&self, job: &JobRow) -> JobRow {
        let holder =
            job.worker.filter(|_| job.state == JobState::Running).and_then(|id| self.workers.get(&id));
        let cancel_asked_at = self.wish(job).map(|wish| wish.asked_at);
        JobRow { heartbeat_at: holder.map(|worker| worker.heartbeat_at), cancel_asked_at, ..job.clone() }
    }

    pub(super) fn outcome(&self, id: JobId) -> Option<Outcome> {
        let job = self.jobs.get(&id.row()).filter(|job| job.id == id)?;
        let failed = matches!(job.state, JobState::Dead | JobState::Cancelled);
        Some(Outcome {
            job_type: job.job_type.clone(),
            state: job.state,
            attempts: job.attempts,
            result: job.result.clone(),
            error: job.error.clone().filter(|_| failed),
        })
    }

    pub(super) fn attempts(&self, id: JobId) -> Vec<Attempt> {
        let Some(job) = self.jobs.get(&id.row()).filter(|job| job.id == id) else {
            return Vec::new();
        };
        let history = self.history.get(&id.row()).into_iter().flat_map(BTreeMap::values).cloned();
        history.chain(current_attempt(job)).collect()
    }

    pub(super) fn output(&self, id: JobId, after: Option<(Lease, i64)>, limit: usize) -> Vec<OutputLine> {
        if self.get(id).is_none() {
            return Vec::new();
        }
        let lines = self.output.get(&id.row()).into_iter().flat_map(BTreeMap::values);
        lines.filter(|line| after.is_none_or(|after| line.place() > after)).take(limit).cloned().collect()
    }

    pub(super) fn list(&self, filter: &JobFilter) -> Vec<JobRow> {
        let newest_first = self.jobs.values().rev().filter(|job| shows(filter, job));
        newest_first.take(filter.page()).map(|job| self.shown(job)).collect()
    }

    pub(super) fn counts(&self) -> Vec<Count> {
        let mut counts = BTreeMap::<_, u64>::new();
        for job in self.jobs.values() {
            *counts.entry((&job.queue, &job.job_type, job.state)).or_default() += 1;
        }
        let count = |((queue, job_type, state), count): ((&String, &String, JobState), u64)| Count {
            queue: queue.clone(),
            job_type: job_type.clone(),
            state,
            count,
        };
        counts.into_iter().map(count).collect()
    }

    pub(super) fn due(&self, set: &ClaimSet, now: Millis) -> Due {
        let scheduled = self.jobs.values().filter(|job| job.state == JobState::Scheduled);
        let tally = self.limits.tally(self.jobs.values());
        Due {
            pending: self.jobs.values().any(|job| {
                job.state == JobState::Pending
                    && serves(set, job)
                    && !is_paused(&self.pauses, job)
                    && self.limits.admit(job, &tally, now)
            }),
            next_run_at: scheduled.map(|job| job.run_at).min(),
            next_resume_at: self.pauses.values().filter_map(|pause| pause.ends_at).min(),
            next_start_at: self.limits.next_start_at(&self.jobs, now),
        }
    }

    /// The wish that this job be cancelled, while it runs under the lease that is meant.
    fn wish(&self, job: &JobRow) -> Option<Cancel> {
        let wish = self.cancels.get(&job.id.row()).copied()?;
        (job.state == JobState::Running && job.lease == wish.lease).then_some(wish)
    }

    pub(super) fn cancels(&self) -> Vec<Cancel> {
        self.jobs.values().filter_map(|job| self.wish(job)).collect()
    }

    pub(super) fn running(&self, workers: &[WorkerId]) -> Vec<Running> {
        self.jobs.values().filter_map(running).filter(|found| workers.contains(&found.worker)).collect()
    }

    pub(super) fn withdraw(&mut self, worker: WorkerId) {
        for standing in self.standing.extract_if(.., |standing| standing.claim.worker == worker) {
            // Nobody may be listening any more; then nobody misses the answer.
            let _ = standing.answer.send(Vec::new());
        }
    }

    pub(super) fn sign_out(&mut self, worker: WorkerId) {
        self.signed_out.insert(worker);
    }

    /// A beat shows that a worker that was given up is there all the same.
    pub(super) fn beat(&mut self, worker: WorkerId, now: Millis) {
        self.signed_out.remove(&worker);
        if let Some(row) = self.workers.get_mut(&worker) {
            (row.beats, row.heartbeat_at) = (row.beats + 1, now);
        }
    }

    /// A worker that has signed out and holds running jobs all the same stays to be found: nobody forgets these.
    pub(super) fn workers(&self) -> Vec<WorkerRow> {
        let there = self.workers.values().filter_map(|row| match self.signed_out.contains(&row.id) {
            false => Some(row.clone()),
            true if self.running(&[row.id]).is_empty() => None,
            true => Some(WorkerRow { life: Life::Gone, ..row.clone() }),
        });
        there.collect()
    }

    pub(super) fn register(&mut self, worker: NewWorker, now: Millis) -> WorkerId {
        self.last_worker += 1;
        let id = WorkerId(self.last_worker);
        let host = nix::unistd::gethostname().map(|name| name.to_string_lossy().into_owned());
        let row = WorkerRow {
            id,
            host: host.unwrap_or_default(),
            pid: std::process::id(),
            build: env!("CARGO_PKG_VERSION").into(),
            queues: worker.queues,
            beats: 0,
            heartbeat_at: now,
            started_at: now,
            life: Life::Alive,
        };
        self.workers.insert(id, row);
        id
    }
}

/// Pending when due, else scheduled.
fn waiting(run_at: Millis, now: Millis) -> JobState {
    if run_at <= now { JobState::Pending } else { JobState::Scheduled }
}

fn wait(job: &mut JobRow, run_at: Millis, now: Millis) {
    (job.state, job.run_at, job.updated_at) = (waiting(run_at, now), run_at, now);
}

/// What `job` takes over from one that has its key and is not stored.
fn replace(job: &mut JobRow, new: NewJob, fields: Fields, now: Millis) {
    let takes = |field| fields.contains(field);
    if takes(JobField::Payload) {
        (job.payload, job.version) = (new.payload, new.version);
        job.concurrency_key = new.concurrency_key;
    }
    if takes(JobField::Label) {
        job.label = new.label;
    }
    if takes(JobField::RunAt) {
        wait(job, new.run_at.unwrap_or(now), now);
    }
    if takes(JobField::Priority) {
        job.priority = new.priority;
    }
    if takes(JobField::Queue) {
        job.queue = new.queue.into_owned();
    }
    if takes(JobField::MaxAttempts) {
        job.max_attempts = new.max_attempts.max(job.attempts + 1);
    }
    if takes(JobField::Timeout) {
        job.timeout = new.timeout;
    }
    if takes(JobField::Backoff) {
        job.backoff = new.backoff;
    }
    if takes(JobField::Retain) {
        job.retain = new.retain;
    }
    job.updated_at = now;
}

/// Whether a job would hold its key once it waits.
fn wants_key(job: &JobRow) -> bool {
    job.unique.as_ref().is_some_and(|unique| unique.is_held(JobState::Pending))
}

fn finish(job: &mut JobRow, state: JobState, now: Millis) {
    (job.state, job.completed_at, job.updated_at) = (state, Some(now), now);
}

/// The attempt that ends now.
fn over(job: &JobRow, outcome: AttemptOutcome, error: Option<&str>, now: Millis) -> Attempt {
    Attempt {
        lease: job.lease,
        attempt: job.attempts,
        worker: job.worker,
        started_at: job.started_at.unwrap_or(now),
        ended_at: Some(now),
        outcome,
        error: error.map(|text| cut(text, MAX_ERROR).into_owned()),
        late: None,
    }
}

fn failed(job: &mut JobRow, outcome: AttemptOutcome, error: &str, next: Next, now: Millis) -> Attempt {
    let attempt = over(job, outcome, Some(error), now);
    job.error.clone_from(&attempt.error);
    match next {
        Next::At(run_at) if job.attempts < job.max_attempts => wait(job, run_at, now),
        Next::AsBefore if job.attempts < job.max_attempts => {
            (job.state, job.updated_at) = (JobState::Pending, now);
        }
        Next::At(_) | Next::AsBefore | Next::Dead => finish(job, JobState::Dead, now),
        Next::Cancelled => finish(job, JobState::Cancelled, now),
    }
    attempt
}

/// The attempt that the row itself tells of: one that runs, or the one that completed.
fn current_attempt(job: &JobRow) -> Option<Attempt> {
    let outcome = match job.state {
        JobState::Running => AttemptOutcome::Running,
        JobState::Completed => AttemptOutcome::Completed,
        _ => return None,
    };
    Some(Attempt { ended_at: job.completed_at, ..over(job, outcome, None, job.updated_at) })
}

fn late(at: Millis, outcome: AttemptOutcome, text: Option<&str>) -> Option<Late> {
    Some(Late { at, outcome, text: text.map(|text| cut(text, MAX_ERROR).into_owned()) })
}

fn serves(set: &ClaimSet, job: &JobRow) -> bool {
    set.knows(&job.job_type) && set.serves(&job.queue)
}

/// Whether nobody may claim this job for now.
fn is_paused(pauses: &BTreeMap<Paused, Pause>, job: &JobRow) -> bool {
    let covers = |what: &Paused| match what {
        Paused::Queue(name) => *name == job.queue,
        Paused::JobType(name) => *name == job.job_type,
    };
    pauses.keys().any(covers)
}

fn claimed(job: &JobRow, ties: Ties) -> Claimed {
    Claimed {
        id: job.id,
        lease: job.lease,
        job_type: job.job_type.as_str().into(),
        queue: job.queue.as_str().into(),
        payload: job.payload.clone(),
        version: job.version,
        attempt: job.attempts,
        max_attempts: job.max_attempts,
        priority: job.priority,
        run_at: job.run_at,
        timeout: job.timeout,
        backoff: job.backoff,
        ties,
    }
}

fn running(job: &JobRow) -> Option<Running> {
    Some(Running {
        id: job.id,
        lease: job.lease,
        worker: job.worker.filter(|_| job.state == JobState::Running)?,
        job_type: job.job_type.clone(),
        attempt: job.attempts,
        max_attempts: job.max_attempts,
        backoff: job.backoff,
        ties: Ties::ALL,
    })
}

fn shows(filter: &JobFilter, job: &JobRow) -> bool {
    let contains =
        |label: &String, text: &String| label.to_ascii_lowercase().contains(&text.to_ascii_lowercase());
    (filter.states.is_empty() || filter.states.contains(&job.state))
        && filter.job_type.as_ref().is_none_or(|job_type| *job_type == job.job_type)
        && filter.queue.as_ref().is_none_or(|queue| *queue == job.queue)
        && filter.flow.is_none_or(|flow| job.flow == Some(flow))
        && filter
            .unique_key
            .as_ref()
            .is_none_or(|key| job.unique.as_ref().is_some_and(|unique| unique.key == *key))
        && filter
            .label
            .as_ref()
            .is_none_or(|text| job.label.as_ref().is_some_and(|label| contains(label, text)))
        && filter.created_from.is_none_or(|from| job.created_at >= from)
        && filter.created_before.is_none_or(|before| job.created_at < before)
        && filter.after.is_none_or(|after| job.id.row() < after.row())
}
