//! Schedules in the model store: rows by name, and the rule by which a tick is made once.

use super::tables::Tables;
use crate::{
    job::{JobId, MAX_ERROR, cut},
    schedule::Overlap,
    store::{DueSchedules, NewSchedule, ScheduleRow, TICKS_KEPT, Tick, TickRow, Ticked, Turn},
    time::Millis,
};
use std::collections::BTreeMap;

/// Schedules by name, and their latest ticks.
#[derive(Default)]
pub(super) struct Schedules {
    rows: BTreeMap<String, ScheduleRow>,
    ticks: BTreeMap<String, Vec<TickRow>>,
}

impl Tables {
    pub(super) fn put_schedule(&mut self, new: NewSchedule, now: Millis) -> bool {
        let there = self.schedules.rows.get(&new.id);
        if there.is_some_and(|row| row.source != new.source) {
            return false;
        }
        let waits = there
            .filter(|row| row.enabled && row.cron_expr == new.cron_expr && row.tz == new.tz)
            .map(|row| row.next_run);
        let row = ScheduleRow {
            id: new.id,
            job_type: new.job_type,
            payload: new.payload,
            version: new.version,
            cron_expr: new.cron_expr,
            tz: new.tz,
            catch_up: new.catch_up.to_string(),
            overlap: new.overlap,
            source: new.source,
            options: new.options,
            last_run: there.and_then(|row| row.last_run),
            next_run: waits.unwrap_or(new.next_run),
            enabled: new.enabled.unwrap_or(there.is_none_or(|row| row.enabled)),
            last_job: there.and_then(|row| row.last_job),
            skipped: there.map_or(0, |row| row.skipped),
            error: None,
            created_at: there.map_or(now, |row| row.created_at),
            updated_at: now,
        };
        self.schedules.rows.insert(row.id.clone(), row);
        true
    }

    pub(super) fn tick(&mut self, tick: Tick, now: Millis) -> Ticked {
        let Some(row) = self.schedules.rows.get_mut(&tick.schedule) else { return Ticked::NotDue };
        if let Some(Turn { due, at, next }) = tick.turn {
            let made = tick.job.is_some();
            let later = row.last_run.is_none_or(|last| last < at);
            if !row.enabled || row.next_run != due || (made && !later) {
                return Ticked::NotDue;
            }
            row.next_run = next;
            row.last_run = if made { Some(at) } else { row.last_run };
            (row.error, row.updated_at) = (None, now);
        }
        let Some(job) = tick.job else { return Ticked::Passed };
        let last_job = row.last_job;
        let live = last_job.filter(|job| tick.overlap == Overlap::Skip && self.is_live(*job));
        // Where another job holds its unique key, that one is the tick's.
        let made = live.is_none().then(|| match self.enqueue_one(job, now) {
            Ok(landed) => landed.id,
            Err((_, existing)) => existing,
        });
        if let Some(row) = self.schedules.rows.get_mut(&tick.schedule) {
            match made {
                Some(job) => (row.last_job, row.updated_at) = (Some(job), now),
                None => row.skipped += u64::from(tick.turn.is_some()),
            }
        }
        if let Some(Turn { at, .. }) = tick.turn {
            let ticks = self.schedules.ticks.entry(tick.schedule).or_default();
            ticks.insert(0, TickRow { at, job: made });
            ticks.truncate(TICKS_KEPT);
        }
        match (made, live) {
            (Some(job), _) => Ticked::Enqueued(job),
            (None, Some(job)) => Ticked::Overlapped(job),
            (None, None) => Ticked::Passed,
        }
    }

    fn is_live(&self, id: JobId) -> bool {
        self.get(id).is_some_and(|job| !job.state.is_terminal())
    }

    pub(super) fn enable_schedule(&mut self, id: &str, next: Millis, now: Millis) -> bool {
        let Some(row) = self.schedules.rows.get_mut(id) else { return false };
        if !row.enabled {
            row.next_run = next;
        }
        (row.enabled, row.error, row.updated_at) = (true, None, now);
        true
    }

    pub(super) fn disable_schedule(&mut self, id: &str, now: Millis) -> bool {
        let Some(row) = self.schedules.rows.get_mut(id) else { return false };
        (row.enabled, row.updated_at) = (false, now);
        true
    }

    pub(super) fn delete_schedule(&mut self, id: &str) -> bool {
        self.schedules.ticks.remove(id);
        self.schedules.rows.remove(id).is_some()
    }

    pub(super) fn blame_schedule(&mut self, id: &str, error: String, now: Millis) {
        let error = Some(cut(&error, MAX_ERROR).into_owned());
        if let Some(row) = self.schedules.rows.get_mut(id).filter(|row| row.error != error) {
            (row.error, row.updated_at) = (error, now);
        }
    }

    pub(super) fn due_schedules(&self, now: Millis) -> DueSchedules {
        let (mut due, later): (Vec<_>, Vec<_>) =
            self.schedules.rows.values().filter(|row| row.enabled).partition(|row| row.next_run <= now);
        due.sort_by_key(|row| (row.next_run, &row.id));
        DueSchedules {
            due: due.into_iter().cloned().collect(),
            next: later.iter().map(|row| row.next_run).min(),
        }
    }

    pub(super) fn schedules(&self, id: Option<&str>) -> Vec<ScheduleRow> {
        self.schedules.rows.values().filter(|row| id.is_none_or(|id| row.id == id)).cloned().collect()
    }

    pub(super) fn ticks(&self, id: &str) -> Vec<TickRow> {
        self.schedules.ticks.get(id).cloned().unwrap_or_default()
    }
}
