//! What is read of schedules.

use super::super::desk::{sql, text, version};
use crate::{
    job::JobId,
    schedule::Overlap,
    store::{DueSchedules, ScheduleRow, Source, TickRow},
    time::Millis,
};
use rusqlite::{Connection, OptionalExtension, Row};

pub(in super::super) fn due_schedules(
    db: &Connection,
    tag: u32,
    now: Millis,
) -> rusqlite::Result<DueSchedules> {
    let mut due = db.prepare_cached(sql!("due_schedules"))?;
    let due = due.query_map([now], |row| schedule_row(row, tag))?.collect::<Result<_, _>>()?;
    let next = db.prepare_cached(sql!("next_tick"))?.query_row([now], |row| row.get(0)).optional()?;
    Ok(DueSchedules { due, next })
}

pub(in super::super) fn schedules(
    db: &Connection,
    tag: u32,
    id: Option<&str>,
) -> rusqlite::Result<Vec<ScheduleRow>> {
    db.prepare_cached(sql!("schedules"))?.query_map([id], |row| schedule_row(row, tag))?.collect()
}

pub(in super::super) fn ticks(db: &Connection, tag: u32, id: &str) -> rusqlite::Result<Vec<TickRow>> {
    db.prepare_cached(sql!("ticks"))?
        .query_map([id], |row| Ok(TickRow { at: row.get(0)?, job: job_id(row, 1, tag)? }))?
        .collect()
}

/// The columns of schedules.sql.
fn schedule_row(row: &Row<'_>, tag: u32) -> rusqlite::Result<ScheduleRow> {
    let words = |column| Ok::<_, rusqlite::Error>(text(row, column)?.unwrap_or_default());
    Ok(ScheduleRow {
        id: words(0)?,
        job_type: words(1)?,
        payload: words(2)?,
        cron_expr: words(3)?,
        tz: words(4)?,
        catch_up: words(5)?,
        overlap: if words(6)? == Overlap::Skip.as_str() { Overlap::Skip } else { Overlap::Allow },
        source: if words(7)? == Source::Attribute.as_str() { Source::Attribute } else { Source::Dynamic },
        options: words(8)?,
        last_run: row.get(9)?,
        next_run: row.get(10)?,
        enabled: row.get(11)?,
        last_job: job_id(row, 12, tag)?,
        skipped: row.get::<_, i64>(14)?.unsigned_abs(),
        error: text(row, 15)?,
        created_at: row.get(16)?,
        updated_at: row.get(17)?,
        version: version(row.get(18)?),
    })
}

/// A job by its row and the time of its enqueue, in the column after it.
fn job_id(row: &Row<'_>, column: usize, tag: u32) -> rusqlite::Result<Option<JobId>> {
    let (job, at) = (row.get::<_, Option<i64>>(column)?, row.get::<_, Option<Millis>>(column + 1)?);
    Ok(job.zip(at).map(|(job, at)| JobId::compose(at, job, tag)))
}
