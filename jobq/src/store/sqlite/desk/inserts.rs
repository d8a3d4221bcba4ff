//! Inserts: the jobs that a transaction enqueues, gathered and laid many rows to a statement.

use super::{Desk, keys, sql};
use crate::{
    job::{JobId, NewJob},
    state::JobState,
    store::Enqueued,
    time::{Millis, millis},
};
use rusqlite::CachedStatement;
use std::{
    collections::BTreeMap,
    iter::repeat_n,
    sync::{Arc, LazyLock},
};

/// Rows of one statement; what is left over goes into smaller ones.
const SIZES: [usize; 3] = [16, 4, 1];
static STATEMENTS: LazyLock<[String; 3]> = LazyLock::new(|| SIZES.map(statement));
/// Jobs, and bytes of their payloads, that are gathered before they are laid, so that whoever counts the time of a
/// transaction sees theirs.
const GATHERED: usize = 500;
const GATHERED_BYTES: usize = 256 * 1024;
/// Parameters of one row.
const WIDTH: usize = 16;

/// Jobs that have their ids and are not laid yet.
#[derive(Default)]
pub(super) struct Inserts {
    waiting: Vec<(Arc<Vec<NewJob>>, Millis)>,
    jobs: usize,
    bytes: usize,
    /// The row of the next job, where it is known.
    pub(super) next_row: Option<i64>,
}

impl Inserts {
    /// The transaction was rolled back, or others have written.
    pub(super) fn doubt(&mut self) {
        *self = Self::default();
    }
}

impl Desk {
    /// Gives these jobs their ids. They are laid by [`lay`](Self::lay), together with others'; those with unique keys at
    /// once. A job whose key is to be rejected where another holds it is left out all the same, and is no error.
    pub(in super::super) fn enqueue(
        &mut self,
        jobs: &Arc<Vec<NewJob>>,
        now: Millis,
    ) -> rusqlite::Result<Vec<Enqueued>> {
        self.at(now);
        if jobs.iter().any(|job| job.unique.is_some()) {
            return self.enqueue_unique(jobs, now);
        }
        let first = self.next_row()?;
        let ids = (first..).zip(&**jobs).map(|(row, _)| JobId::compose(now, row, self.tag));
        let enqueued = ids.map(Enqueued::new).collect();
        self.inserts.next_row = Some(first + jobs.len() as i64);
        self.inserts.waiting.push((jobs.clone(), now));
        self.inserts.jobs += jobs.len();
        self.inserts.bytes += jobs.iter().map(|job| job.payload.len()).sum::<usize>();
        if self.inserts.jobs >= GATHERED || self.inserts.bytes >= GATHERED_BYTES {
            self.lay()?;
        }
        Ok(enqueued)
    }

    pub(super) fn next_row(&mut self) -> rusqlite::Result<i64> {
        if let Some(row) = self.inserts.next_row {
            return Ok(row);
        }
        let row = self.db.prepare_cached(sql!("next_row"))?.query_row([], |row| row.get(0))?;
        self.inserts.next_row = Some(row);
        Ok(row)
    }

    /// Lays what was gathered.
    pub(in super::super) fn lay(&mut self) -> rusqlite::Result<()> {
        let waiting = std::mem::take(&mut self.inserts.waiting);
        let count = std::mem::take(&mut self.inserts.jobs);
        self.inserts.bytes = 0;
        let Some(next_row) = self.inserts.next_row.filter(|_| count > 0) else { return Ok(()) };
        self.touched = true;
        let mut rows = Vec::with_capacity(count);
        let mut lane: Option<(&NewJob, i64)> = None;
        let mut keys = BTreeMap::new();
        for (job, now) in waiting.iter().flat_map(|(jobs, now)| jobs.iter().map(move |job| (job, *now))) {
            let known = lane.filter(|(last, _)| last.job_type == job.job_type && last.queue == job.queue);
            let found = match known {
                Some((_, lane)) => lane,
                None => self.lane(&job.queue, &job.job_type)?,
            };
            lane = Some((job, found));
            let turn = match &job.concurrency_key {
                Some(key) => Some(self.turn(&mut keys, job, key, found, now)?),
                None => None,
            };
            rows.push((job, found, now, turn));
        }
        let mut row = next_row - count as i64;
        let mut rest = &rows[..];
        for (size, sql) in SIZES.into_iter().zip(&*STATEMENTS) {
            if rest.len() < size {
                continue;
            }
            let mut statement = self.db.prepare_cached(sql)?;
            while let Some((some, others)) = rest.split_at_checked(size) {
                for (place, (job, lane, now, turn)) in some.iter().enumerate() {
                    let inserted = Inserted::of(job, *now);
                    self.stirred |= inserted.state == JobState::Pending;
                    bind(&mut statement, place * WIDTH, row, *lane, job, &inserted, *now)?;
                    let turn = turn.as_ref();
                    statement.raw_bind_parameter(place * WIDTH + 15, turn.map(|turn| &*turn.key))?;
                    statement.raw_bind_parameter(place * WIDTH + 16, turn.map_or(0, |turn| turn.held))?;
                    row += 1;
                }
                statement.raw_execute()?;
                rest = others;
            }
        }
        for (key, arrival) in keys.into_iter().filter(|(_, arrival)| arrival.to_sort) {
            self.sort_key(&key, arrival.now)?;
        }
        Ok(())
    }

    /// Whose turn a job takes, and whether it is parked at once, since nothing of its key may start now.
    fn turn(
        &mut self,
        keys: &mut BTreeMap<Arc<str>, Arrival>,
        job: &NewJob,
        key: &str,
        lane: i64,
        now: Millis,
    ) -> rusqlite::Result<Turn> {
        let stored: Arc<str> = keys::stored(&job.job_type, key).into();
        let bounds = self.lanes.limits(&self.db)?.key_bounds(&job.job_type);
        if !bounds.is_some() || job.run_at.is_some_and(|run_at| run_at > now) {
            return Ok(Turn { key: stored, held: 0 });
        }
        let may_start = match keys.get(&stored) {
            Some(arrival) => arrival.may_start,
            None => {
                let may_start = keys::may_start(&self.db, &stored, bounds, now)?;
                // Where time alone lets them start, that is noted when they are sorted.
                let to_sort = may_start || bounds.rate.is_some();
                keys.insert(stored.clone(), Arrival { may_start, to_sort, now });
                may_start
            }
        };
        Ok(Turn { key: stored, held: if may_start { 0 } else { lane } })
    }
}

/// Whose turn a new job takes.
struct Turn {
    key: Arc<str>,
    /// Its lane, where it is parked; else 0.
    held: i64,
}

/// A key of which jobs are laid.
struct Arrival {
    may_start: bool,
    to_sort: bool,
    now: Millis,
}

fn bind(
    to: &mut CachedStatement<'_>,
    before: usize,
    row: i64,
    lane: i64,
    job: &NewJob,
    inserted: &Inserted,
    now: Millis,
) -> rusqlite::Result<()> {
    let numbers =
        [row, lane, inserted.state.code(), job.priority.into(), inserted.run_at, job.max_attempts.into()];
    for (place, number) in (before + 1..).zip(numbers) {
        to.raw_bind_parameter(place, number)?;
    }
    to.raw_bind_parameter(before + 7, inserted.timeout)?;
    to.raw_bind_parameter(before + 8, inserted.retain)?;
    to.raw_bind_parameter(before + 9, inserted.backoff.as_deref())?;
    to.raw_bind_parameter(before + 10, job.label.as_deref())?;
    to.raw_bind_parameter(before + 11, &*job.payload)?;
    to.raw_bind_parameter(before + 12, inserted.version)?;
    to.raw_bind_parameter(before + 13, now)?;
    to.raw_bind_parameter(before + 14, now)
}

/// enqueue.sql for this many rows: its last line is the row.
fn statement(rows: usize) -> String {
    let (head, row) =
        sql!("enqueue").trim_end().rsplit_once('\n').expect("enqueue.sql has a line for the row");
    format!("{head}\n{}", repeat_n(row, rows).collect::<Vec<_>>().join(","))
}

/// The columns of a new row that need working out.
pub(in super::super) struct Inserted {
    pub(in super::super) state: JobState,
    pub(in super::super) run_at: Millis,
    pub(in super::super) timeout: Option<i64>,
    pub(in super::super) retain: Option<i64>,
    pub(in super::super) backoff: Option<String>,
    pub(in super::super) unique_until: Option<Millis>,
    pub(in super::super) version: Option<u32>,
}

impl Inserted {
    pub(in super::super) fn of(job: &NewJob, now: Millis) -> Self {
        let run_at = job.run_at.unwrap_or(now);
        Self {
            state: if run_at > now { JobState::Scheduled } else { JobState::Pending },
            run_at,
            timeout: job.timeout.map(|timeout| timeout.in_millis().cast_signed()),
            retain: job.retain.map(millis),
            // A plain job's row pays a byte for it.
            version: Some(job.version).filter(|version| *version != 1),
            backoff: job.backoff.as_ref().and_then(|backoff| serde_json::to_string(backoff).ok()),
            unique_until: job
                .unique
                .as_ref()
                .and_then(|unique| unique.within)
                .map(|window| now.saturating_add(millis(window))),
        }
    }
}
