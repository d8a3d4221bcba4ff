//! Flows on SQLite: what their rules ask of the store, one statement each.

use super::{Desk, sql, text};
use crate::{
    job::{JobId, NewJob},
    store::{
        BatchOutcome, NewFlow,
        flows::{self, End, Flow, Flows, Member},
    },
    time::Millis,
};
use rusqlite::{OptionalExtension, params};
use std::sync::Arc;

impl Desk {
    /// Lays a new flow, all of it; its row, and its jobs so far.
    pub(in super::super) fn lay_flow(
        &mut self,
        new: NewFlow,
        now: Millis,
    ) -> rusqlite::Result<(i64, Vec<JobId>)> {
        flows::lay(self, new, None, now)
    }

    /// A job that may be one of a flow has ended.
    pub(super) fn flow_on(
        &mut self,
        id: JobId,
        end: End,
        output: Option<&str>,
        now: Millis,
    ) -> rusqlite::Result<()> {
        flows::ended(self, id.row(), end, output, now)
    }
}

impl Flows for Desk {
    type Error = rusqlite::Error;

    fn member(&mut self, job: i64) -> rusqlite::Result<Option<Member>> {
        let mut look = self.db.prepare_cached(sql!("member"))?;
        look.query_row([job], |row| Ok(Member { flow: row.get(0)?, links: text(row, 1)? })).optional()
    }

    fn pass(&mut self, job: i64) -> rusqlite::Result<()> {
        self.execute(sql!("pass"), [job]).map(drop)
    }

    fn lay(
        &mut self,
        jobs: Vec<(NewJob, Option<String>)>,
        flow: i64,
        now: Millis,
    ) -> rusqlite::Result<Vec<JobId>> {
        let (jobs, links): (Vec<NewJob>, Vec<Option<String>>) = jobs.into_iter().unzip();
        let laid = self.enqueue(&Arc::new(jobs), now)?;
        self.lay()?;
        let mut join = self.db.prepare_cached(sql!("join_flow"))?;
        for (job, links) in laid.iter().zip(links) {
            join.execute(params![job.id.row(), flow, links])?;
        }
        Ok(laid.into_iter().map(|job| job.id).collect())
    }

    fn found(&mut self, flow: &Flow, now: Millis) -> rusqlite::Result<i64> {
        let Flow { total, follow, parent, .. } = flow;
        self.touched = true;
        let mut found = self.db.prepare_cached(sql!("found"))?;
        found.query_row(params![*total as i64, follow, parent, now], |row| row.get(0))
    }

    fn flow(&mut self, flow: i64) -> rusqlite::Result<Option<Flow>> {
        let mut look = self.db.prepare_cached(sql!("flow"))?;
        look.query_row([flow], |row| {
            let count = |column| row.get::<_, i64>(column).map(i64::unsigned_abs);
            Ok(Flow {
                total: count(0)?,
                outcome: BatchOutcome { succeeded: count(1)?, failed: count(2)?, cancelled: count(3)? },
                follow: text(row, 4)?,
                parent: row.get(5)?,
                joined_at: row.get(6)?,
            })
        })
        .optional()
    }

    fn keep(&mut self, row: i64, flow: &Flow) -> rusqlite::Result<()> {
        let BatchOutcome { succeeded, failed, cancelled } = flow.outcome;
        let counts = [succeeded, failed, cancelled].map(|count| count as i64);
        self.execute(sql!("keep_flow"), params![row, counts[0], counts[1], counts[2], flow.joined_at])
            .map(drop)
    }
}
