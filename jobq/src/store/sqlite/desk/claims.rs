//! Claims: the first claimable jobs of a worker's lanes, merged by priority and age, then taken one by one.

use super::{super::blames_one, Desk, keys, lanes::Taken, limits::Rooms, sql};
use crate::{
    job::WorkerId,
    limit::KeyBounds,
    store::{ClaimSet, Claimed},
    time::Millis,
};
use rusqlite::params;
use std::collections::BinaryHeap;

/// Jobs that one claim parks at most, where a limit has become so much stricter; the rest is parked beside it.
const PARKED: usize = 1000;

impl Desk {
    /// Whether a job of this set can be claimed; takes no lock.
    pub(in super::super) fn has_work(&mut self, set: &ClaimSet, now: Millis) -> rusqlite::Result<bool> {
        if self.turn_is_due(now)? {
            return Ok(true);
        }
        let lanes = self.lanes.of(&self.db, set)?;
        let limits = self.lanes.limits(&self.db)?;
        let rooms = limits.rooms(&self.db, now)?;
        let mut open = lanes.into_iter().filter(|lane| rooms.of(limits.bound(*lane)) > 0);
        let mut look = self.db.prepare_cached(sql!("waiting"))?;
        open.try_fold(false, |found, lane| Ok(found || look.exists([lane])?))
    }

    /// One row that can't be claimed takes nobody with it: it is left out, and the next is taken in its place. So it is with
    /// one that a limit holds back.
    pub(in super::super) fn claim(
        &mut self,
        worker: WorkerId,
        set: &ClaimSet,
        limit: usize,
        now: Millis,
    ) -> rusqlite::Result<Vec<Claimed>> {
        self.take_turns(now)?;
        let mut rooms = self.lanes.limits(&self.db)?.rooms(&self.db, now)?;
        let (mut claimed, mut parked) = (Vec::new(), 0);
        loop {
            let heads = self.heads(set, limit - claimed.len(), &rooms)?;
            let wanted = claimed.len() + heads.len();
            parked += self.take(&heads, worker, now, &mut rooms, &mut claimed)?;
            if claimed.len() == wanted {
                break;
            }
            if parked >= PARKED {
                self.unfinished = true;
                break;
            }
        }
        self.lanes.limits(&self.db)?.spend(&self.db, &rooms, now)?;
        self.touched |= !claimed.is_empty() || parked > 0;
        Ok(claimed)
    }

    /// Takes these jobs. Those that can't be claimed are noted as damaged, and stay as they are; those whose turn it is not
    /// are parked. How many of the latter.
    fn take(
        &mut self,
        heads: &[i64],
        worker: WorkerId,
        now: Millis,
        rooms: &mut Rooms,
        claimed: &mut Vec<Claimed>,
    ) -> rusqlite::Result<usize> {
        let mut look = self.db.prepare_cached(sql!("taken"))?;
        let mut update = self.db.prepare_cached(sql!("claim"))?;
        let mut parked = 0;
        claimed.reserve(heads.len());
        for &row in heads {
            let taken = look.query_row([row], |got| self.lanes.taken(row, self.tag, got));
            let started = taken.and_then(|taken| {
                let Taken { job, lane, key, bound, parked: is_parked } = taken;
                if is_parked || rooms.of(bound) == 0 {
                    return Ok(None);
                }
                let key = key.zip(bound.map(|bound| bound.key).filter(KeyBounds::is_some));
                if let Some((key, bounds)) = &key
                    && !keys::may_start(&self.db, key, *bounds, now)?
                {
                    keys::park(&self.db, row, lane)?;
                    parked += 1;
                    return Ok(None);
                }
                let counted = bound.filter(|bound| bound.counted).map_or(0, |_| lane);
                let updated = update.execute(params![row, worker.0, now, counted])?;
                if updated == 1 {
                    bound.into_iter().for_each(|bound| rooms.take(bound));
                    key.map_or(Ok(()), |(key, bounds)| keys::start(&self.db, &key, bounds, now))?;
                }
                Ok(Some((updated, job)))
            });
            let why = match started {
                Ok(None) => continue,
                Ok(Some((1, job))) => {
                    claimed.push(job);
                    continue;
                }
                Ok(Some(_)) | Err(rusqlite::Error::QueryReturnedNoRows) => {
                    "the index of pending jobs is wrong about it".into()
                }
                Err(error) if blames_one(&error) => error.to_string(),
                Err(error) => return Err(error),
            };
            self.damaged.insert(row, why);
            self.found_damage = true;
        }
        Ok(parked)
    }

    /// The rows of the first claimable jobs of this set, in order.
    fn heads(&mut self, set: &ClaimSet, most: usize, rooms: &Rooms) -> rusqlite::Result<Vec<i64>> {
        // The best so far, the worst of them on top: a lane is left at its first row that is no better.
        let mut best: BinaryHeap<(i64, i64, i64)> = BinaryHeap::new();
        let lanes = self.lanes.of(&self.db, set)?;
        let limits = self.lanes.limits(&self.db)?;
        let mut lane_heads = self.db.prepare_cached(sql!("heads"))?;
        for lane in lanes {
            let limit = most.min(rooms.of(limits.bound(lane)));
            if limit == 0 {
                continue;
            }
            let rows = lane_heads.query_map(params![lane, (limit + self.damaged.len()) as i64], |row| {
                // Larger priorities first: negated, the tuple sorts as the claim order does.
                Ok((-row.get::<_, i64>(1)?, row.get(2)?, row.get(0)?))
            })?;
            for head in rows {
                let head = head?;
                if best.len() >= most && best.peek().is_none_or(|worst| head >= *worst) {
                    break;
                }
                if !self.damaged.contains_key(&head.2) {
                    best.push(head);
                    if best.len() > most {
                        best.pop();
                    }
                }
            }
        }
        Ok(best.into_sorted_vec().into_iter().map(|(_, _, row)| row).collect())
    }
}
