//! Schedules in the model test: what is drawn for them, and how both stores are told.

use super::{
    op::{Spec, TYPES, spec},
    pair::{Compared, Pair, alike, new_job},
};
use fastrand::Rng;
use jobq::{
    job::JobId,
    schedule::{CatchUp, Overlap},
    store::{NewSchedule, ScheduleRow, Source, StoreError, Tick, TickRow, Ticked, Turn},
    time::Millis,
};
use std::collections::HashMap;

const NAMES: [&str; 2] = ["hourly", "nightly"];

/// What is done to one of the schedules; all times from now, in milliseconds.
#[derive(Clone, Copy, Debug)]
pub enum Deed {
    Put {
        attribute: bool,
        pattern: usize,
        job_type: usize,
        skips: bool,
        next: i64,
        enabled: Option<bool>,
    },
    /// The tick that it waits for, or one beside its ticks.
    Tick {
        /// Added to the tick that it truly waits for; `None`: beside its ticks.
        turn: Option<i64>,
        next: i64,
        job: Option<Spec>,
        skips: bool,
    },
    Enable(i64),
    Disable,
    Delete,
    Blame,
}

pub fn deed(random: &mut Rng) -> (usize, Deed) {
    let deed = match random.u8(..12) {
        0..4 => Deed::Put {
            attribute: random.u8(..4) == 0,
            pattern: random.usize(..2),
            job_type: random.usize(..TYPES.len()),
            skips: random.bool(),
            next: random.i64(-20..40),
            enabled: [None, None, Some(true), Some(false)][random.usize(..4)],
        },
        4..8 => Deed::Tick {
            turn: (random.u8(..4) > 0).then(|| if random.u8(..8) == 0 { random.i64(-1..2) } else { 0 }),
            next: random.i64(-5..40),
            job: (random.u8(..5) > 0).then(|| spec(random)),
            skips: random.bool(),
        },
        8 => Deed::Enable(random.i64(0..40)),
        9 => Deed::Disable,
        10 => Deed::Delete,
        _ => Deed::Blame,
    };
    (random.usize(..NAMES.len()), deed)
}

fn policy(skips: bool) -> Overlap {
    if skips { Overlap::Skip } else { Overlap::Allow }
}

impl Pair {
    pub(super) async fn schedule(&mut self, at: usize, deed: Deed) -> Compared {
        let name = NAMES[at].to_owned();
        let now = self.now;
        let [model, other] = self.stores();
        match deed {
            Deed::Put { attribute, pattern, job_type, skips, next, enabled } => {
                let new = NewSchedule {
                    id: name,
                    job_type: TYPES[job_type].into(),
                    payload: format!("[{job_type}]"),
                    version: 1 + job_type as u32,
                    cron_expr: ["0 * * * *", "0 3 * * *"][pattern].into(),
                    tz: "UTC".into(),
                    catch_up: CatchUp::Once,
                    overlap: policy(skips),
                    source: if attribute { Source::Attribute } else { Source::Dynamic },
                    options: "{}".into(),
                    next_run: now + next,
                    enabled,
                };
                alike(model.put_schedule(new.clone(), now).await, other.put_schedule(new, now).await)?;
            }
            Deed::Tick { turn, next, job, skips } => {
                let row = model.schedules(Some(name.clone())).await.unwrap().pop();
                let waits = row.map_or(now, |row| row.next_run);
                let turn = turn.map(|off| Turn { due: waits + off, at: waits + off, next: now + next });
                let job = job.map(|spec| new_job(&spec, self.jobs.len(), now));
                self.tick(Tick { schedule: name, turn, job, overlap: policy(skips) }).await?;
            }
            Deed::Enable(next) => {
                let next = now + next;
                let model = model.enable_schedule(name.clone(), next, now).await;
                alike(model, other.enable_schedule(name, next, now).await)?;
            }
            Deed::Disable => {
                let model = model.disable_schedule(name.clone(), now).await;
                alike(model, other.disable_schedule(name, now).await)?;
            }
            Deed::Delete => {
                let model = model.delete_schedule(name.clone(), now).await;
                alike(model, other.delete_schedule(name, now).await)?;
            }
            Deed::Blame => {
                let model = model.blame_schedule(name.clone(), "no such job".into(), now).await;
                alike(model, other.blame_schedule(name, "no such job".into(), now).await)?;
            }
        }
        self.look_at_schedules().await
    }

    async fn tick(&mut self, tick: Tick) -> Compared {
        let [model, other] = self.stores();
        let (model, other) = (model.tick(tick.clone(), self.now).await, other.tick(tick, self.now).await);
        if let (Ok(Ticked::Enqueued(model)), Ok(Ticked::Enqueued(other))) = (&model, &other) {
            self.place(*model, *other);
        }
        let places = &self.model.places;
        let others = &self.other.places;
        alike(model.map(|ticked| named(ticked, places)), other.map(|ticked| named(ticked, others)))
    }

    pub(super) async fn look_at_schedules(&self) -> Compared {
        let [model, other] = self.stores();
        let (places, others) = (&self.model.places, &self.other.places);
        let (all, of_other) = (model.schedules(None).await, other.schedules(None).await);
        alike(rows(all, places), rows(of_other, others))?;
        let (due, of_other) = (model.due_schedules(self.now).await, other.due_schedules(self.now).await);
        alike(
            due.as_ref().map(|due| due.next).map_err(Clone::clone),
            of_other.as_ref().map(|due| due.next).map_err(Clone::clone),
        )?;
        alike(rows(due.map(|due| due.due), places), rows(of_other.map(|due| due.due), others))?;
        for name in NAMES {
            let (made, of_other) = (model.ticks(name.into()).await, other.ticks(name.into()).await);
            alike(ticks(made, places), ticks(of_other, others))?;
        }
        Ok(())
    }

    pub(super) async fn delete_schedules(&mut self) -> Compared {
        for at in 0..NAMES.len() {
            self.schedule(at, Deed::Delete).await?;
        }
        Ok(())
    }
}

type Places = HashMap<JobId, usize>;

fn place(id: JobId, places: &Places) -> usize {
    places.get(&id).copied().unwrap_or(usize::MAX)
}

/// What became of a tick, with a job's place for its id.
fn named(ticked: Ticked, places: &Places) -> (&'static str, usize) {
    match ticked {
        Ticked::Enqueued(job) => ("enqueued", place(job, places)),
        Ticked::Overlapped(job) => ("overlapped", place(job, places)),
        Ticked::Passed => ("passed", 0),
        Ticked::NotDue => ("not due", 0),
    }
}

fn rows(
    rows: Result<Vec<ScheduleRow>, StoreError>,
    places: &Places,
) -> Result<Vec<(Option<usize>, ScheduleRow)>, StoreError> {
    let named = |row: ScheduleRow| {
        (row.last_job.map(|job| place(job, places)), ScheduleRow { last_job: None, ..row })
    };
    Ok(rows?.into_iter().map(named).collect())
}

fn ticks(
    ticks: Result<Vec<TickRow>, StoreError>,
    places: &Places,
) -> Result<Vec<(Millis, Option<usize>)>, StoreError> {
    let named = |tick: TickRow| (tick.at, tick.job.map(|job| place(job, places)));
    Ok(ticks?.into_iter().map(named).collect())
}
