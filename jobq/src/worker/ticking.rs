//! The ticking sweep: lays the schedules of the worker's jobs, and makes the ticks that are due, each at its second.

use super::core::Core;
use crate::{
    enqueue::tick_job,
    maintenance::{Round, Sweep, about},
    registry::{CronEntry, JobEntry, Registry},
    schedule::{Cron, Plan, plan},
    store::{NewSchedule, ScheduleRow, Source, Store, StoreError, Tick, Ticked, Turn},
    time::{Millis, millis},
};
use std::{collections::HashMap, sync::Arc, time::Duration};

/// How often new schedules are looked for; what is known of ticks in its second.
const LOOK: Duration = Duration::from_secs(1);
/// When a schedule that another worker has moved on is looked at again.
const SOON: Millis = 50;
/// A tick that is made later than this was missed, although the worker was there.
const LATE: Millis = 10_000;
/// Smaller steps of the wall clock are no concern of schedules.
const STEP: Millis = 2_000;
/// How far interval patterns go on ahead of a clock that was set back.
const MOST_AHEAD: Millis = 2 * 3_600_000;

/// Makes the ticks of all schedules whose job the worker knows.
pub(super) struct Ticking {
    core: Arc<Core>,
    times: Times,
    /// Patterns and zones as they were read, by schedule.
    read: HashMap<String, (String, String, Cron)>,
    /// Whether the schedules of the attributes are laid.
    laid: bool,
}

/// Why a schedule could not tick.
enum Trouble {
    /// The store's, which is tried again.
    Store(StoreError),
    /// Its own, which is shown.
    Own(String),
}

impl From<StoreError> for Trouble {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Invalid(why) => Self::Own(why),
            error => Self::Store(error),
        }
    }
}

impl Sweep for Ticking {
    const NAME: &'static str = "cron";

    fn round(&mut self) -> Round<'_> {
        Box::pin(async {
            let looked = self.core.clock().steady();
            let look = about(LOOK);
            let wait = self.tick().await?.map_or(look, |next| next.min(look));
            self.times.awake_at = looked.saturating_add(wait);
            self.core.clock().sleep_until(self.times.awake_at).await;
            Ok(())
        })
    }
}

impl Ticking {
    pub(super) fn new(core: Arc<Core>) -> Self {
        Self { core, times: Times::default(), read: HashMap::new(), laid: false }
    }

    /// Makes what is due; how long it is until the next tick.
    pub(super) async fn tick(&mut self) -> Result<Option<Duration>, StoreError> {
        let clock = self.core.clock();
        let look = self.times.look(clock.now(), clock.steady());
        if !self.laid {
            lay(&**self.core.store(), &self.core.known, look.wall).await?;
            self.laid = true;
        }
        let schedules = self.core.store().due_schedules(look.onward).await?;
        // One schedule in trouble holds up no other.
        let mut failed = None;
        let mut next = schedules.next.map(|next| next.saturating_sub(look.onward));
        let set = self.core.set().clone();
        for row in schedules.due.iter().filter(|row| set.knows(&row.job_type)) {
            match self.tick_one(row, &look).await {
                Ok(after) => next = after.into_iter().chain(next).min(),
                Err(Trouble::Store(error)) => failed = failed.or(Some(error)),
                Err(Trouble::Own(why)) => failed = failed.or(self.blame(row, why, look.wall).await.err()),
            }
        }
        let next = next.map(|next| Duration::from_millis(next.max(0).unsigned_abs()));
        failed.map_or(Ok(next), Err)
    }

    /// Makes the ticks of one schedule; how long after the look its next one is.
    async fn tick_one(&mut self, row: &ScheduleRow, look: &Look) -> Result<Option<Millis>, Trouble> {
        let cron = self.cron(row)?;
        let catch_up = row.catch_up.parse().map_err(Trouble::Own)?;
        let now = if cron.is_interval() { look.onward } else { look.wall };
        let on_time = if look.even { now - LATE } else { Millis::MAX };
        let Some(plan) = plan(cron, (row.next_run, row.last_run), (now, on_time), catch_up) else {
            return Ok(None);
        };
        let job = tick_job(row, self.core.queue(), look.wall).map_err(Trouble::Own)?;
        if plan.missed {
            tracing::info!(schedule = row.id, since = row.next_run, "ticks of a schedule were missed");
        }
        let tick = |turn, job| Tick { schedule: row.id.clone(), turn: Some(turn), job, overlap: row.overlap };
        let Plan { ticks, next, .. } = plan;
        let store = self.core.store();
        if ticks.is_empty() {
            store.tick(tick(Turn { due: row.next_run, at: now, next }, None), look.wall).await?;
        }
        let mut due = row.next_run;
        for (place, &at) in ticks.iter().enumerate() {
            let next = ticks.get(place + 1).copied().unwrap_or(next);
            let mut job = job.clone();
            job.run_at = Some(at.min(look.wall));
            match store.tick(tick(Turn { due, at, next }, Some(job)), look.wall).await? {
                // Somebody else is at it.
                Ticked::NotDue => return Ok(Some(SOON)),
                Ticked::Overlapped(live) => {
                    tracing::info!(schedule = row.id, %live, "a tick was skipped: an earlier job has not ended");
                }
                Ticked::Enqueued(_) | Ticked::Passed => {}
            }
            due = next;
        }
        Ok(Some(next.saturating_sub(now)))
    }

    fn cron(&mut self, row: &ScheduleRow) -> Result<&Cron, Trouble> {
        let known = self
            .read
            .get(&row.id)
            .is_some_and(|(pattern, zone, _)| *pattern == row.cron_expr && *zone == row.tz);
        if !known {
            let cron = Cron::parse(&row.cron_expr, &row.tz).map_err(|why| Trouble::Own(why.to_string()))?;
            self.read.insert(row.id.clone(), (row.cron_expr.clone(), row.tz.clone(), cron));
        }
        let read = self.read.get(&row.id).map(|(.., cron)| cron);
        read.ok_or_else(|| Trouble::Own("its pattern was not read".into()))
    }

    async fn blame(&self, row: &ScheduleRow, why: String, now: Millis) -> Result<(), StoreError> {
        if row.error.as_ref() == Some(&why) {
            return Ok(());
        }
        tracing::error!(schedule = row.id, why, "a schedule can't tick");
        self.core.store().blame_schedule(row.id.clone(), why, now).await
    }
}

// ---- the schedules of attributes ----------------------------------------------------------------

/// Lays a schedule for each of these jobs whose attribute says when it runs, and deletes those whose attribute says so no
/// more. Where they are as they are to be, nothing is written.
pub(crate) async fn lay(store: &dyn Store, known: &Registry, now: Millis) -> Result<(), StoreError> {
    let rows = store.schedules(None).await?;
    for entry in known.iter() {
        let Some(cron) = &entry.cron else { continue };
        let row = rows.iter().find(|row| row.id == entry.job_type);
        let Some(new) = new_schedule(entry, cron, now).filter(|new| !row.is_some_and(|row| is_as(row, new)))
        else {
            continue;
        };
        if !store.put_schedule(new, now).await? {
            let schedule = entry.job_type;
            tracing::warn!(
                schedule,
                "a schedule of this name is there already: rename it, and start a worker anew"
            );
        }
    }
    let stale = |row: &&ScheduleRow| row.source == Source::Attribute && is_stale(row, known);
    for row in rows.iter().filter(stale) {
        tracing::info!(schedule = row.id, "its attribute has no `cron` any more: the schedule is deleted");
        store.delete_schedule(row.id.clone(), now).await?;
    }
    Ok(())
}

/// `None`, and told, where it can't be one: the compiler has checked the pattern.
fn new_schedule(entry: &JobEntry, cron: &CronEntry, now: Millis) -> Option<NewSchedule> {
    let next = Cron::parse(cron.pattern, cron.zone).map_err(|why| why.to_string());
    let next = next.and_then(|cron| cron.next_after(now).ok_or_else(|| "it never comes".to_owned()));
    let payload = (cron.payload)().map_err(|why| why.to_string());
    match next.and_then(|next| payload.map(|payload| (next, payload))) {
        Ok((next_run, payload)) => Some(NewSchedule {
            id: entry.job_type.to_owned(),
            job_type: entry.job_type.to_owned(),
            payload,
            version: entry.defaults.version,
            cron_expr: cron.pattern.to_owned(),
            tz: cron.zone.to_owned(),
            catch_up: cron.catch_up,
            overlap: cron.overlap,
            source: Source::Attribute,
            options: "{}".to_owned(),
            next_run,
            enabled: None,
        }),
        Err(why) => {
            tracing::error!(job = %entry, why, "the schedule of a job can't be laid");
            None
        }
    }
}

fn is_as(row: &ScheduleRow, new: &NewSchedule) -> bool {
    row.source == new.source
        && (&row.payload, row.version) == (&new.payload, new.version)
        && row.cron_expr == new.cron_expr
        && row.tz == new.tz
        && row.catch_up == new.catch_up.to_string()
        && row.overlap == new.overlap
        && row.options == new.options
}

/// A worker that does not know the job does not know either what became of its attribute.
fn is_stale(row: &ScheduleRow, known: &Registry) -> bool {
    known.get(&row.job_type).is_some_and(|entry| entry.cron.is_none() || entry.job_type != row.id)
}

// ---- clocks that are set ---------------------------------------------------------------------------

/// What became of the clocks since the last look.
#[derive(Debug, Default)]
struct Times {
    last: Option<(Millis, Duration)>,
    /// When the next look was to be, on the steady clock.
    awake_at: Duration,
    ahead: Millis,
}

/// One look at the clocks.
#[derive(Debug, PartialEq, Eq)]
struct Look {
    wall: Millis,
    /// For interval patterns: where the wall clock was set back, it goes on for them as if it had not been. So none
    /// falls silent until the clock has made up for it, and none ticks an instant twice.
    onward: Millis,
    /// The worker was there since the last look, and nobody has set the clock.
    even: bool,
}

impl Times {
    fn look(&mut self, wall: Millis, steady: Duration) -> Look {
        let Some((last_wall, last_steady)) = self.last.replace((wall, steady)) else {
            return Look { wall, onward: wall, even: false };
        };
        let passed = millis(steady.saturating_sub(last_steady));
        let step = wall.saturating_sub(last_wall.saturating_add(passed));
        if step.saturating_abs() > STEP {
            self.ahead = self.ahead.saturating_sub(step).max(0);
            if self.ahead > MOST_AHEAD {
                self.ahead = 0;
            }
        }
        let late = millis(steady.saturating_sub(self.awake_at));
        let even = step.saturating_abs() <= STEP && late <= LATE;
        Look { wall, onward: wall.saturating_add(self.ahead), even }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interval_patterns_go_on_when_the_clock_is_set_back_and_others_follow_it() {
        const HOUR: Millis = 3_600_000;
        let mut times = Times::default();
        let mut at = |wall, secs| {
            let look = times.look(wall, Duration::from_secs(secs));
            times.awake_at = Duration::from_secs(secs);
            look
        };
        assert_eq!(
            at(10 * HOUR, 1),
            Look { wall: 10 * HOUR, onward: 10 * HOUR, even: false },
            "just started"
        );
        assert_eq!(
            at(10 * HOUR + 1500, 2),
            Look { wall: 10 * HOUR + 1500, onward: 10 * HOUR + 1500, even: true }
        );
        // Back an hour, and then time passes.
        let back = 9 * HOUR + 2500;
        assert_eq!(at(back, 3), Look { wall: back, onward: back + HOUR, even: false });
        assert_eq!(at(back + 5000, 8), Look { wall: back + 5000, onward: back + HOUR + 5000, even: true });
        // Forward again: they agree.
        let forth = 10 * HOUR + 8500;
        assert_eq!(at(forth, 9), Look { wall: forth, onward: forth, even: false });
        // Ahead of what was never so: not followed for longer than two hours.
        let far = forth - 3 * HOUR;
        assert_eq!(at(far, 9), Look { wall: far, onward: far, even: false });
        // Stopped for twenty seconds.
        assert_eq!(at(far + 20_000, 29), Look { wall: far + 20_000, onward: far + 20_000, even: false });
        for extreme in [i64::MAX, i64::MIN, 0] {
            at(extreme, 30);
        }
    }
}
