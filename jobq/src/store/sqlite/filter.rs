//! The lists' filters: a closed list of fragments, values bound; the one place where SQL is put together.

use super::desk::sql;
use crate::store::JobFilter;
use rusqlite::types::Value;

/// The statement and its values for one page, newest first.
pub(super) fn page(filter: &JobFilter) -> (String, Vec<Value>) {
    let (head, _) = sql!("get").split_once("WHERE").expect("get.sql has a WHERE");
    let mut sql = String::from(head);
    let mut values: Vec<Value> = Vec::new();
    let mut and = |fragment: &str, bound: Vec<Value>| {
        sql.push_str(if values.is_empty() { "WHERE " } else { "    AND " });
        sql.push_str(fragment);
        sql.push('\n');
        values.extend(bound);
    };
    // Always there, so that every other condition follows an AND.
    let before = filter.after.map_or(i64::MAX, |id| id.row());
    and("j.id < ?", vec![before.into()]);
    if !filter.states.is_empty() {
        let codes: Vec<i64> = filter.states.iter().map(|state| state.code()).collect();
        and("j.state IN (SELECT value FROM json_each(?))", vec![format!("{codes:?}").into()]);
    }
    if let Some(job_type) = &filter.job_type {
        and("l.job_type = ?", vec![job_type.clone().into()]);
    }
    if let Some(queue) = &filter.queue {
        and("l.queue = ?", vec![queue.clone().into()]);
    }
    if let Some(key) = &filter.unique_key {
        and("j.unique_key = ?", vec![key.clone().into()]);
    }
    if let Some(flow) = filter.flow {
        and("j.flow = ?", vec![flow.row().into()]);
    }
    if let Some(text) = &filter.label {
        and("instr(lower(j.label), lower(?)) > 0", vec![text.clone().into()]);
    }
    if let Some(from) = filter.created_from {
        and("j.created_at >= ?", vec![from.into()]);
    }
    if let Some(before) = filter.created_before {
        and("j.created_at < ?", vec![before.into()]);
    }
    sql.push_str("ORDER BY j.id DESC LIMIT ?");
    values.push((filter.page() as i64).into());
    (sql, values)
}
