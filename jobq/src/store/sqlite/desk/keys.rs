//! Keys: whose turn it is. As many jobs of a key as may start wait where claims see them, its first ones in each lane; the
//! others are parked, so that they cost a claim nothing, and each end of a job brings up the next.

use super::{
    Desk,
    limits::{KEY, bucket, keep_bucket},
    sql,
};
use crate::{limit::KeyBounds, time::Millis};
use rusqlite::{Connection, OptionalExtension, params};
use std::collections::BTreeMap;

/// Jobs that are parked or brought up in one go at most, and keys that are looked at.
const MOVES: usize = 1000;
/// Keys that one look for stranded jobs goes through.
const LOOKS: usize = 16;

/// The text under which jobs of one type and key are counted: no type has a tab in its name.
pub(in super::super) fn stored(job_type: &str, key: &str) -> String {
    format!("{job_type}\t{key}")
}

/// The key as it was given.
pub(in super::super) fn shown(stored: String) -> String {
    stored.split_once('\t').map_or(stored.clone(), |(_, key)| key.to_owned())
}

fn job_type(stored: &str) -> &str {
    stored.split_once('\t').map_or(stored, |(job_type, _)| job_type)
}

/// A job's place in the order of claims, the first ones least.
type Place = (i64, Millis, i64);

/// How many jobs of a key may start, and when it may be more without anybody's doing.
struct Room {
    jobs: usize,
    grows_at: Option<Millis>,
}

fn room(db: &Connection, key: &str, bounds: KeyBounds, now: Millis) -> rusqlite::Result<Room> {
    let mut jobs = usize::MAX;
    if let Some(most) = bounds.concurrency {
        let mut count = db.prepare_cached(sql!("key_running"))?;
        let running: i64 = count.query_row(params![key, most], |row| row.get(0))?;
        jobs = (i64::from(most) - running).max(0) as usize;
    }
    let mut grows_at = None;
    if let Some(rate) = bounds.rate.filter(|_| jobs > 0) {
        let stored = bucket(db, KEY, key)?;
        let bucket = stored.righted(rate, now);
        let tokens = bucket.tokens(rate, now);
        if tokens < jobs {
            grows_at = bucket.next_at(rate, now);
            jobs = tokens;
        }
    }
    Ok(Room { jobs, grows_at })
}

/// What sorting a key's waiting jobs changes.
#[derive(Default)]
struct Sorting {
    /// Each with its lane.
    park: Vec<(i64, i64)>,
    bring_up: Vec<i64>,
    /// Some stay parked.
    parked: bool,
    /// There may be more to change.
    cut: bool,
}

/// How a key's waiting jobs are to be sorted: in each lane the first ones may be claimed, as many as may start.
fn sorting(db: &Connection, key: &str, room: usize) -> rusqlite::Result<Sorting> {
    let mut lanes = BTreeMap::<i64, bool>::new();
    let mut read = db.prepare_cached(sql!("key_lanes"))?;
    for lane in read.query_map([key], |row| Ok((row.get(0)?, row.get::<_, i64>(1)? == 1)))? {
        let (lane, parked) = lane?;
        *lanes.entry(lane).or_default() |= parked;
    }
    let places = |sql: &str, lane: i64, limit: usize| -> rusqlite::Result<Vec<Place>> {
        let mut read = db.prepare_cached(sql)?;
        let place = read.query_map(params![key, lane, limit as i64], |row| {
            Ok((-row.get::<_, i64>(1)?, row.get(2)?, row.get(0)?))
        });
        place?.collect()
    };
    let mut sorting = Sorting::default();
    for (lane, has_parked) in lanes {
        let wanted = room.min(MOVES);
        let parked = if has_parked { places(sql!("key_parked"), lane, wanted + 1)? } else { Vec::new() };
        // Without a limit nothing that may be claimed is to be parked.
        let most = if room == usize::MAX { 0 } else { room.saturating_add(MOVES) };
        let ready = if most > 0 { places(sql!("key_heads"), lane, most)? } else { Vec::new() };
        sorting.cut |= (room > MOVES && parked.len() > MOVES) || (most > 0 && ready.len() == most);
        let (mut first_parked, mut first_ready) = (parked.iter().peekable(), ready.iter().peekable());
        for _ in 0..room {
            let next_is_parked = match (first_parked.peek(), first_ready.peek()) {
                (Some(parked), Some(ready)) => parked < ready,
                (parked, None) => parked.is_some(),
                (None, Some(_)) => false,
            };
            let full = sorting.bring_up.len() == MOVES;
            sorting.cut |= next_is_parked && full;
            if next_is_parked && !full {
                sorting.bring_up.extend(first_parked.next().map(|place| place.2));
            } else if first_ready.next().is_none() {
                break;
            }
        }
        sorting.parked |= first_parked.next().is_some();
        let over: Vec<_> = first_ready.map(|place| (place.2, lane)).collect();
        sorting.parked |= !over.is_empty();
        sorting.park.extend(over);
    }
    Ok(sorting)
}

/// What came of sorting a key.
#[derive(Clone, Copy, Default)]
pub(super) struct Sorted {
    /// Jobs may be claimed that could not be before.
    pub(super) brought_up: bool,
    pub(super) moves: usize,
    /// There may be more to sort.
    pub(super) cut: bool,
}

/// Sorts the waiting jobs of a key by what may start now.
pub(super) fn sort(db: &Connection, key: &str, bounds: KeyBounds, now: Millis) -> rusqlite::Result<Sorted> {
    let Room { jobs, grows_at } = room(db, key, bounds, now)?;
    let Sorting { park, bring_up, parked, cut } = sorting(db, key, jobs)?;
    let mut hold = db.prepare_cached(sql!("hold"))?;
    for (row, lane) in &park {
        hold.execute(params![row, lane, 1])?;
    }
    for row in &bring_up {
        hold.execute(params![row, 0, 1])?;
    }
    if let Some(rate) = bounds.rate {
        let stored = bucket(db, KEY, key)?;
        let righted = stored.righted(rate, now);
        if righted != stored {
            keep_bucket(db, KEY, key, righted)?;
        }
        match grows_at.filter(|_| parked) {
            Some(at) => db.prepare_cached(sql!("set_turn"))?.execute(params![key, at])?,
            None => db.prepare_cached(sql!("clear_turn"))?.execute([key])?,
        };
    }
    Ok(Sorted { brought_up: !bring_up.is_empty(), moves: park.len() + bring_up.len(), cut })
}

/// A job of a key starts: its token is taken, and what may not start beside it any more is parked.
pub(super) fn start(db: &Connection, key: &str, bounds: KeyBounds, now: Millis) -> rusqlite::Result<()> {
    if let Some(rate) = bounds.rate {
        let bucket = bucket(db, KEY, key)?.righted(rate, now).after(1, rate, now);
        keep_bucket(db, KEY, key, bucket)?;
        return sort(db, key, bounds, now).map(drop);
    }
    // In one lane there are never more than may start; those of others are not known there.
    let Room { jobs, .. } = room(db, key, bounds, now)?;
    let most = i64::try_from(jobs.saturating_add(1)).unwrap_or(i64::MAX);
    let ready: i64 = db.prepare_cached(sql!("key_ready"))?.query_row(params![key, most], |row| row.get(0))?;
    if ready == most { sort(db, key, bounds, now).map(drop) } else { Ok(()) }
}

/// Whether one more job of this key may start.
pub(super) fn may_start(
    db: &Connection,
    key: &str,
    bounds: KeyBounds,
    now: Millis,
) -> rusqlite::Result<bool> {
    Ok(room(db, key, bounds, now)?.jobs > 0)
}

/// Parks a pending job.
pub(super) fn park(db: &Connection, row: i64, lane: i64) -> rusqlite::Result<()> {
    db.prepare_cached(sql!("hold"))?.execute(params![row, lane, 1]).map(drop)
}

/// Some of the keys after `cursor` whose parked jobs could be claimed and that nobody brought up: after an older build, a
/// hand in the tables, or a fault. The cursor goes round through all keys.
pub(in super::super) fn stranded(
    db: &Connection,
    cursor: &mut String,
    bounds: impl Fn(&str) -> KeyBounds,
    now: Millis,
) -> rusqlite::Result<Vec<String>> {
    let mut found = Vec::new();
    let mut next = db.prepare_cached(sql!("next_key"))?;
    for _ in 0..LOOKS {
        let key: Option<String> = next.query_row([&*cursor], |row| row.get(0)).optional()?;
        let Some(key) = key else {
            cursor.clear();
            break;
        };
        let room = room(db, &key, bounds(job_type(&key)), now)?;
        if !sorting(db, &key, room.jobs)?.bring_up.is_empty() {
            found.push(key.clone());
        }
        *cursor = key;
    }
    Ok(found)
}

impl Desk {
    /// Sorts a key whose jobs came, went or may start now.
    pub(super) fn sort_key(&mut self, key: &str, now: Millis) -> rusqlite::Result<Sorted> {
        let bounds = self.lanes.limits(&self.db)?.key_bounds(job_type(key));
        let sorted = sort(&self.db, key, bounds, now)?;
        self.stirred |= sorted.brought_up;
        Ok(sorted)
    }

    /// The same for the key of this job, if it has one that is limited.
    pub(super) fn sort_key_of(&mut self, row: i64, now: Millis) -> rusqlite::Result<()> {
        self.key_of(row)?.map_or(Ok(()), |key| self.sort_key(&key, now).map(drop))
    }

    /// The key of this job, where keys are limited.
    pub(super) fn key_of(&mut self, row: i64) -> rusqlite::Result<Option<String>> {
        if !self.lanes.limits(&self.db)?.keyed {
            return Ok(None);
        }
        self.db.prepare_cached(sql!("key"))?.query_row([row], |row| row.get(0)).optional()
    }

    /// Whether there is a key whose turn to be looked at has come.
    pub(super) fn turn_is_due(&mut self, now: Millis) -> rusqlite::Result<bool> {
        let limits = self.lanes.limits(&self.db)?;
        let farthest = limits.farthest_turn().unwrap_or_default();
        Ok(limits.turns && self.db.prepare_cached(sql!("turns"))?.exists(params![now, farthest, 1])?)
    }

    /// Looks at the keys whose turn to be looked at has come.
    pub(super) fn take_turns(&mut self, now: Millis) -> rusqlite::Result<()> {
        let limits = self.lanes.limits(&self.db)?;
        if !limits.turns {
            return Ok(());
        }
        let farthest = limits.farthest_turn();
        let keys: Vec<String> = {
            let mut turns = self.db.prepare_cached(sql!("turns"))?;
            let farthest = farthest.unwrap_or_default();
            turns
                .query_map(params![now, farthest, MOVES as i64], |row| row.get(0))?
                .collect::<Result<_, _>>()?
        };
        for key in &keys {
            self.db.prepare_cached(sql!("clear_turn"))?.execute([key])?;
            if self.sort_key(key, now)?.cut {
                self.db.prepare_cached(sql!("set_turn"))?.execute(params![key, now])?;
            }
        }
        self.touched |= !keys.is_empty();
        let limits = self.lanes.limits(&self.db)?;
        limits.turns = farthest.is_some() || keys.len() == MOVES;
        Ok(())
    }

    /// Goes on sorting the keys of job types whose limit was changed.
    pub(super) fn resort(&mut self, now: Millis) -> rusqlite::Result<()> {
        if !self.lanes.limits(&self.db)?.resorting {
            return Ok(());
        }
        self.touched = true;
        let types: Vec<(String, String)> = {
            let mut resorts = self.db.prepare_cached(sql!("resorts"))?;
            resorts.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?.collect::<Result<_, _>>()?
        };
        let mut work = 0;
        for (name, mut after) in types {
            while work < MOVES {
                let next = self
                    .db
                    .prepare_cached(sql!("next_key"))?
                    .query_row([&after], |row| row.get::<_, String>(0));
                let next: Option<String> = next.optional()?.filter(|key| job_type(key) == name);
                let Some(key) = next else { break };
                // One that a rate laid and that no rate needs any more.
                self.db.prepare_cached(sql!("clear_turn"))?.execute([&key])?;
                let sorted = self.sort_key(&key, now)?;
                work += 1 + sorted.moves;
                if !sorted.cut {
                    after = key;
                }
            }
            if work >= MOVES {
                self.db.prepare_cached(sql!("set_resort"))?.execute(params![name, after])?;
                return Ok(());
            }
            self.db.prepare_cached(sql!("clear_resort"))?.execute([name])?;
        }
        self.lanes.limits(&self.db)?.resorting = false;
        Ok(())
    }

    /// The keys of this job type are to be sorted anew.
    pub(super) fn begin_resort(&mut self, name: &str, now: Millis) -> rusqlite::Result<()> {
        self.db.prepare_cached(sql!("set_resort"))?.execute(params![name, name])?;
        self.lanes.limits(&self.db)?.resorting = true;
        self.resort(now)
    }
}
