//! Limits: which hold in which lanes, and how many jobs they let one claim start.

use super::{Desk, small, sql, words};
use crate::{
    job::JobId,
    limit::{Bounds, Bucket, KeyBounds, Limit, Limited, Rate},
    state::JobState,
    time::{Millis, millis},
};
use rusqlite::{Connection, OptionalExtension, Row, params};
use std::{collections::HashMap, time::Duration};

/// All limits that hold, and what is known of them while nobody else writes.
#[derive(Default)]
pub(in super::super) struct Limits {
    all: Vec<Holding>,
    by: HashMap<Limited, usize>,
    lanes: HashMap<i64, Bound>,
    /// Keys of some job type are limited.
    pub(in super::super) keyed: bool,
    /// There are job types whose keys are still to be sorted by a limit that was changed.
    pub(in super::super) resorting: bool,
    /// There are, or may soon be, keys that are to be looked at again.
    pub(in super::super) turns: bool,
    /// There are jobs with a key.
    pub(in super::super) keys: bool,
}

/// The stored numbers of who a limit is from.
const DECLARED: i64 = 0;
const SET: i64 = 1;
/// Full buckets that are dropped in one go at most.
const BUCKETS: i64 = 1000;

/// One limit.
struct Holding {
    of: Limited,
    bounds: Bounds,
    bucket: Bucket,
}

/// What limits the jobs of one lane: the places of those of its queue and of its job type.
#[derive(Clone, Copy)]
pub(in super::super) struct Bound {
    all: [Option<usize>; 2],
    /// Whether its running jobs are counted.
    pub(in super::super) counted: bool,
    pub(in super::super) key: KeyBounds,
}

/// How many jobs each limit lets a claim start.
#[derive(Default)]
pub(in super::super) struct Rooms {
    left: Vec<usize>,
    started: Vec<usize>,
}

/// The stored number of what a limit is of.
pub(super) fn kind(of: &Limited) -> i64 {
    match of {
        Limited::Queue(_) => 0,
        Limited::JobType(_) => 1,
    }
}

/// The stored number of the bucket of a key.
pub(super) const KEY: i64 = 2;

/// One row of limits.sql: what it is of, whether somebody has set it, how it stands.
pub(in super::super) fn limit_row(row: &Row<'_>) -> rusqlite::Result<(Limited, bool, Bounds, Bucket)> {
    let (kind, name) = (row.get::<_, i64>(0)?, words(row, 1)?);
    let rate = |column| -> rusqlite::Result<Option<Rate>> {
        let (starts, per) = (small(row, column)?, small(row, column + 1)?);
        Ok(starts.zip(per).map(|(starts, per)| Rate::new(starts, Duration::from_millis(per.into()))))
    };
    let bounds = Bounds {
        concurrency: small(row, 3)?,
        concurrency_per_key: small(row, 4)?,
        rate: rate(5)?,
        rate_per_key: rate(7)?,
    };
    let bucket = row.get::<_, Option<i64>>(9)?.zip(row.get::<_, Option<i64>>(10)?);
    let bucket = bucket.map_or(Bucket::FULL, |(full_at, parts)| Bucket { full_at, parts });
    let of = if kind == 0 { Limited::Queue(name) } else { Limited::JobType(name) };
    // What no store takes, a hand has written: it is no limit.
    let bounds = if bounds.check(&of).is_ok() { bounds } else { Bounds::NONE };
    Ok((of, row.get::<_, i64>(2)? == 1, bounds, bucket))
}

/// A bucket; one without a row is full.
pub(super) fn bucket(db: &Connection, kind: i64, name: &str) -> rusqlite::Result<Bucket> {
    let found = db
        .prepare_cached(sql!("bucket"))?
        .query_row(params![kind, name], |row| Ok(Bucket { full_at: row.get(0)?, parts: row.get(1)? }))
        .optional()?;
    Ok(found.unwrap_or(Bucket::FULL))
}

pub(super) fn keep_bucket(db: &Connection, kind: i64, name: &str, bucket: Bucket) -> rusqlite::Result<()> {
    let Bucket { full_at, parts } = bucket;
    db.prepare_cached(sql!("set_bucket"))?.execute(params![kind, name, full_at, parts]).map(drop)
}

impl Limits {
    /// Reads them; `marks` is the sum that lanes.sql gives.
    pub(in super::super) fn load(db: &Connection, marks: i64) -> rusqlite::Result<Self> {
        let mark = |bit: i64| marks & bit != 0;
        let mut limits = Self { resorting: mark(2), turns: mark(4), keys: mark(8), ..Self::default() };
        if !mark(1) {
            return Ok(limits);
        }
        let mut read = db.prepare_cached(sql!("limits"))?;
        for row in read.query_map([], limit_row)? {
            let (of, _, bounds, bucket) = row?;
            // What was set comes after what is declared.
            let holding = Holding { of: of.clone(), bounds, bucket };
            match limits.by.get(&of) {
                Some(&at) => limits.all[at] = holding,
                None => {
                    limits.by.insert(of, limits.all.len());
                    limits.all.push(holding);
                }
            }
        }
        limits.keyed = limits.all.iter().any(|limit| limit.bounds.of_key().is_some());
        limits.turns |= limits.farthest_turn().is_some();
        Ok(limits)
    }

    pub(in super::super) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// Notes which limits hold in a lane.
    pub(in super::super) fn cover(&mut self, lane: i64, queue: &str, job_type: &str) {
        if self.is_empty() {
            return;
        }
        let place = |of| self.by.get(&of).copied();
        let all = [place(Limited::Queue(queue.into())), place(Limited::JobType(job_type.into()))];
        if all == [None; 2] {
            return;
        }
        let counted = all.into_iter().flatten().any(|at| self.all[at].bounds.concurrency.is_some());
        let key = all[1].map(|at| self.all[at].bounds.of_key()).unwrap_or_default();
        self.lanes.insert(lane, Bound { all, counted, key });
    }

    /// What limits the jobs of a lane.
    pub(in super::super) fn bound(&self, lane: i64) -> Option<Bound> {
        self.lanes.get(&lane).copied()
    }

    /// What limits the jobs of each key of a job type.
    pub(in super::super) fn key_bounds(&self, job_type: &str) -> KeyBounds {
        if !self.keyed {
            return KeyBounds::default();
        }
        let at = self.by.get(&Limited::JobType(job_type.into()));
        at.map(|at| self.all[*at].bounds.of_key()).unwrap_or_default()
    }

    /// How far ahead the turn of a key may be; `None`: no rate holds for keys.
    pub(in super::super) fn farthest_turn(&self) -> Option<Millis> {
        self.all.iter().filter_map(|limit| limit.bounds.rate_per_key).map(Rate::step).max()
    }

    /// Whether a rate holds for a queue or a job type.
    pub(super) fn has_rates(&self) -> bool {
        self.all.iter().any(|limit| limit.bounds.rate.is_some())
    }

    /// What all limits let start now. Running jobs are counted by their rows, as many as the limits allow.
    pub(in super::super) fn rooms(&mut self, db: &Connection, now: Millis) -> rusqlite::Result<Rooms> {
        if self.is_empty() {
            return Ok(Rooms::default());
        }
        let most = |limit: &Holding| limit.bounds.concurrency.map_or(usize::MAX, |most| most as usize);
        let mut left: Vec<usize> = self.all.iter().map(most).collect();
        if left.iter().any(|left| *left < usize::MAX) {
            let mut counted = db.prepare_cached(sql!("counted"))?;
            let mut counted = counted.query([])?;
            while let Some(row) = counted.next()? {
                let running = row.get::<_, i64>(1)? as usize;
                for at in self.bound(row.get(0)?).iter().flat_map(Bound::places) {
                    left[at] = left[at].saturating_sub(running);
                }
            }
            // Where there is none, the jobs that run do not count.
            left.iter_mut().zip(&self.all).for_each(|(left, limit)| {
                if limit.bounds.concurrency.is_none() {
                    *left = usize::MAX;
                }
            });
        }
        for (left, limit) in left.iter_mut().zip(&mut self.all) {
            if let Some(rate) = limit.bounds.rate {
                limit.bucket = limit.bucket.righted(rate, now);
                *left = limit.bucket.tokens(rate, now).min(*left);
            }
        }
        Ok(Rooms { started: vec![0; left.len()], left })
    }

    /// Takes the tokens of what a claim has started.
    pub(super) fn spend(&mut self, db: &Connection, rooms: &Rooms, now: Millis) -> rusqlite::Result<()> {
        for (limit, started) in self.all.iter_mut().zip(&rooms.started).filter(|(_, started)| **started > 0) {
            if let Some(rate) = limit.bounds.rate {
                limit.bucket = limit.bucket.after(*started, rate, now);
                keep_bucket(db, kind(&limit.of), limit.of.name(), limit.bucket)?;
            }
        }
        Ok(())
    }

    /// Keeps the buckets as they are since the clock was set back.
    pub(super) fn right(&mut self, db: &Connection, now: Millis) -> rusqlite::Result<()> {
        for limit in &mut self.all {
            let Some(rate) = limit.bounds.rate else { continue };
            let righted = limit.bucket.righted(rate, now);
            if righted != limit.bucket {
                limit.bucket = righted;
                keep_bucket(db, kind(&limit.of), limit.of.name(), righted)?;
            }
        }
        Ok(())
    }

    /// When a rate that lets nothing start now lets the next job of one of these lanes start.
    pub(in super::super) fn next_start_at(
        &self,
        lanes: impl Iterator<Item = i64>,
        now: Millis,
    ) -> Option<Millis> {
        let limits =
            lanes.filter_map(|lane| self.bound(lane)).flat_map(|bound| bound.places().collect::<Vec<_>>());
        limits.filter_map(|at| self.closed_until(at, now)).min()
    }

    /// The lanes in which a rate lets nothing start now.
    pub(in super::super) fn closed_by_rates(&self, now: Millis) -> Vec<i64> {
        let closed = |bound: &Bound| bound.places().any(|at| self.closed_until(at, now).is_some());
        self.lanes.iter().filter(|(_, bound)| closed(bound)).map(|(lane, _)| *lane).collect()
    }

    fn closed_until(&self, at: usize, now: Millis) -> Option<Millis> {
        let Holding { bounds, bucket, .. } = &self.all[at];
        next_start_at(bounds, *bucket, now)
    }
}

/// When the next job may start where the rate lets none start now.
pub(in super::super) fn next_start_at(bounds: &Bounds, bucket: Bucket, now: Millis) -> Option<Millis> {
    let rate = bounds.rate?;
    let bucket = bucket.righted(rate, now);
    bucket.next_at(rate, now).filter(|_| bucket.tokens(rate, now) == 0)
}

impl Bound {
    fn places(&self) -> impl Iterator<Item = usize> + use<> {
        self.all.into_iter().flatten()
    }
}

impl Rooms {
    /// How many jobs of this lane may start.
    pub(in super::super) fn of(&self, bound: Option<Bound>) -> usize {
        let places = bound.iter().flat_map(Bound::places).map(|at| self.left[at]);
        places.min().unwrap_or(usize::MAX)
    }

    /// One more has started.
    pub(super) fn take(&mut self, bound: Bound) {
        for at in bound.places() {
            self.left[at] = self.left[at].saturating_sub(1);
            self.started[at] += 1;
        }
    }
}

impl Desk {
    pub(in super::super) fn set_limit(&mut self, limit: &Limit, now: Millis) -> rusqlite::Result<()> {
        self.at(now);
        self.write_limit(&limit.of, &limit.bounds, SET, now)
    }

    /// What is declared holds again.
    pub(in super::super) fn clear_limit(&mut self, of: &Limited, now: Millis) -> rusqlite::Result<bool> {
        self.at(now);
        let before = self.key_bounds(of)?;
        let there = self.execute(sql!("clear_limit"), params![kind(of), of.name(), SET])? == 1;
        if there {
            self.limits_changed(of, before, now)?;
        }
        Ok(there)
    }

    pub(in super::super) fn declare_limits(
        &mut self,
        types: &[(String, Bounds)],
        now: Millis,
    ) -> rusqlite::Result<()> {
        self.at(now);
        for (name, bounds) in types {
            let of = Limited::JobType(name.clone());
            if *bounds != Bounds::NONE {
                self.write_limit(&of, bounds, DECLARED, now)?;
                continue;
            }
            let before = self.key_bounds(&of)?;
            self.execute(sql!("clear_limit"), params![kind(&of), name, DECLARED])?;
            self.limits_changed(&of, before, now)?;
        }
        Ok(())
    }

    fn write_limit(
        &mut self,
        of: &Limited,
        bounds: &Bounds,
        source: i64,
        now: Millis,
    ) -> rusqlite::Result<()> {
        let before = self.key_bounds(of)?;
        let starts = |rate: Option<Rate>| rate.map(|rate| rate.starts);
        let per = |rate: Option<Rate>| rate.map(|rate| millis(rate.per));
        let Bounds { concurrency, concurrency_per_key, rate, rate_per_key: of_key } = *bounds;
        self.execute(
            sql!("set_limit"),
            params![
                kind(of),
                of.name(),
                source,
                concurrency,
                concurrency_per_key,
                starts(rate),
                per(rate),
                starts(of_key),
                per(of_key),
                now
            ],
        )?;
        self.limits_changed(of, before, now)
    }

    fn key_bounds(&mut self, of: &Limited) -> rusqlite::Result<KeyBounds> {
        match of {
            Limited::Queue(_) => Ok(KeyBounds::default()),
            Limited::JobType(name) => Ok(self.lanes.limits(&self.db)?.key_bounds(name)),
        }
    }

    /// The lanes are read anew, since they know what is limited. Jobs that run already are counted from here on, and
    /// those that wait are sorted anew.
    fn limits_changed(&mut self, of: &Limited, before: KeyBounds, now: Millis) -> rusqlite::Result<()> {
        self.lanes.doubt();
        (self.stirred, self.touched) = (true, true);
        let running: Vec<(i64, i64)> = {
            let mut uncounted = self.db.prepare_cached(sql!("uncounted"))?;
            uncounted.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?.collect::<Result<_, _>>()?
        };
        for (row, lane) in running {
            if self.lanes.limits(&self.db)?.bound(lane).is_some_and(|bound| bound.counted) {
                self.execute(sql!("hold"), params![row, lane, JobState::Running.code()])?;
            }
        }
        if self.key_bounds(of)? == before { Ok(()) } else { self.begin_resort(of.name(), now) }
    }

    /// What time and changes bring: tokens come back, keys are sorted anew.
    pub(super) fn tend_limits(&mut self, now: Millis) -> rusqlite::Result<()> {
        let limits = self.lanes.limits(&self.db)?;
        limits.right(&self.db, now)?;
        self.stirred |= limits.has_rates();
        self.take_turns(now)?;
        self.resort(now)
    }

    /// A job that limits count has ended: the next one may start.
    pub(super) fn let_next(&mut self, ended: JobId, now: Millis) -> rusqlite::Result<()> {
        self.stirred = true;
        self.sort_key_of(ended.row(), now)
    }

    /// Drops buckets that are full again; whether there may be more.
    pub(in super::super) fn forget_buckets(&mut self, now: Millis) -> rusqlite::Result<bool> {
        let full: Vec<(i64, String)> = {
            let mut full = self.db.prepare_cached(sql!("full_buckets"))?;
            let rows = full.query_map(params![now, BUCKETS], |row| Ok((row.get(0)?, words(row, 1)?)))?;
            rows.collect::<Result<_, _>>()?
        };
        for bucket in &full {
            self.execute(sql!("clear_bucket"), params![bucket.0, bucket.1])?;
        }
        Ok(full.len() as i64 == BUCKETS)
    }
}
