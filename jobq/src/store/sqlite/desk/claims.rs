//! Claims: the first claimable jobs of a worker's lanes, merged by priority and age, then taken one by one.

use super::{super::blames_one, Desk, sql};
use crate::{
    job::WorkerId,
    store::{ClaimSet, Claimed},
    time::Millis,
};
use rusqlite::params;
use std::collections::BinaryHeap;

impl Desk {
    /// Whether a job of this set can be claimed; takes no lock.
    pub(in super::super) fn has_work(&mut self, set: &ClaimSet) -> rusqlite::Result<bool> {
        let mut waiting = self.lanes.of(&self.db, set)?.into_iter();
        let mut look = self.db.prepare_cached(sql!("waiting"))?;
        waiting.try_fold(false, |found, lane| Ok(found || look.exists([lane])?))
    }

    /// One row that can't be claimed takes nobody with it: it is left out, and the next is taken in its place.
    pub(in super::super) fn claim(
        &mut self,
        worker: WorkerId,
        set: &ClaimSet,
        limit: usize,
        now: Millis,
    ) -> rusqlite::Result<Vec<Claimed>> {
        let mut claimed = Vec::new();
        loop {
            let heads = self.heads(set, limit - claimed.len())?;
            let wanted = claimed.len() + heads.len();
            self.take(&heads, worker, now, &mut claimed)?;
            if claimed.len() == wanted {
                self.touched |= !claimed.is_empty();
                return Ok(claimed);
            }
        }
    }

    /// Takes these jobs; those that can't be claimed are noted as damaged, and stay as they are.
    fn take(
        &mut self,
        heads: &[i64],
        worker: WorkerId,
        now: Millis,
        claimed: &mut Vec<Claimed>,
    ) -> rusqlite::Result<()> {
        let mut look = self.db.prepare_cached(sql!("taken"))?;
        let mut update = self.db.prepare_cached(sql!("claim"))?;
        claimed.reserve(heads.len());
        for &row in heads {
            let job = look.query_row([row], |got| self.lanes.claimed(row, self.tag, got));
            let taken = job.and_then(|job| Ok((update.execute(params![row, worker.0, now])?, job)));
            let why = match taken {
                Ok((1, job)) => {
                    claimed.push(job);
                    continue;
                }
                Ok(_) | Err(rusqlite::Error::QueryReturnedNoRows) => {
                    "the index of pending jobs is wrong about it".into()
                }
                Err(error) if blames_one(&error) => error.to_string(),
                Err(error) => return Err(error),
            };
            self.damaged.insert(row, why);
            self.found_damage = true;
        }
        Ok(())
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
}
