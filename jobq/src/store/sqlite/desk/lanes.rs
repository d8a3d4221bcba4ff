//! Lanes: the (queue, job type) pairs, and which are paused or limited, as far as they are committed or laid in the open
//! transaction.

use super::{
    Desk, backoff,
    limits::{Bound, Limits},
    small, sql, text, timeout, version, words,
};
use crate::{
    job::JobId,
    store::{ClaimSet, Claimed, Paused, Ties},
    time::Millis,
};
use rusqlite::{Connection, Row, params};
use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

/// A job that may be about to start.
pub(super) struct Taken {
    pub(super) job: Claimed,
    pub(super) lane: i64,
    pub(super) key: Option<String>,
    pub(super) bound: Option<Bound>,
    pub(super) parked: bool,
}

/// With more lanes than this to choose from, those without work are left out by one walk through the index.
const FEW: usize = 8;

/// See the module.
#[derive(Default)]
pub(super) struct Lanes {
    loaded: bool,
    ids: HashMap<String, HashMap<String, i64>>,
    names: HashMap<i64, (Arc<str>, Arc<str>)>,
    pauses: Pauses,
    limits: Limits,
}

/// What is paused, and when the first pause ends by itself.
#[derive(Default)]
pub(in super::super) struct Pauses {
    queues: HashSet<String>,
    job_types: HashSet<String>,
    pub(in super::super) next_end: Option<Millis>,
}

impl Pauses {
    /// Whether nobody may claim from this lane for now.
    pub(in super::super) fn cover(&self, queue: &str, job_type: &str) -> bool {
        self.queues.contains(queue) || self.job_types.contains(job_type)
    }
}

/// The stored number of what a pause is of.
pub(super) fn kind(what: &Paused) -> i64 {
    match what {
        Paused::Queue(_) => 0,
        Paused::JobType(_) => 1,
    }
}

/// What a pause of this stored number and name is of.
pub(in super::super) fn paused(kind: i64, name: String) -> Paused {
    if kind == 0 { Paused::Queue(name) } else { Paused::JobType(name) }
}

/// What lanes.sql says in a pause's place of which limits there are.
const LIMITS: i64 = 2;

/// Gives each lane to `take`, in no order; what of them is paused, and what is limited.
pub(in super::super) fn each_lane(
    db: &Connection,
    mut take: impl FnMut(i64, String, String),
) -> rusqlite::Result<(Pauses, Limits)> {
    let (mut pauses, mut marks) = (Pauses::default(), 0);
    let mut rows = db.prepare_cached(sql!("lanes"))?;
    let mut rows = rows.query([])?;
    while let Some(row) = rows.next()? {
        match row.get::<_, Option<i64>>(3)? {
            None => take(row.get(0)?, words(row, 1)?, words(row, 2)?),
            Some(LIMITS) => marks = row.get(0)?,
            Some(kind) => {
                match paused(kind, words(row, 1)?) {
                    Paused::Queue(name) => pauses.queues.insert(name),
                    Paused::JobType(name) => pauses.job_types.insert(name),
                };
                let end: Option<Millis> = row.get(0)?;
                pauses.next_end = pauses.next_end.into_iter().chain(end).min();
            }
        }
    }
    Ok((pauses, Limits::load(db, marks)?))
}

impl Lanes {
    /// They are to be read anew.
    pub(super) fn doubt(&mut self) {
        self.loaded = false;
    }

    fn load(&mut self, db: &Connection) -> rusqlite::Result<()> {
        if !self.loaded {
            *self = Self::default();
            let (pauses, limits) = each_lane(db, |lane, queue, job_type| self.add(lane, queue, job_type))?;
            (self.pauses, self.limits) = (pauses, limits);
            for (lane, (queue, job_type)) in &self.names {
                self.limits.cover(*lane, queue, job_type);
            }
            self.loaded = true;
        }
        Ok(())
    }

    /// What is paused.
    pub(super) fn pauses(&mut self, db: &Connection) -> rusqlite::Result<&Pauses> {
        self.load(db)?;
        Ok(&self.pauses)
    }

    /// What is limited.
    pub(super) fn limits(&mut self, db: &Connection) -> rusqlite::Result<&mut Limits> {
        self.load(db)?;
        Ok(&mut self.limits)
    }

    fn add(&mut self, lane: i64, queue: String, job_type: String) {
        self.ids.entry(queue.clone()).or_default().insert(job_type.clone(), lane);
        self.limits.cover(lane, &queue, &job_type);
        self.names.insert(lane, (queue.into(), job_type.into()));
    }

    /// The lanes that a worker with this set may claim from now; where there are many, those of them that have work.
    pub(super) fn of(&mut self, db: &Connection, set: &ClaimSet) -> rusqlite::Result<Vec<i64>> {
        self.load(db)?;
        let lanes = self.ids.iter().filter(|(queue, _)| set.serves(queue));
        let pauses = &self.pauses;
        let mut lanes: Vec<i64> = lanes
            .flat_map(|(queue, types)| {
                let open = set.job_types.iter().filter(move |name| !pauses.cover(queue, name));
                open.filter_map(|name| types.get(name).copied())
            })
            .collect();
        if lanes.len() > FEW {
            let mut ready = db.prepare_cached(sql!("ready"))?;
            let ready: HashSet<i64> = ready.query_map([], |row| row.get(0))?.collect::<Result<_, _>>()?;
            lanes.retain(|lane| ready.contains(lane));
        }
        Ok(lanes)
    }

    /// A row of taken.sql.
    pub(super) fn taken(&self, row: i64, tag: u32, got: &Row<'_>) -> rusqlite::Result<Taken> {
        let lane = got.get(2)?;
        let (key, bound) = (got.get::<_, Option<String>>(11)?, self.limits.bound(lane));
        let limited = key.is_some() || bound.is_some_and(|bound| bound.counted);
        let job = self.claimed(row, tag, got, Ties { limited, flow: got.get(13)?, ..Ties::NONE })?;
        Ok(Taken { job, lane, key, bound, parked: got.get::<_, i64>(12)? > 0 })
    }

    fn claimed(&self, row: i64, tag: u32, got: &Row<'_>, ties: Ties) -> rusqlite::Result<Claimed> {
        let (queue, job_type) = self.names.get(&got.get(2)?).cloned().unwrap_or_default();
        Ok(Claimed {
            id: JobId::compose(got.get(0)?, row, tag),
            lease: got.get(1)?,
            job_type,
            queue,
            attempt: small(got, 3)?.unwrap_or_default(),
            max_attempts: small(got, 4)?.unwrap_or_default(),
            priority: got.get(5)?,
            run_at: got.get(6)?,
            timeout: got.get::<_, Option<i64>>(7)?.map(timeout),
            backoff: backoff(text(got, 8)?),
            payload: text(got, 9)?.unwrap_or_default(),
            version: version(got.get(10)?),
            ties,
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
