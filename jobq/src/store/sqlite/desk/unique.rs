//! Unique keys: who holds one, and what becomes of a job that wants it.
//!
//! Whether a job holds its key is worked out by the index itself (0006_unique.sql), so an edge frees it by moving the job
//! and no statement more. Only where a job comes back to a state in which it would hold its key, and another has taken it
//! meanwhile, does the database refuse; then the job goes on without.

use super::{Desk, Inserted, keys, sql};
use crate::{
    job::{JobField, JobId, NewJob, OnConflict, UniqueKey},
    state::{JobState, StateSet},
    store::{Enqueued, Landed, StoreError},
    time::Millis,
};
use rusqlite::{OptionalExtension, Row, params};
use std::sync::Arc;

/// A job that holds a key.
pub(in super::super) struct Holder {
    pub(in super::super) id: JobId,
    state: JobState,
    states: StateSet,
    /// The end of its window.
    until: Option<Millis>,
    job_type: String,
}

/// What becomes of a job whose key this holder has.
pub(in super::super) enum Decision {
    /// The holder's window is over: it makes way.
    Lapsed,
    /// The holder stays as it is.
    Existing,
    /// The holder takes something over.
    Replace,
    /// It is an error.
    Refuse,
}

impl Holder {
    fn has_lapsed(&self, now: Millis) -> bool {
        !self.states.contains(self.state) && self.until.is_some_and(|end| end <= now)
    }

    pub(in super::super) fn decide(&self, new: &NewJob, unique: &UniqueKey, now: Millis) -> Decision {
        let waits = matches!(self.state, JobState::Scheduled | JobState::Pending);
        match unique.on_conflict {
            _ if self.has_lapsed(now) => Decision::Lapsed,
            OnConflict::Reject => Decision::Refuse,
            OnConflict::Replace(_) if waits && self.job_type == new.job_type => Decision::Replace,
            OnConflict::Keep | OnConflict::Replace(_) => Decision::Existing,
        }
    }

    /// The columns of holder.sql and holders_in.sql.
    pub(in super::super) fn new(
        id: JobId,
        state: i64,
        states: Option<i64>,
        until: Option<Millis>,
        job_type: String,
    ) -> Self {
        let state = JobState::from_code(state).unwrap_or(JobState::Dead);
        Self { id, state, states: states.map_or(StateSet::NONE, StateSet::from_code), until, job_type }
    }
}

impl Desk {
    /// All or none of these jobs, where one of them is to be rejected if its key is held.
    pub(in super::super) fn enqueue_or_refuse(
        &mut self,
        jobs: &Arc<Vec<NewJob>>,
        now: Millis,
    ) -> rusqlite::Result<Result<Vec<Enqueued>, StoreError>> {
        self.lay()?;
        let first = self.next_row()?;
        self.execute("SAVEPOINT enqueue", [])?;
        let enqueued = self.enqueue(jobs, now)?;
        let refused =
            enqueued.iter().zip(&**jobs).position(|(landed, job)| !landed.is_new() && job.rejects());
        if refused.is_some() {
            self.execute("ROLLBACK TO enqueue", [])?;
            self.lanes.doubt();
            self.inserts.next_row = Some(first);
        }
        self.execute("RELEASE enqueue", [])?;
        Ok(match refused {
            None => Ok(enqueued),
            Some(place) => Err(StoreError::Duplicate {
                place,
                key: jobs[place].unique.as_ref().map(|unique| unique.key.clone()).unwrap_or_default(),
                existing: Some(enqueued[place].id).filter(|id| id.row() < first),
            }),
        })
    }

    /// One job after the other, each by its key: what one lays, the next one meets.
    pub(super) fn enqueue_unique(&mut self, jobs: &[NewJob], now: Millis) -> rusqlite::Result<Vec<Enqueued>> {
        self.lay()?;
        self.touched = true;
        jobs.iter().map(|job| self.enqueue_one(job, now)).collect()
    }

    fn enqueue_one(&mut self, job: &NewJob, now: Millis) -> rusqlite::Result<Enqueued> {
        let lane = self.lane(&job.queue, &job.job_type)?;
        let inserted = Inserted::of(job, now);
        let row = self.next_row()?;
        if self.insert_one(row, lane, job, &inserted, now)? {
            return Ok(Enqueued::new(JobId::compose(now, row, self.tag)));
        }
        let unique = job.unique.as_deref().ok_or(rusqlite::Error::QueryReturnedNoRows)?;
        let holder = self.holder(&unique.key, &unique.scope)?.ok_or(rusqlite::Error::QueryReturnedNoRows)?;
        let landed = match holder.decide(job, unique, now) {
            Decision::Existing | Decision::Refuse => Landed::Existing,
            Decision::Replace => {
                self.replace(&holder, job, unique, &inserted, now)?;
                Landed::Replaced
            }
            Decision::Lapsed => {
                self.execute(sql!("lapse"), [holder.id.row()])?;
                return match self.insert_one(row, lane, job, &inserted, now)? {
                    true => Ok(Enqueued::new(JobId::compose(now, row, self.tag))),
                    false => Err(rusqlite::Error::QueryReturnedNoRows),
                };
            }
        };
        Ok(Enqueued { id: holder.id, landed })
    }

    /// Whether nobody else holds its key.
    fn insert_one(
        &mut self,
        row: i64,
        lane: i64,
        job: &NewJob,
        inserted: &Inserted,
        now: Millis,
    ) -> rusqlite::Result<bool> {
        let unique = job.unique.as_deref();
        let laid = self.execute(
            sql!("enqueue_unique"),
            params![
                row,
                lane,
                inserted.state.code(),
                job.priority,
                inserted.run_at,
                job.max_attempts,
                inserted.timeout,
                inserted.retain,
                inserted.backoff,
                job.label,
                job.payload,
                now,
                unique.map(|unique| &unique.key),
                unique.map(|unique| &unique.scope),
                unique.map(|unique| unique.states.code()),
                inserted.unique_until,
                inserted.version,
                job.concurrency_key.as_ref().map(|key| keys::stored(&job.job_type, key))
            ],
        )? == 1;
        if laid {
            if job.concurrency_key.is_some() {
                self.sort_key_of(row, now)?;
            }
            self.stirred |= inserted.state == JobState::Pending;
            self.inserts.next_row = Some(row + 1);
        }
        Ok(laid)
    }

    fn holder(&self, key: &str, scope: &str) -> rusqlite::Result<Option<Holder>> {
        let mut look = self.db.prepare_cached(sql!("holder"))?;
        let holder = |row: &Row<'_>| {
            let id = JobId::compose(row.get(1)?, row.get(0)?, self.tag);
            Ok(Holder::new(id, row.get(2)?, row.get(3)?, row.get(4)?, row.get(5)?))
        };
        look.query_row([key, scope], holder).optional()
    }

    fn replace(
        &mut self,
        holder: &Holder,
        new: &NewJob,
        unique: &UniqueKey,
        inserted: &Inserted,
        now: Millis,
    ) -> rusqlite::Result<()> {
        let OnConflict::Replace(fields) = unique.on_conflict else { return Ok(()) };
        let turn = self.key_of(holder.id.row())?;
        self.execute(
            sql!("replace"),
            params![
                holder.id.row(),
                fields.bits(),
                new.payload,
                new.label,
                inserted.run_at,
                inserted.state.code(),
                new.priority,
                new.queue,
                new.job_type,
                new.max_attempts,
                inserted.timeout,
                inserted.backoff,
                inserted.retain,
                now,
                inserted.version,
                new.concurrency_key.as_ref().map(|key| keys::stored(&new.job_type, key))
            ],
        )?;
        if let Some(former) = turn {
            self.sort_key(&former, now)?;
        }
        self.sort_key_of(holder.id.row(), now)?;
        let due = fields.contains(JobField::RunAt) && inserted.state == JobState::Pending;
        // In another lane it may meet a claim that stands there.
        self.stirred |= due || fields.contains(JobField::Queue);
        Ok(())
    }

    /// Who else holds the key of a job that has `ended`, or else runs. A window that is over ends here.
    pub(super) fn rival(&self, id: JobId, ended: bool, now: Millis) -> rusqlite::Result<Option<JobId>> {
        if !self.is_ours(id) {
            return Ok(None);
        }
        let mut look = self.db.prepare_cached(sql!("own_key"))?;
        let key = |row: &Row<'_>| Ok((row.get::<_, String>(0)?, row.get::<_, String>(1)?));
        let own = look.query_row(params![id.row(), id.created_at(), ended], key).optional()?;
        let Some((key, scope)) = own else { return Ok(None) };
        let rival = self.holder(&key, &scope)?.filter(|holder| holder.id != id);
        match rival {
            Some(lapsed) if lapsed.has_lapsed(now) => {
                self.execute(sql!("lapse"), [lapsed.id.row()])?;
                Ok(None)
            }
            rival => Ok(rival.map(|rival| rival.id)),
        }
    }

    /// Makes a change that may bring a job back to a state in which it would hold its key; where another has it, the job
    /// goes on without.
    pub(super) fn with_or_without_key(
        &self,
        id: JobId,
        now: Millis,
        change: &mut dyn FnMut() -> rusqlite::Result<usize>,
    ) -> rusqlite::Result<usize> {
        match change() {
            Err(rusqlite::Error::SqliteFailure(error, _))
                if error.extended_code == rusqlite::ffi::SQLITE_CONSTRAINT_UNIQUE =>
            {
                if self.rival(id, false, now)?.is_some() {
                    self.execute(sql!("let_go"), [id.row()])?;
                }
                change()
            }
            changed => changed,
        }
    }
}
