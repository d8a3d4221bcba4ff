//! The writing thread's desk: its connection, and one act per edge, each within the transaction that is open.
//!
//! An act runs a prepared statement once per row, found by its id: a look-up that no statistics can turn into a scan,
//! and that tells row by row what was changed. On a thread of its own that costs about a microsecond; the transaction
//! is what is expensive, and it is shared by all who wait. Only inserts, which look nothing up, are many to a statement.

mod claims;
mod flows;
mod inserts;
mod keys;
mod lanes;
mod limits;
mod schedules;
mod unique;

pub(super) use self::{
    inserts::Inserted,
    keys::{shown, stored, stranded},
    lanes::{each_lane, paused},
    limits::{Limits, limit_row, next_start_at},
    unique::{Decision, Holder},
};
use self::{
    inserts::Inserts,
    lanes::{Lanes, kind},
};
use super::{
    alive::{BOOT, SideCar},
    read::Expired,
};
use crate::{
    job::{AttemptOutcome, JobId, Lease, MAX_ERROR, NewJob, OUTPUTS_KEPT, Timeout, WorkerId, cut},
    state::JobState,
    store::{
        Acted, Completion, NewStep, NewWorker, Next, Note, Pause, Paused, Progress, Recorded, Retention,
        Settled, Ties,
        flows::{End, retried as flow_back},
    },
    time::{Millis, millis},
};
use rusqlite::{Connection, OptionalExtension, Row, params};
use std::{collections::BTreeMap, sync::Arc};

/// Lines of output after which a prune ends its transaction.
const PRUNE_LINES: usize = 2_000;
/// Flows that are forgotten in one transaction.
const FLOWS_FORGOTTEN: i64 = 1000;

/// The writing connection and what is known beside it.
pub(super) struct Desk {
    pub(super) db: Connection,
    pub(super) side_car: Arc<SideCar>,
    /// The tag of this store's job ids.
    pub(super) tag: u32,
    lanes: Lanes,
    inserts: Inserts,
    /// What is wished or promised of running rows, each of one lease; `None`: not known.
    wishes: Option<BTreeMap<(i64, Lease), Wish>>,
    /// Pending rows that were damaged by hand so that they can't be claimed, and why; left out until somebody writes.
    damaged: BTreeMap<i64, String>,
    /// Whether the latest of them is still to be told of.
    found_damage: bool,
    /// Workers whose byte was taken in this transaction.
    registered: Vec<i64>,
    /// A claim has more to park than it could.
    pub(super) unfinished: bool,
    /// Some row became claimable in this transaction.
    pub(super) stirred: bool,
    /// Some row was added or moved in this transaction.
    pub(super) touched: bool,
    /// The latest instant that an act of this transaction carried.
    pub(super) moment: Option<Millis>,
}

/// What is known of a running attempt beside its row.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Wish {
    /// It is to be cancelled.
    Cancel,
    /// It has completed in a transaction of the application.
    Promised,
}

/// An attempt that leaves `running` otherwise than completed.
pub(super) struct Leave {
    pub(super) id: JobId,
    pub(super) lease: Lease,
    pub(super) outcome: AttemptOutcome,
    pub(super) error: Option<String>,
    /// `None`: due as before.
    pub(super) next: Option<Next>,
    pub(super) ties: Ties,
    /// Enqueued if the job is dead by it.
    pub(super) on_dead: Option<Box<NewJob>>,
}

/// One statement per act; see the files.
macro_rules! sql {
    ($name:literal) => {
        include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/src/store/sqlite/sql/", $name, ".sql"))
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
            inserts: Inserts::default(),
            wishes: None,
            damaged: BTreeMap::new(),
            found_damage: false,
            registered: Vec::new(),
            unfinished: false,
            stirred: false,
            touched: false,
            moment: None,
        })
    }

    /// A new transaction begins.
    pub(super) fn begin(&mut self) {
        (self.stirred, self.touched, self.moment) = (false, false, None);
        self.unfinished = false;
        self.registered.clear();
    }

    /// Somebody else committed: lanes and rows may be new, and damaged rows may be mended.
    pub(super) fn doubt(&mut self) {
        self.lanes.doubt();
        self.inserts.doubt();
        self.wishes = None;
        self.damaged.clear();
    }

    /// The transaction was rolled back: what is known beside it goes too.
    pub(super) fn undo(&mut self) {
        self.lanes.doubt();
        self.inserts.doubt();
        self.wishes = None;
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

    /// `stranded`: keys that a look has found with parked jobs whose turn it is.
    pub(super) fn promote(
        &mut self,
        limit: usize,
        stranded: &[String],
        now: Millis,
    ) -> rusqlite::Result<usize> {
        self.at(now);
        let due: Vec<i64> = {
            let mut due = self.db.prepare_cached(sql!("due"))?;
            due.query_map(params![now, limit as i64], |row| row.get(0))?.collect::<Result<_, _>>()?
        };
        let mut promoted = 0;
        for row in due {
            let moved = self.execute(sql!("promote"), params![row, now])?;
            promoted += moved;
            if moved == 0 && self.execute(sql!("promote_keyed"), params![row, now])? == 1 {
                promoted += 1;
                self.sort_key_of(row, now)?;
            }
        }
        for key in stranded {
            self.sort_key(key, now)?;
        }
        self.tend_limits(now)?;
        if self.lanes.pauses(&self.db)?.next_end.is_some_and(|end| end <= now) {
            promoted += self.execute(sql!("resume_due"), [now])?;
            self.lanes.doubt();
        }
        self.stirred |= promoted > 0;
        self.touched |= promoted > 0;
        Ok(promoted)
    }

    // ---- out of running ---------------------------------------------------------------------

    pub(super) fn complete(&mut self, ended: &[Completion], now: Millis) -> rusqlite::Result<Vec<Settled>> {
        self.at(now);
        let mut answers = Vec::with_capacity(ended.len());
        let (mut limited, mut of_flows) = (Vec::new(), Vec::new());
        let mut update = self.db.prepare_cached(sql!("complete"))?;
        for end in ended {
            let mut complete =
                || update.execute(params![end.id.row(), end.lease, end.id.created_at(), end.result, now]);
            let applied = self.is_ours(end.id) && self.with_or_without_key(end.id, now, &mut complete)? == 1;
            self.touched |= applied;
            if applied && end.ties.promised {
                self.execute(sql!("forget_promise"), [end.id.row()])?;
                self.wishes = None;
            }
            if applied && end.ties.limited {
                limited.push(end.id);
            }
            if applied && end.ties.flow {
                of_flows.push(end);
            }
            answers.push(match applied {
                true => Settled::Applied,
                false => {
                    self.late(end.id, end.lease, AttemptOutcome::Completed, end.result.as_deref(), now)?
                }
            });
        }
        drop(update);
        limited.into_iter().try_for_each(|id| self.let_next(id, now))?;
        for end in of_flows {
            self.flow_on(end.id, End::Succeeded, end.result.as_deref(), now)?;
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
        let wish = if self.is_ours(end.id) { self.wish_for(id, lease)? } else { None };
        if wish == Some(Wish::Promised) {
            return self.keep_promise(end, now);
        }
        let unwanted = wish == Some(Wish::Cancel);
        let (outcome, next) = match unwanted {
            true => (AttemptOutcome::Cancelled, Some(Next::Cancelled)),
            false => (end.outcome, end.next),
        };
        let archive = params![id, lease, created_at, outcome.code(), error, now];
        if !self.is_ours(end.id) || self.db.prepare_cached(sql!("archive"))?.execute(archive)? == 0 {
            return self.late(end.id, lease, end.outcome, error.as_deref(), now);
        }
        let (state, run_at) = match next {
            Some(Next::At(at)) if at > now => (JobState::Scheduled, Some(at)),
            Some(Next::At(at)) => (JobState::Pending, Some(at)),
            Some(Next::Dead) => (JobState::Dead, None),
            Some(Next::Cancelled) => (JobState::Cancelled, None),
            Some(Next::AsBefore) | None => (JobState::Pending, None),
        };
        let given_back = i64::from(!outcome.counts());
        let leave = params![id, lease, state.code(), run_at, given_back, error, now];
        let mut update = self.db.prepare_cached(sql!("leave"))?;
        self.with_or_without_key(end.id, now, &mut || update.execute(leave))?;
        drop(update);
        if unwanted {
            self.execute(sql!("forget_cancel"), [id])?;
            self.wishes = None;
        }
        self.forget(id, lease)?;
        self.stirred |= state == JobState::Pending;
        self.touched = true;
        if let Some(on_dead) = &end.on_dead
            && self.state(end.id)? == Some(JobState::Dead)
        {
            self.enqueue(&Arc::new(vec![NewJob::clone(on_dead)]), now)?;
        }
        if end.ties.limited {
            self.let_next(end.id, now)?;
        }
        if let Some(over) = End::of(state).filter(|_| end.ties.flow) {
            self.flow_on(end.id, over, None, now)?;
        }
        Ok(Settled::Applied)
    }

    /// The attempt has completed in a transaction of the application, whatever is said of it now.
    fn keep_promise(&mut self, end: &Leave, now: Millis) -> rusqlite::Result<Settled> {
        let (id, lease) = (end.id, end.lease);
        let mut look = self.db.prepare_cached(sql!("promised"))?;
        let result = look.query_row(params![id.row(), lease], |row| text(row, 0)).optional()?.flatten();
        drop(look);
        let kept = Completion { id, lease, result, ties: Ties { promised: true, ..end.ties } };
        let settled = self.complete(&[kept], now)?;
        Ok(settled.first().copied().unwrap_or(Settled::Gone))
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

    // ---- what running jobs say --------------------------------------------------------------

    /// No edge: it moves no row, so nobody is to look for work because of it.
    pub(super) fn note(&mut self, notes: &[Note]) -> rusqlite::Result<Vec<Settled>> {
        notes.iter().map(|note| self.note_one(note)).collect()
    }

    fn note_one(&self, note: &Note) -> rusqlite::Result<Settled> {
        let (id, lease, created_at) = (note.id.row(), note.lease, note.id.created_at());
        let holds = match note.progress.filter(|_| self.is_ours(note.id)) {
            Some(Progress { done, total }) => {
                self.execute(sql!("progress"), params![id, lease, created_at, done, total])? == 1
            }
            None => self.holds(note.id, lease)?,
        };
        if !holds {
            return Ok(self.state(note.id)?.map_or(Settled::Gone, |_| Settled::LeaseLost));
        }
        let forgotten = lease - OUTPUTS_KEPT;
        if forgotten > 0 && note.lines.first().is_some_and(|line| line.seq == 0) {
            self.execute(sql!("forget_output"), params![id, forgotten])?;
        }
        let mut write = self.db.prepare_cached(sql!("write"))?;
        for line in &note.lines {
            write.execute(params![id, lease, line.seq, line.at, line.level.code(), line.text])?;
        }
        Ok(Settled::Applied)
    }

    /// No edge either.
    pub(super) fn record_step(&mut self, step: &NewStep, now: Millis) -> rusqlite::Result<Recorded> {
        if !self.holds(step.id, step.lease)? {
            return Ok(Recorded::LeaseLost);
        }
        let row = step.id.row();
        let record = params![row, step.lease, step.name, step.result, now, step.most as i64];
        if self.execute(sql!("record_step"), record)? == 1 {
            return Ok(Recorded::Stored);
        }
        let there = params![row, step.id.created_at(), step.name];
        Ok(if self.db.prepare_cached(sql!("step"))?.exists(there)? {
            Recorded::Before
        } else {
            Recorded::Full
        })
    }

    fn holds(&self, id: JobId, lease: Lease) -> rusqlite::Result<bool> {
        Ok(self.is_ours(id)
            && self.db.prepare_cached(sql!("holds"))?.exists(params![id.row(), lease, id.created_at()])?)
    }

    // ---- acts of people ---------------------------------------------------------------------

    pub(super) fn cancel(&mut self, ids: &[JobId], now: Millis) -> rusqlite::Result<Vec<Acted>> {
        self.at(now);
        let mut answers = self.act(ids, |desk, id| {
            let cancelled = desk.execute(sql!("cancel"), params![id.row(), id.created_at(), now])?;
            desk.sort_key_of(id.row(), now)?;
            if cancelled == 1 {
                desk.flow_on(id, End::Cancelled, None, now)?;
            }
            Ok(cancelled)
        })?;
        for (id, answer) in ids.iter().zip(&mut answers) {
            if *answer == Acted::WrongState(JobState::Running) {
                self.execute(sql!("ask_cancel"), params![id.row(), id.created_at(), now])?;
                *answer = Acted::Asked;
                (self.wishes, self.touched) = (None, true);
            }
        }
        Ok(answers)
    }

    /// What is wished or promised of this lease; a promise goes before.
    fn wish_for(&mut self, row: i64, lease: Lease) -> rusqlite::Result<Option<Wish>> {
        if self.wishes.is_none() {
            let mut wishes = self.db.prepare_cached(sql!("wishes"))?;
            let wish = |row: &Row<'_>| {
                let wish = if row.get(2)? { Wish::Promised } else { Wish::Cancel };
                Ok(((row.get(0)?, row.get(1)?), wish))
            };
            self.wishes = Some(wishes.query_map([], wish)?.collect::<Result<_, _>>()?);
        }
        Ok(self.wishes.as_ref().and_then(|wishes| wishes.get(&(row, lease)).copied()))
    }

    pub(super) fn retry(&mut self, ids: &[JobId], now: Millis) -> rusqlite::Result<Vec<Acted>> {
        self.at(now);
        let mut answers = Vec::with_capacity(ids.len());
        for &id in ids {
            answers.push(match self.rival(id, true, now)? {
                Some(holder) => Acted::KeyHeld(holder),
                None => self.act_on(id, |desk, id| {
                    let was = desk.state(id)?;
                    if desk.execute(sql!("archive_completed"), params![id.row(), id.created_at()])? == 1 {
                        desk.execute(sql!("forget_steps"), [id.row()])?;
                    }
                    desk.forget(id.row(), Lease::MAX)?;
                    let retried = desk.execute(sql!("retry"), params![id.row(), id.created_at(), now])?;
                    desk.sort_key_of(id.row(), now)?;
                    if let Some(was) = was.filter(|_| retried == 1) {
                        flow_back(desk, id.row(), was)?;
                    }
                    Ok(retried)
                })?,
            });
        }
        self.stirred = true;
        Ok(answers)
    }

    pub(super) fn run_now(&mut self, ids: &[JobId], now: Millis) -> rusqlite::Result<Vec<Acted>> {
        self.at(now);
        let answers = self.act(ids, |desk, id| {
            let moved = desk.execute(sql!("run_now"), params![id.row(), id.created_at(), now])?;
            desk.sort_key_of(id.row(), now)?;
            Ok(moved)
        })?;
        self.stirred = true;
        Ok(answers)
    }

    pub(super) fn delete(&mut self, ids: &[JobId], now: Millis) -> rusqlite::Result<Vec<Acted>> {
        self.at(now);
        self.act(ids, |desk, id| desk.execute(sql!("delete"), params![id.row(), id.created_at()]))
    }

    /// The lanes are read anew, since they know what is paused.
    pub(super) fn pause(&mut self, pause: &Pause) -> rusqlite::Result<()> {
        let Pause { what, paused_at, ends_at, by, note } = pause;
        self.at(*paused_at);
        self.execute(sql!("pause"), params![kind(what), what.name(), paused_at, ends_at, by, note])?;
        self.lanes.doubt();
        // One that ends sooner than the one whose place it took must be heard of.
        self.touched = true;
        Ok(())
    }

    pub(super) fn resume(&mut self, what: &Paused, now: Millis) -> rusqlite::Result<bool> {
        self.at(now);
        let there = self.execute(sql!("resume"), params![kind(what), what.name()])? == 1;
        if there {
            self.lanes.doubt();
            (self.stirred, self.touched) = (true, true);
        }
        Ok(there)
    }

    // ---- what programs say of themselves ------------------------------------------------------

    pub(super) fn subscribe(
        &mut self,
        program: &str,
        follows: &[(String, String)],
        now: Millis,
    ) -> rusqlite::Result<()> {
        self.at(now);
        self.execute(sql!("unsubscribe"), [program])?;
        for (event, job_type) in follows {
            self.execute(sql!("subscribe"), params![program, event, job_type, now])?;
        }
        Ok(())
    }

    /// How many rows were pruned, and how many are done with. Output goes one claim after the other: with many lines, a
    /// transaction ends before the rows do.
    pub(super) fn prune(
        &mut self,
        rows: &[Expired],
        keep: Retention,
        now: Millis,
    ) -> rusqlite::Result<(usize, usize)> {
        let (finished, dead) = (keep.finished.map(millis), keep.dead.map(millis));
        let (mut pruned, mut lines) = (0, 0);
        for (done, row) in rows.iter().enumerate() {
            let condition = params![row.id, now, finished, dead];
            let mut gone = usize::from(row.has_output);
            while gone > 0 {
                gone = self.execute(sql!("prune_output"), condition)?;
                lines += gone;
                if lines >= PRUNE_LINES {
                    return Ok((pruned, done));
                }
            }
            pruned += self.execute(sql!("prune"), condition)?;
            self.touched |= pruned > 0;
        }
        Ok((pruned, rows.len()))
    }

    /// Flows without a job and workers that have been gone for a day, wishes and promises whose lease is over, are of no
    /// use to anybody.
    pub(super) fn forget_the_gone(&mut self, now: Millis) -> rusqlite::Result<()> {
        self.wishes = None;
        self.execute(sql!("forget_cancels"), [])?;
        self.execute(sql!("forget_promises"), [])?;
        self.execute(sql!("forget_flows"), [FLOWS_FORGOTTEN, now])?;
        self.execute(sql!("forget_workers"), [now]).map(drop)
    }

    fn act(
        &mut self,
        ids: &[JobId],
        mut change: impl FnMut(&mut Self, JobId) -> rusqlite::Result<usize>,
    ) -> rusqlite::Result<Vec<Acted>> {
        ids.iter().map(|&id| self.act_on(id, &mut change)).collect()
    }

    fn act_on(
        &mut self,
        id: JobId,
        change: impl FnOnce(&mut Self, JobId) -> rusqlite::Result<usize>,
    ) -> rusqlite::Result<Acted> {
        let done = self.is_ours(id) && change(self, id)? == 1;
        self.touched |= done;
        Ok(match done {
            true => Acted::Done,
            false => self.state(id)?.map_or(Acted::NotFound, Acted::WrongState),
        })
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
}

/// A stored time-out; one that was broken by hand, below zero, is none.
pub(super) fn timeout(millis: i64) -> Timeout {
    Timeout::of_millis(millis.max(0).unsigned_abs())
}

/// A stored version; one that was broken by hand is one that nobody knows.
pub(super) fn version(stored: Option<i64>) -> u32 {
    stored.map_or(1, |version| u32::try_from(version).unwrap_or(u32::MAX))
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

/// A stored text that is always there.
pub(super) fn words(row: &Row<'_>, column: usize) -> rusqlite::Result<String> {
    Ok(text(row, column)?.unwrap_or_default())
}

/// A stored number that is no larger than a `u32` unless a hand wrote it: then it is the nearest one.
pub(super) fn small(row: &Row<'_>, column: usize) -> rusqlite::Result<Option<u32>> {
    let stored: Option<i64> = row.get(column)?;
    Ok(stored.map(|number| u32::try_from(number.max(0)).unwrap_or(u32::MAX)))
}

/// A stored backoff; one that was broken by hand counts as unset.
pub(super) fn backoff(json: Option<String>) -> Option<crate::retry::Backoff> {
    json.and_then(|json| serde_json::from_str(&json).ok())
}
