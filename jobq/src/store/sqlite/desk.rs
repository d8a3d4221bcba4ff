//! The writing thread's desk: its connection, and one act per edge, each within the transaction that is open.
//!
//! An act runs a prepared statement once per row. On a thread of its own that costs about a microsecond and tells
//! row by row what was changed; the transaction is what is expensive, and it is shared by all who wait.

use crate::{
    job::{AttemptOutcome, JobId, Lease, MAX_ERROR, NewJob, Timeout, WorkerId, cut},
    state::JobState,
    store::{Acted, ClaimSet, Claimed, Completion, NewWorker, Next, Retention, Settled},
    time::{Millis, millis},
};
use rusqlite::{Connection, OptionalExtension, Row, params};
use std::{
    collections::{BTreeMap, BinaryHeap, HashMap},
    sync::Arc,
};

use super::{
    alive::{BOOT, SideCar},
    blames_one,
};

/// The writing connection and what is known beside it.
pub(super) struct Desk {
    pub(super) db: Connection,
    pub(super) side_car: Arc<SideCar>,
    /// The tag of this store's job ids.
    pub(super) tag: u32,
    lanes: Lanes,
    /// Pending rows that were damaged by hand so that they can't be claimed, and why; left out until somebody writes.
    damaged: BTreeMap<i64, String>,
    /// Whether the latest of them is still to be told of.
    found_damage: bool,
    /// Workers whose byte was taken in this transaction.
    registered: Vec<i64>,
    /// Some row became claimable in this transaction.
    pub(super) stirred: bool,
    /// Some row was added or moved in this transaction.
    pub(super) touched: bool,
    /// The latest instant that an act of this transaction carried.
    pub(super) moment: Option<Millis>,
}

/// The lanes, as far as they are committed or laid in the open transaction.
#[derive(Default)]
struct Lanes {
    loaded: bool,
    ids: HashMap<String, HashMap<String, i64>>,
    names: HashMap<i64, (Arc<str>, Arc<str>)>,
}

/// An attempt that leaves `running` otherwise than completed.
pub(super) struct Leave {
    pub(super) id: JobId,
    pub(super) lease: Lease,
    pub(super) outcome: AttemptOutcome,
    pub(super) error: Option<String>,
    /// `None`: due as before.
    pub(super) next: Option<Next>,
}

/// One statement per act; see the files.
macro_rules! sql {
    ($name:literal) => {
        include_str!(concat!("sql/", $name, ".sql"))
    };
}
pub(super) use sql;

impl Desk {
    pub(super) fn new(db: Connection, side_car: Arc<SideCar>) -> rusqlite::Result<Self> {
        db.set_prepared_statement_cache_capacity(64);
        let tag = db.query_row("SELECT tag FROM jobq_store", [], |row| row.get(0))?;
        Ok(Self {
            db,
            side_car,
            tag,
            lanes: Lanes::default(),
            damaged: BTreeMap::new(),
            found_damage: false,
            registered: Vec::new(),
            stirred: false,
            touched: false,
            moment: None,
        })
    }

    /// A new transaction begins.
    pub(super) fn begin(&mut self) {
        (self.stirred, self.touched, self.moment) = (false, false, None);
        self.registered.clear();
    }

    /// Somebody else committed: lanes may be new, and damaged rows may be mended.
    pub(super) fn doubt(&mut self) {
        self.lanes.loaded = false;
        self.damaged.clear();
    }

    /// The transaction was rolled back: what is known beside it goes too.
    pub(super) fn undo(&mut self) {
        self.lanes.loaded = false;
        for worker in self.registered.drain(..) {
            self.side_car.free(worker);
        }
    }

    /// What claims have left out since this was last asked, in words.
    pub(super) fn damage(&mut self) -> Option<String> {
        let (row, why) = self.damaged.last_key_value().filter(|_| std::mem::take(&mut self.found_damage))?;
        Some(format!("{} of them, such as row {row}: {why}", self.damaged.len()))
    }

    fn at(&mut self, now: Millis) {
        self.moment = self.moment.max(Some(now));
    }

    // ---- into the store ---------------------------------------------------------------------

    pub(super) fn enqueue(&mut self, jobs: &[NewJob], now: Millis) -> rusqlite::Result<Vec<JobId>> {
        self.at(now);
        let lanes: Vec<i64> =
            jobs.iter().map(|job| self.lane(&job.queue, &job.job_type)).collect::<Result<_, _>>()?;
        let mut ids = Vec::with_capacity(jobs.len());
        let mut insert = self.db.prepare_cached(sql!("enqueue"))?;
        for (job, lane) in jobs.iter().zip(lanes) {
            let row = Inserted::of(job, now);
            insert.execute(params![
                lane,
                row.state.code(),
                job.priority,
                row.run_at,
                job.max_attempts,
                row.timeout,
                row.retain,
                row.backoff,
                job.label,
                job.payload,
                now,
            ])?;
            self.stirred |= row.state == JobState::Pending;
            ids.push(JobId::compose(now, self.db.last_insert_rowid(), self.tag));
        }
        self.touched |= !jobs.is_empty();
        Ok(ids)
    }

    pub(super) fn promote(&mut self, limit: usize, now: Millis) -> rusqlite::Result<usize> {
        self.at(now);
        let due: Vec<i64> = {
            let mut due = self.db.prepare_cached(sql!("due"))?;
            due.query_map(params![now, limit as i64], |row| row.get(0))?.collect::<Result<_, _>>()?
        };
        let mut promoted = 0;
        for row in due {
            promoted += self.execute(sql!("promote"), params![row, now])?;
        }
        self.stirred |= promoted > 0;
        self.touched |= promoted > 0;
        Ok(promoted)
    }

    // ---- out of pending ---------------------------------------------------------------------

    /// Whether a job of this set can be claimed; takes no lock.
    pub(super) fn has_work(&mut self, set: &ClaimSet) -> rusqlite::Result<bool> {
        let mut waiting = self.lanes.of(&self.db, set)?.into_iter();
        let mut look = self.db.prepare_cached(sql!("waiting"))?;
        waiting.try_fold(false, |found, lane| Ok(found || look.exists([lane])?))
    }

    /// One row that can't be claimed takes nobody with it: it is left out, and the next is taken in its place.
    pub(super) fn claim(
        &mut self,
        worker: WorkerId,
        set: &ClaimSet,
        limit: usize,
        now: Millis,
    ) -> rusqlite::Result<Vec<Claimed>> {
        loop {
            let heads = self.heads(set, limit)?;
            self.db.prepare_cached("SAVEPOINT claim")?.execute([])?;
            let (row, error) = match self.claim_rows(&heads, worker, now) {
                Ok(claimed) => {
                    self.db.prepare_cached("RELEASE claim")?.execute([])?;
                    self.touched |= !claimed.is_empty();
                    return Ok(claimed);
                }
                Err(failed) => failed,
            };
            if !blames_one(&error) {
                return Err(error);
            }
            self.db.prepare_cached("ROLLBACK TO claim")?.execute([])?;
            self.db.prepare_cached("RELEASE claim")?.execute([])?;
            self.damaged.insert(row, error.to_string());
            self.found_damage = true;
        }
    }

    /// The rows of the first claimable jobs of this set, in order.
    fn heads(&mut self, set: &ClaimSet, limit: usize) -> rusqlite::Result<Vec<i64>> {
        // The best so far, the worst of them on top: a lane is left at its first row that is no better.
        let mut best: BinaryHeap<(i64, i64, i64)> = BinaryHeap::new();
        let lanes = self.lanes.of(&self.db, set)?;
        let mut lane_heads = self.db.prepare_cached(sql!("heads"))?;
        for lane in lanes {
            let rows = lane_heads.query_map(params![lane, (limit + self.damaged.len()) as i64], |row| {
                // Larger priorities first: negated, the tuple sorts as the claim order does.
                Ok((-row.get::<_, i64>(1)?, row.get(2)?, row.get(0)?))
            })?;
            for head in rows {
                let head = head?;
                if best.len() >= limit && best.peek().is_none_or(|worst| head >= *worst) {
                    break;
                }
                if !self.damaged.contains_key(&head.2) {
                    best.push(head);
                    if best.len() > limit {
                        best.pop();
                    }
                }
            }
        }
        Ok(best.into_sorted_vec().into_iter().map(|(_, _, row)| row).collect())
    }

    /// All of these rows, or the one that can't be claimed and why.
    fn claim_rows(
        &self,
        rows: &[i64],
        worker: WorkerId,
        now: Millis,
    ) -> Result<Vec<Claimed>, (i64, rusqlite::Error)> {
        let mut claimed = Vec::with_capacity(rows.len());
        let mut look = self.db.prepare_cached(sql!("taken")).map_err(|error| (0, error))?;
        let mut update = self.db.prepare_cached(sql!("claim")).map_err(|error| (0, error))?;
        for &row in rows {
            let job = |got: &Row<'_>| self.lanes.claimed(row, self.tag, got);
            let job = look.query_row([row], job).optional().map_err(|error| (row, error))?;
            let taken = update.execute(params![row, worker.0, now]).map_err(|error| (row, error))?;
            claimed.extend(job.filter(|_| taken == 1));
        }
        Ok(claimed)
    }

    // ---- out of running ---------------------------------------------------------------------

    pub(super) fn complete(&mut self, ended: &[Completion], now: Millis) -> rusqlite::Result<Vec<Settled>> {
        self.at(now);
        let mut answers = Vec::with_capacity(ended.len());
        let mut update = self.db.prepare_cached(sql!("complete"))?;
        for end in ended {
            let applied = self.is_ours(end.id)
                && update.execute(params![end.id.row(), end.lease, end.id.created_at(), end.result, now])?
                    == 1;
            self.touched |= applied;
            answers.push(match applied {
                true => Settled::Applied,
                false => {
                    self.late(end.id, end.lease, AttemptOutcome::Completed, end.result.as_deref(), now)?
                }
            });
        }
        Ok(answers)
    }

    pub(super) fn leave(&mut self, ended: &[Leave], now: Millis) -> rusqlite::Result<Vec<Settled>> {
        self.at(now);
        ended.iter().map(|end| self.leave_one(end, now)).collect()
    }

    fn leave_one(&mut self, end: &Leave, now: Millis) -> rusqlite::Result<Settled> {
        let error = end.error.as_deref().map(|text| cut(text, MAX_ERROR));
        let (id, lease, created_at) = (end.id.row(), end.lease, end.id.created_at());
        let archive = params![id, lease, created_at, end.outcome.code(), error, now];
        if !self.is_ours(end.id) || self.db.prepare_cached(sql!("archive"))?.execute(archive)? == 0 {
            return self.late(end.id, lease, end.outcome, error.as_deref(), now);
        }
        let (state, run_at) = match end.next {
            Some(Next::At(at)) if at > now => (JobState::Scheduled, Some(at)),
            Some(Next::At(at)) => (JobState::Pending, Some(at)),
            Some(Next::Dead) => (JobState::Dead, None),
            Some(Next::Cancelled) => (JobState::Cancelled, None),
            Some(Next::AsBefore) | None => (JobState::Pending, None),
        };
        let given_back = i64::from(!end.outcome.counts());
        let leave = params![id, lease, state.code(), run_at, given_back, error, now];
        self.db.prepare_cached(sql!("leave"))?.execute(leave)?;
        self.forget(id, lease)?;
        self.stirred |= state == JobState::Pending;
        self.touched = true;
        Ok(Settled::Applied)
    }

    /// A history can only have grown too long where the job was claimed that often.
    fn forget(&self, row: i64, lease: Lease) -> rusqlite::Result<()> {
        if lease > 100 {
            self.execute(sql!("forget"), [row])?;
        }
        Ok(())
    }

    /// The fence did not hold: keeps the result where its attempt is on record, and says why.
    fn late(
        &self,
        id: JobId,
        lease: Lease,
        outcome: AttemptOutcome,
        text: Option<&str>,
        now: Millis,
    ) -> rusqlite::Result<Settled> {
        if self.state(id)?.is_none() {
            return Ok(Settled::Gone);
        }
        // A rescue that came too late has nothing to report.
        if outcome != AttemptOutcome::Lost {
            let text = text.map(|text| cut(text, MAX_ERROR));
            self.execute(sql!("late"), params![id.row(), lease, now, outcome.code(), text])?;
        }
        Ok(Settled::LeaseLost)
    }

    // ---- acts of people ---------------------------------------------------------------------

    pub(super) fn cancel(&mut self, ids: &[JobId], now: Millis) -> rusqlite::Result<Vec<Acted>> {
        self.at(now);
        self.act(ids, |desk, id| desk.execute(sql!("cancel"), params![id.row(), id.created_at(), now]))
    }

    pub(super) fn retry(&mut self, ids: &[JobId], now: Millis) -> rusqlite::Result<Vec<Acted>> {
        self.at(now);
        let answers = self.act(ids, |desk, id| {
            desk.execute(sql!("archive_completed"), params![id.row(), id.created_at()])?;
            desk.forget(id.row(), Lease::MAX)?;
            desk.execute(sql!("retry"), params![id.row(), id.created_at(), now])
        })?;
        self.stirred = true;
        Ok(answers)
    }

    pub(super) fn run_now(&mut self, ids: &[JobId], now: Millis) -> rusqlite::Result<Vec<Acted>> {
        self.at(now);
        let answers =
            self.act(ids, |desk, id| desk.execute(sql!("run_now"), params![id.row(), id.created_at(), now]))?;
        self.stirred = true;
        Ok(answers)
    }

    pub(super) fn delete(&mut self, ids: &[JobId], now: Millis) -> rusqlite::Result<Vec<Acted>> {
        self.at(now);
        self.act(ids, |desk, id| desk.execute(sql!("delete"), params![id.row(), id.created_at()]))
    }

    pub(super) fn prune(&mut self, rows: &[i64], keep: Retention, now: Millis) -> rusqlite::Result<usize> {
        let (finished, dead) = (keep.finished.map(millis), keep.dead.map(millis));
        let mut pruned = 0;
        for row in rows {
            pruned += self.execute(sql!("prune"), params![row, now, finished, dead])?;
        }
        self.touched |= pruned > 0;
        Ok(pruned)
    }

    /// Workers that have been gone for a day are of no use to anybody.
    pub(super) fn forget_workers(&mut self, now: Millis) -> rusqlite::Result<()> {
        self.execute(sql!("forget_workers"), [now]).map(drop)
    }

    fn act(
        &mut self,
        ids: &[JobId],
        mut change: impl FnMut(&mut Self, JobId) -> rusqlite::Result<usize>,
    ) -> rusqlite::Result<Vec<Acted>> {
        let mut answers = Vec::with_capacity(ids.len());
        for &id in ids {
            let done = self.is_ours(id) && change(self, id)? == 1;
            self.touched |= done;
            answers.push(match done {
                true => Acted::Done,
                false => self.state(id)?.map_or(Acted::NotFound, Acted::WrongState),
            });
        }
        Ok(answers)
    }

    // ---- workers ----------------------------------------------------------------------------

    /// The byte is taken before the row can be seen, so nobody finds the row with its byte free.
    pub(super) fn register(&mut self, worker: &NewWorker, now: Millis) -> rusqlite::Result<WorkerId> {
        let (device, inode) = self.side_car.place;
        let host =
            nix::unistd::gethostname().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        self.execute(
            sql!("register"),
            params![
                host,
                *BOOT,
                std::process::id(),
                env!("CARGO_PKG_VERSION"),
                worker.queues,
                device,
                inode,
                now
            ],
        )?;
        let id = self.db.last_insert_rowid();
        self.registered.push(id);
        if let Err(error) = self.side_car.hold(id) {
            self.execute(sql!("distrust"), [id])?;
            tracing::warn!(%error, "no lock on the side-car file; only heartbeats tell that worker #{id} lives");
        }
        Ok(WorkerId(id))
    }

    pub(super) fn beat(&mut self, worker: WorkerId, now: Millis) -> rusqlite::Result<()> {
        self.execute(sql!("beat"), params![worker.0, now]).map(drop)
    }

    pub(super) fn bury(&mut self, workers: &[WorkerId], now: Millis) -> rusqlite::Result<()> {
        for worker in workers {
            self.execute(sql!("bury"), params![worker.0, now])?;
        }
        Ok(())
    }

    // ---- shared -----------------------------------------------------------------------------

    fn execute(&self, sql: &str, values: impl rusqlite::Params) -> rusqlite::Result<usize> {
        self.db.prepare_cached(sql)?.execute(values)
    }

    fn is_ours(&self, id: JobId) -> bool {
        id.tag() == self.tag
    }

    fn state(&self, id: JobId) -> rusqlite::Result<Option<JobState>> {
        if !self.is_ours(id) {
            return Ok(None);
        }
        let mut look = self.db.prepare_cached(sql!("state"))?;
        let code = look.query_row(params![id.row(), id.created_at()], |row| row.get(0)).optional()?;
        Ok(code.and_then(JobState::from_code))
    }

    fn lane(&mut self, queue: &str, job_type: &str) -> rusqlite::Result<i64> {
        self.lanes.load(&self.db)?;
        if let Some(&lane) = self.lanes.ids.get(queue).and_then(|types| types.get(job_type)) {
            return Ok(lane);
        }
        let lane =
            self.db.prepare_cached(sql!("lane"))?.query_row(params![queue, job_type], |row| row.get(0))?;
        self.lanes.add(lane, queue.into(), job_type.into());
        Ok(lane)
    }
}

impl Lanes {
    fn load(&mut self, db: &Connection) -> rusqlite::Result<()> {
        if !self.loaded {
            *self = Self { loaded: true, ..Self::default() };
            let mut rows = db.prepare_cached(sql!("lanes"))?;
            let mut rows = rows.query([])?;
            while let Some(row) = rows.next()? {
                self.add(row.get(0)?, row.get(1)?, row.get(2)?);
            }
        }
        Ok(())
    }

    fn add(&mut self, lane: i64, queue: String, job_type: String) {
        self.ids.entry(queue.clone()).or_default().insert(job_type.clone(), lane);
        self.names.insert(lane, (queue.into(), job_type.into()));
    }

    /// The lanes that a worker with this set may claim from.
    fn of(&mut self, db: &Connection, set: &ClaimSet) -> rusqlite::Result<Vec<i64>> {
        self.load(db)?;
        let lanes = self.ids.iter().filter(|(queue, _)| set.serves(queue));
        Ok(lanes
            .flat_map(|(_, types)| set.job_types.iter().filter_map(|name| types.get(name).copied()))
            .collect())
    }

    fn claimed(&self, row: i64, tag: u32, got: &Row<'_>) -> rusqlite::Result<Claimed> {
        let (queue, job_type) = self.names.get(&got.get(2)?).cloned().unwrap_or_default();
        Ok(Claimed {
            id: JobId::compose(got.get(0)?, row, tag),
            lease: got.get(1)?,
            job_type,
            queue,
            attempt: got.get(3)?,
            max_attempts: got.get(4)?,
            priority: got.get(5)?,
            run_at: got.get(6)?,
            timeout: got.get::<_, Option<i64>>(7)?.map(timeout),
            backoff: backoff(text(got, 8)?),
            payload: text(got, 9)?.unwrap_or_default(),
        })
    }
}

/// The columns of a new row that need working out.
pub(super) struct Inserted {
    pub(super) state: JobState,
    pub(super) run_at: Millis,
    pub(super) timeout: Option<i64>,
    pub(super) retain: Option<i64>,
    pub(super) backoff: Option<String>,
}

impl Inserted {
    pub(super) fn of(job: &NewJob, now: Millis) -> Self {
        let run_at = job.run_at.unwrap_or(now);
        Self {
            state: if run_at > now { JobState::Scheduled } else { JobState::Pending },
            run_at,
            timeout: job.timeout.map(|timeout| match timeout {
                // 0 stands for none, so the shortest time-out is one millisecond.
                Timeout::After(duration) => millis(duration).max(1),
                Timeout::Never => 0,
            }),
            retain: job.retain.map(millis),
            backoff: job.backoff.as_ref().and_then(|backoff| serde_json::to_string(backoff).ok()),
        }
    }
}

/// A stored time-out.
pub(super) fn timeout(millis: i64) -> Timeout {
    match u64::try_from(millis) {
        Ok(millis @ 1..) => Timeout::After(std::time::Duration::from_millis(millis)),
        _ => Timeout::Never,
    }
}

/// A stored text. Other programs may have written what is not UTF-8: that is shown with marks in it, since one such
/// row must not make a list or a claim fail.
pub(super) fn text(row: &Row<'_>, column: usize) -> rusqlite::Result<Option<String>> {
    use rusqlite::types::ValueRef;
    match row.get_ref(column)? {
        ValueRef::Text(text) => Ok(Some(String::from_utf8_lossy(text).into_owned())),
        _ => row.get(column),
    }
}

/// A stored backoff; one that was broken by hand counts as unset.
pub(super) fn backoff(json: Option<String>) -> Option<crate::retry::Backoff> {
    json.and_then(|json| serde_json::from_str(&json).ok())
}
