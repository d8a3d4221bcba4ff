//! Schedules at the desk: their rows, and the tick that moves one on and enqueues its job in the same transaction.

use super::{Desk, sql};
use crate::{
    job::{JobId, MAX_ERROR, NewJob, cut},
    schedule::Overlap,
    store::{NewSchedule, TICKS_KEPT, Ticked, Turn},
    time::Millis,
};
use rusqlite::{OptionalExtension, params};
use std::sync::Arc;

impl Desk {
    pub(in super::super) fn put_schedule(
        &mut self,
        new: &NewSchedule,
        now: Millis,
    ) -> rusqlite::Result<bool> {
        self.at(now);
        let put = params![
            new.id,
            new.job_type,
            new.payload,
            new.cron_expr,
            new.tz,
            new.catch_up.to_string(),
            new.overlap.as_str(),
            new.source.as_str(),
            new.options,
            new.next_run,
            new.enabled,
            now,
            new.version
        ];
        Ok(self.execute(sql!("put_schedule"), put)? == 1)
    }

    pub(in super::super) fn tick(
        &mut self,
        id: &str,
        turn: Option<Turn>,
        job: Option<&Arc<Vec<NewJob>>>,
        overlap: Overlap,
        now: Millis,
    ) -> rusqlite::Result<Ticked> {
        self.at(now);
        if let Some(Turn { due, at, next }) = turn {
            let at = job.map(|_| at);
            if self.execute(sql!("tick"), params![id, due, at, next, now])? == 0 {
                return Ok(Ticked::NotDue);
            }
        }
        let last_job = match self.last_job(id)? {
            Some(last_job) => last_job,
            None => return Ok(Ticked::NotDue),
        };
        let Some(job) = job else { return Ok(Ticked::Passed) };
        let mut live = None;
        if let Some(last) = last_job.filter(|_| overlap == Overlap::Skip) {
            // One that was gathered and not laid yet is not found otherwise.
            self.lay()?;
            live = self.state(last)?.filter(|state| !state.is_terminal()).map(|_| last);
        }
        // Where another job holds its unique key, that one is the tick's.
        let made = match live {
            Some(_) => None,
            None => self.enqueue(job, now)?.first().map(|enqueued| enqueued.id),
        };
        let (row, made_at) = (made.map(JobId::row), made.map(JobId::created_at));
        if made.is_some() || turn.is_some() {
            self.execute(sql!("ticked"), params![id, row, made_at, now])?;
        }
        if let Some(turn) = turn {
            self.execute(sql!("keep_tick"), params![id, turn.at, row, made_at])?;
            self.execute(sql!("forget_ticks"), params![id, TICKS_KEPT as i64])?;
        }
        Ok(match (made, live) {
            (Some(job), _) => Ticked::Enqueued(job),
            (None, Some(job)) => Ticked::Overlapped(job),
            (None, None) => Ticked::Passed,
        })
    }

    /// The latest job of a schedule; the outer `None`: there is no such schedule.
    fn last_job(&self, id: &str) -> rusqlite::Result<Option<Option<JobId>>> {
        let tag = self.tag;
        let mut look = self.db.prepare_cached(sql!("last_job"))?;
        let found = look.query_row([id], |row| {
            let (job, at) = (row.get::<_, Option<i64>>(0)?, row.get::<_, Option<Millis>>(1)?);
            Ok(job.zip(at).map(|(job, at)| JobId::compose(at, job, tag)))
        });
        found.optional()
    }

    pub(in super::super) fn enable_schedule(
        &mut self,
        id: &str,
        next: Millis,
        now: Millis,
    ) -> rusqlite::Result<bool> {
        self.at(now);
        Ok(self.execute(sql!("enable_schedule"), params![id, next, now])? == 1)
    }

    pub(in super::super) fn disable_schedule(&mut self, id: &str, now: Millis) -> rusqlite::Result<bool> {
        self.at(now);
        Ok(self.execute(sql!("disable_schedule"), params![id, now])? == 1)
    }

    pub(in super::super) fn delete_schedule(&mut self, id: &str, now: Millis) -> rusqlite::Result<bool> {
        self.at(now);
        Ok(self.execute(sql!("delete_schedule"), [id])? == 1)
    }

    pub(in super::super) fn blame_schedule(
        &mut self,
        id: &str,
        error: &str,
        now: Millis,
    ) -> rusqlite::Result<()> {
        self.at(now);
        self.execute(sql!("blame_schedule"), params![id, cut(error, MAX_ERROR), now]).map(drop)
    }
}
