//! Lanes: the (queue, job type) pairs, as far as they are committed or laid in the open transaction.

use super::{Desk, backoff, sql, text, timeout};
use crate::{
    job::JobId,
    store::{ClaimSet, Claimed},
};
use rusqlite::{Connection, Row, params};
use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

/// With more lanes than this to choose from, those without work are left out by one walk through the index.
const FEW: usize = 8;

/// See the module.
#[derive(Default)]
pub(super) struct Lanes {
    loaded: bool,
    ids: HashMap<String, HashMap<String, i64>>,
    names: HashMap<i64, (Arc<str>, Arc<str>)>,
}

impl Lanes {
    /// They are to be read anew.
    pub(super) fn doubt(&mut self) {
        self.loaded = false;
    }

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

    /// The lanes that a worker with this set may claim from; where there are many, those of them that have work.
    pub(super) fn of(&mut self, db: &Connection, set: &ClaimSet) -> rusqlite::Result<Vec<i64>> {
        self.load(db)?;
        let lanes = self.ids.iter().filter(|(queue, _)| set.serves(queue));
        let mut lanes: Vec<i64> = lanes
            .flat_map(|(_, types)| set.job_types.iter().filter_map(|name| types.get(name).copied()))
            .collect();
        if lanes.len() > FEW {
            let mut ready = db.prepare_cached(sql!("ready"))?;
            let ready: HashSet<i64> = ready.query_map([], |row| row.get(0))?.collect::<Result<_, _>>()?;
            lanes.retain(|lane| ready.contains(lane));
        }
        Ok(lanes)
    }

    pub(super) fn claimed(&self, row: i64, tag: u32, got: &Row<'_>) -> rusqlite::Result<Claimed> {
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

impl Desk {
    /// The lane of a job; laid where it is new.
    pub(super) fn lane(&mut self, queue: &str, job_type: &str) -> rusqlite::Result<i64> {
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
