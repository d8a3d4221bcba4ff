//! What is read: on connections and threads of their own, so that no reader waits for the writer or holds it up.

mod schedules;

pub(super) use schedules::{due_schedules, schedules, ticks};

use super::{
    alive::SideCar,
    desk::{
        Limits, backoff, each_lane, limit_row, next_start_at, paused, shown, small, sql, stranded, text,
        timeout, version, words,
    },
    filter,
};
use crate::{
    job::{
        Attempt, AttemptOutcome, FlowId, JobId, JobRow, Late, Lease, LogLevel, OutputLine, UniqueRow,
        WorkerId,
    },
    limit::Limited,
    state::{JobState, StateSet},
    store::{
        Answer, BatchOutcome, Cancel, ClaimSet, Count, Due, FlowRow, JobFilter, LimitRow, Outcome,
        PAGE_BYTES, PAGE_PAYLOADS, Pause, PayloadPage, Promise, Retention, Running, Step, StoreError,
        StoredPayload, Subscribed, Ties, WorkerRow, flows,
    },
    time::{Millis, millis},
};
use rusqlite::{Connection, OptionalExtension, Row, params, params_from_iter};
use std::{
    collections::HashMap,
    io,
    sync::{
        Arc, Mutex, PoisonError,
        mpsc::{Receiver, Sender, channel},
    },
    thread,
    time::Duration,
};
use tokio::sync::oneshot;

type Question = Box<dyn FnOnce(&Connection) + Send>;

/// The reading threads.
pub(super) struct Readers {
    to_readers: Sender<Question>,
    opened_by: u32,
}

impl Readers {
    /// One thread for each connection.
    pub(super) fn start(connections: Vec<Connection>) -> io::Result<Self> {
        let (to_readers, questions) = channel();
        let questions = Arc::new(Mutex::new(questions));
        for db in connections {
            let questions = questions.clone();
            thread::Builder::new().name("jobq-read".into()).spawn(move || answer_all(&db, &questions))?;
        }
        Ok(Self { to_readers, opened_by: std::process::id() })
    }

    /// Answers `ask` on a reading thread.
    pub(super) fn read<T: Send + 'static>(
        &self,
        ask: impl FnOnce(&Connection) -> rusqlite::Result<T> + Send + 'static,
    ) -> Answer<'static, T> {
        if std::process::id() != self.opened_by {
            let opened_by = self.opened_by;
            return Box::pin(async move { Err(StoreError::Forked { opened_by }) });
        }
        let (reply, answer) = oneshot::channel();
        let question: Question = Box::new(move |db| {
            if !reply.is_closed() {
                reply.send(ask(db).map_err(StoreError::from)).ok();
            }
        });
        let sent = self.to_readers.send(question);
        Box::pin(async move {
            sent.map_err(|_| StoreError::Closed)?;
            answer.await.unwrap_or(Err(StoreError::Closed))
        })
    }
}

fn answer_all(db: &Connection, questions: &Mutex<Receiver<Question>>) {
    loop {
        let next = questions.lock().unwrap_or_else(PoisonError::into_inner).recv();
        match next {
            Ok(question) => question(db),
            Err(_) => return,
        }
    }
}

pub(super) fn get(db: &Connection, tag: u32, id: JobId) -> rusqlite::Result<Option<JobRow>> {
    if id.tag() != tag {
        return Ok(None);
    }
    db.prepare_cached(sql!("get"))?
        .query_row(params![id.row(), id.created_at()], |row| job_row(row, tag))
        .optional()
}

pub(super) fn list(db: &Connection, tag: u32, filter: &JobFilter) -> rusqlite::Result<Vec<JobRow>> {
    let (sql, values) = filter::page(filter);
    db.prepare_cached(&sql)?.query_map(params_from_iter(values), |row| job_row(row, tag))?.collect()
}

/// The last columns of get.sql.
fn unique(row: &Row<'_>) -> rusqlite::Result<Option<UniqueRow>> {
    let Some(key) = text(row, 24)? else { return Ok(None) };
    let states = row.get::<_, Option<i64>>(26)?.map_or(StateSet::NONE, StateSet::from_code);
    let scope = text(row, 25)?.unwrap_or_default();
    Ok(Some(UniqueRow { key, scope, states, window_ends_at: row.get(27)? }))
}

/// The columns of get.sql.
fn job_row(row: &Row<'_>, tag: u32) -> rusqlite::Result<JobRow> {
    let created_at = row.get(15)?;
    Ok(JobRow {
        id: JobId::compose(created_at, row.get(0)?, tag),
        job_type: row.get(1)?,
        queue: row.get(2)?,
        state: JobState::from_code(row.get(3)?).unwrap_or(JobState::Dead),
        priority: row.get(4)?,
        payload: text(row, 5)?.unwrap_or_default(),
        label: text(row, 6)?,
        run_at: row.get(7)?,
        attempts: row.get(8)?,
        max_attempts: row.get(9)?,
        lease: row.get(10)?,
        worker: row.get::<_, Option<i64>>(11)?.map(WorkerId),
        heartbeat_at: row.get(12)?,
        started_at: row.get(13)?,
        completed_at: row.get(14)?,
        created_at,
        updated_at: row.get(16)?,
        timeout: row.get::<_, Option<i64>>(17)?.map(timeout),
        backoff: backoff(text(row, 18)?),
        retain: row.get::<_, Option<i64>>(19)?.map(|kept| Duration::from_millis(kept.unsigned_abs())),
        unique: unique(row)?,
        processed_items: row.get(20)?,
        total_items: row.get(21)?,
        result: text(row, 22)?,
        error: text(row, 23)?,
        cancel_asked_at: row.get(28)?,
        version: version(row.get(29)?),
        concurrency_key: text(row, 30)?.map(shown),
        flow: row.get::<_, Option<i64>>(31)?.map(|flow| FlowId::compose(flow, tag)),
    })
}

pub(super) fn outcomes(db: &Connection, tag: u32, ids: &[JobId]) -> rusqlite::Result<Vec<Option<Outcome>>> {
    // One snapshot for all: taking one is dearer than a look.
    let snapshot = db.unchecked_transaction()?;
    let mut look = snapshot.prepare_cached(sql!("outcome"))?;
    let outcome = |row: &Row<'_>| {
        Ok(Outcome {
            job_type: words(row, 0)?,
            state: JobState::from_code(row.get(1)?).unwrap_or(JobState::Dead),
            attempts: small(row, 2)?.unwrap_or_default(),
            result: text(row, 3)?,
            error: text(row, 4)?,
        })
    };
    let mut found = |id: &JobId| match id.tag() == tag {
        true => look.query_row(params![id.row(), id.created_at()], outcome).optional(),
        false => Ok(None),
    };
    ids.iter().map(&mut found).collect()
}

pub(super) fn promised(
    db: &Connection,
    tag: u32,
    id: JobId,
    lease: Lease,
) -> rusqlite::Result<Option<Promise>> {
    if id.tag() != tag {
        return Ok(None);
    }
    let promise = |row: &Row<'_>| Ok(Promise { result: text(row, 0)? });
    db.prepare_cached(sql!("promised"))?.query_row(params![id.row(), lease], promise).optional()
}

pub(super) fn attempts(db: &Connection, tag: u32, id: JobId) -> rusqlite::Result<Vec<Attempt>> {
    if id.tag() != tag {
        return Ok(Vec::new());
    }
    let outcome = |code| AttemptOutcome::from_code(code).unwrap_or(AttemptOutcome::Lost);
    db.prepare_cached(sql!("attempts"))?
        .query_map(params![id.row(), id.created_at()], |row| {
            let late_at: Option<Millis> = row.get(7)?;
            let late_outcome: Option<i64> = row.get(8)?;
            let late_text = text(row, 9)?;
            Ok(Attempt {
                lease: row.get(0)?,
                attempt: small(row, 1)?.unwrap_or_default(),
                worker: row.get::<_, Option<i64>>(2)?.map(WorkerId),
                started_at: row.get::<_, Option<Millis>>(3)?.unwrap_or_default(),
                ended_at: row.get(4)?,
                outcome: outcome(row.get(5)?),
                error: text(row, 6)?,
                late: late_at.zip(late_outcome).map(|(at, code)| Late {
                    at,
                    outcome: outcome(code),
                    text: late_text,
                }),
            })
        })?
        .collect()
}

pub(super) fn output(
    db: &Connection,
    tag: u32,
    id: JobId,
    after: Option<(Lease, i64)>,
    limit: usize,
) -> rusqlite::Result<Vec<OutputLine>> {
    if id.tag() != tag {
        return Ok(Vec::new());
    }
    let (lease, seq) = after.unwrap_or((Lease::MIN, i64::MIN));
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    db.prepare_cached(sql!("output"))?
        .query_map(params![id.row(), id.created_at(), lease, seq, limit], |row| {
            Ok(OutputLine {
                lease: row.get(0)?,
                seq: row.get(1)?,
                at: row.get(2)?,
                level: LogLevel::from_code(row.get(3)?).unwrap_or(LogLevel::Info),
                text: text(row, 4)?.unwrap_or_default(),
            })
        })?
        .collect()
}

pub(super) fn step(db: &Connection, tag: u32, id: JobId, name: &str) -> rusqlite::Result<Option<String>> {
    if id.tag() != tag {
        return Ok(None);
    }
    db.prepare_cached(sql!("step"))?
        .query_row(params![id.row(), id.created_at(), name], |row| row.get(0))
        .optional()
}

pub(super) fn steps(db: &Connection, tag: u32, id: JobId) -> rusqlite::Result<Vec<Step>> {
    if id.tag() != tag {
        return Ok(Vec::new());
    }
    db.prepare_cached(sql!("steps"))?
        .query_map(params![id.row(), id.created_at()], |row| {
            Ok(Step { name: words(row, 0)?, lease: row.get(1)?, at: row.get(2)? })
        })?
        .collect()
}

pub(super) fn flow(db: &Connection, tag: u32, id: FlowId) -> rusqlite::Result<Option<FlowRow>> {
    if !id.is_of(tag) {
        return Ok(None);
    }
    db.prepare_cached(sql!("flow_row"))?
        .query_row([id.row()], |row| {
            let count = |column| row.get::<_, i64>(column).map(i64::unsigned_abs);
            Ok(FlowRow {
                id,
                total: count(0)?,
                outcome: BatchOutcome { succeeded: count(1)?, failed: count(2)?, cancelled: count(3)? },
                follow: flows::first(text(row, 4)?.as_deref()),
                parent: row.get::<_, Option<i64>>(5)?.map(|parent| FlowId::compose(parent, tag)),
                joined_at: row.get(6)?,
                created_at: row.get(7)?,
                live: count(8)?,
                dead: count(9)?,
            })
        })
        .optional()
}

pub(super) fn counts(db: &Connection) -> rusqlite::Result<Vec<Count>> {
    db.prepare_cached(sql!("counts"))?
        .query_map([], |row| {
            Ok(Count {
                queue: words(row, 0)?,
                job_type: words(row, 1)?,
                state: JobState::from_code(row.get(2)?).unwrap_or(JobState::Dead),
                count: row.get::<_, i64>(3)?.unsigned_abs(),
            })
        })?
        .collect()
}

/// `watch`: where the look for stranded jobs goes on, and the keys that it has found.
pub(super) fn due(
    db: &Connection,
    set: &ClaimSet,
    now: Millis,
    watch: &Mutex<Watch>,
) -> rusqlite::Result<Due> {
    let mut lanes = Vec::new();
    let (pauses, mut limits) = each_lane(db, |lane, queue, job_type| lanes.push((lane, queue, job_type)))?;
    lanes.iter().for_each(|(lane, queue, job_type)| limits.cover(*lane, queue, job_type));
    let rooms = limits.rooms(db, now)?;
    let mut look = db.prepare_cached(sql!("waiting"))?;
    let mut known = lanes.iter().filter(|(lane, queue, job_type)| {
        set.serves(queue)
            && set.knows(job_type)
            && !pauses.cover(queue, job_type)
            && rooms.of(limits.bound(*lane)) > 0
    });
    let pending =
        known.try_fold(false, |found, (lane, ..)| Ok::<_, rusqlite::Error>(found || look.exists([lane])?))?;
    let next_run_at = db.prepare_cached(sql!("next_run_at"))?.query_row([], |row| row.get(0)).optional()?;
    let next_start_at = next_start(db, &limits, now, watch)?;
    Ok(Due { pending, next_run_at, next_resume_at: pauses.next_end, next_start_at })
}

/// What a look for stranded jobs has found, and where it goes on.
#[derive(Default)]
pub(super) struct Watch {
    cursor: String,
    pub(super) stranded: Vec<String>,
}

/// When limits next let a waiting job start that they keep waiting now.
fn next_start(
    db: &Connection,
    limits: &Limits,
    now: Millis,
    watch: &Mutex<Watch>,
) -> rusqlite::Result<Option<Millis>> {
    let mut look = db.prepare_cached(sql!("waiting"))?;
    let mut closed = Vec::new();
    for lane in limits.closed_by_rates(now) {
        if look.exists([lane])? {
            closed.push(lane);
        }
    }
    let mut next = limits.next_start_at(closed.into_iter(), now);
    if limits.turns {
        let ends: (Option<Millis>, Option<Millis>) =
            db.prepare_cached(sql!("next_turn"))?.query_row([], |row| Ok((row.get(0)?, row.get(1)?)))?;
        let farthest = limits.farthest_turn().unwrap_or_default();
        let set_back = ends.1.is_some_and(|last| last > now.saturating_add(farthest));
        next = next.into_iter().chain(if set_back { Some(now) } else { ends.0 }).min();
    }
    if limits.resorting {
        return Ok(Some(now));
    }
    if limits.keys && next.is_none_or(|next| next > now) {
        let mut watch = watch.lock().unwrap_or_else(PoisonError::into_inner);
        let Watch { cursor, stranded: found } = &mut *watch;
        found.extend(stranded(db, cursor, |job_type| limits.key_bounds(job_type), now)?);
        if !found.is_empty() {
            return Ok(Some(now));
        }
    }
    Ok(next)
}

pub(super) fn limits(db: &Connection, now: Millis) -> rusqlite::Result<Vec<LimitRow>> {
    let mut running = HashMap::<Limited, u64>::new();
    let mut lanes = db.prepare_cached(sql!("running_lanes"))?;
    let mut lanes = lanes.query([])?;
    while let Some(row) = lanes.next()? {
        let count = row.get::<_, i64>(2)?.unsigned_abs();
        *running.entry(Limited::Queue(words(row, 0)?)).or_default() += count;
        *running.entry(Limited::JobType(words(row, 1)?)).or_default() += count;
    }
    let mut rows = Vec::<LimitRow>::new();
    let mut read = db.prepare_cached(sql!("limits"))?;
    for limit in read.query_map([], limit_row)? {
        let (of, is_set, bounds, bucket) = limit?;
        let declared = rows.pop_if(|row| row.of == of).map(|row| row.bounds);
        rows.push(LimitRow {
            running: running.get(&of).copied().unwrap_or_default(),
            of,
            bounds,
            set: is_set.then_some(bounds),
            declared: declared.or((!is_set).then_some(bounds)),
            next_start_at: next_start_at(&bounds, bucket, now),
        });
    }
    Ok(rows)
}

pub(super) fn pauses(db: &Connection) -> rusqlite::Result<Vec<Pause>> {
    db.prepare_cached(sql!("pauses"))?
        .query_map([], |row| {
            Ok(Pause {
                what: paused(row.get(0)?, words(row, 1)?),
                paused_at: row.get(2)?,
                ends_at: row.get(3)?,
                by: text(row, 4)?,
                note: text(row, 5)?,
            })
        })?
        .collect()
}

/// Rows, also such as are done with, that a page of payloads looks at.
const PAYLOAD_LOOKS: i64 = 20_000;

pub(super) fn payloads(db: &Connection, tag: u32, after: i64) -> rusqlite::Result<PayloadPage> {
    let last = last_id(db)?;
    let end = after.saturating_add(PAYLOAD_LOOKS).min(last);
    let mut page = PayloadPage { payloads: Vec::new(), next: end.max(after), last };
    let mut look = db.prepare_cached(sql!("payloads"))?;
    let mut rows = look.query(params![after, end])?;
    let mut bytes = 0;
    while let Some(row) = rows.next()? {
        let payload = text(row, 5)?.unwrap_or_default();
        bytes += payload.len();
        page.payloads.push(StoredPayload {
            id: JobId::compose(row.get(1)?, row.get(0)?, tag),
            job_type: text(row, 2)?.unwrap_or_default(),
            state: JobState::from_code(row.get(3)?).unwrap_or(JobState::Dead),
            version: version(row.get(4)?),
            payload,
        });
        if page.payloads.len() >= PAGE_PAYLOADS || bytes >= PAGE_BYTES {
            page.next = row.get(0)?;
            break;
        }
    }
    Ok(page)
}

pub(super) fn subscriptions(db: &Connection) -> rusqlite::Result<Vec<Subscribed>> {
    db.prepare_cached(sql!("subscriptions"))?
        .query_map([], |row| {
            Ok(Subscribed {
                event: words(row, 0)?,
                job_type: words(row, 1)?,
                program: words(row, 2)?,
                seen_at: row.get(3)?,
            })
        })?
        .collect()
}

pub(super) fn cancels(db: &Connection, tag: u32) -> rusqlite::Result<Vec<Cancel>> {
    let mut wishes = db.prepare_cached(sql!("cancels"))?;
    let live = wishes.query_map([], |row| {
        let (job, lease, asked_at) = (row.get(0)?, row.get(2)?, row.get(3)?);
        let created_at: Option<Millis> = row.get(1)?;
        Ok(created_at.map(|created_at| Cancel { id: JobId::compose(created_at, job, tag), lease, asked_at }))
    })?;
    live.filter_map(Result::transpose).collect()
}

pub(super) fn running(db: &Connection, tag: u32, workers: &[WorkerId]) -> rusqlite::Result<Vec<Running>> {
    let mut jobs = db.prepare_cached(sql!("running"))?;
    let mut found = Vec::new();
    for worker in workers {
        let rows = jobs.query_map([worker.0], |row| {
            Ok(Running {
                id: JobId::compose(row.get(1)?, row.get(0)?, tag),
                lease: row.get(2)?,
                worker: WorkerId(row.get(3)?),
                job_type: words(row, 4)?,
                attempt: small(row, 5)?.unwrap_or_default(),
                max_attempts: small(row, 6)?.unwrap_or_default(),
                backoff: backoff(text(row, 7)?),
                ties: Ties::ALL,
            })
        })?;
        found.extend(rows.collect::<Result<Vec<_>, _>>()?);
    }
    Ok(found)
}

pub(super) fn workers(db: &Connection, side_car: &SideCar) -> rusqlite::Result<Vec<WorkerRow>> {
    db.prepare_cached(sql!("workers"))?
        .query_map([], |row| {
            let (id, boot): (i64, Option<String>) = (row.get(0)?, text(row, 2)?);
            Ok(WorkerRow {
                id: WorkerId(id),
                host: words(row, 1)?,
                pid: small(row, 3)?.unwrap_or_default(),
                build: words(row, 4)?,
                queues: words(row, 5)?,
                beats: row.get(8)?,
                heartbeat_at: row.get(9)?,
                started_at: row.get(10)?,
                life: match boot {
                    Some(boot) => side_car.life(id, &boot, (row.get(6)?, row.get(7)?)),
                    None => side_car.life_without_row(id),
                },
            })
        })?
        .collect()
}

/// A row to prune.
#[derive(Clone, Copy)]
pub(super) struct Expired {
    pub(super) id: i64,
    pub(super) has_output: bool,
}

/// One slice of the search for rows to prune: those that have expired among the rows after `after`.
pub(super) fn expired(
    db: &Connection,
    after: i64,
    last: i64,
    keep: Retention,
    now: Millis,
) -> rusqlite::Result<Vec<Expired>> {
    db.prepare_cached(sql!("expired"))?
        .query_map(params![after, last, now, keep.finished.map(millis), keep.dead.map(millis)], |row| {
            Ok(Expired { id: row.get(0)?, has_output: row.get(1)? })
        })?
        .collect()
}

pub(super) fn last_id(db: &Connection) -> rusqlite::Result<i64> {
    db.query_row(sql!("last_id"), [], |row| row.get::<_, Option<i64>>(0)).map(Option::unwrap_or_default)
}
