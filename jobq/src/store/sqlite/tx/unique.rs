//! Unique keys in a caller's transaction: who holds them is asked once, then it is worked out what is to be written.

use super::super::desk::{Decision, Holder, Inserted, sql, stored};
use crate::{
    job::{Fields, JobField, JobId, NewJob, OnConflict},
    store::{Enqueued, Landed, StoreError},
    time::Millis,
};
use serde_json::json;
use sqlx::{Row, SqliteConnection};
use std::{borrow::Cow, collections::HashMap};

/// What is to be written for some jobs, and what the answers are.
#[derive(Default)]
pub(super) struct Plan<'a> {
    /// The jobs that are new, in their order.
    pub(super) inserts: Vec<Cow<'a, NewJob>>,
    /// What jobs that are there take over, in this order.
    replaces: Vec<(JobId, Fields, &'a NewJob)>,
    /// Jobs whose window is over and whose key is wanted.
    lapsed: Vec<JobId>,
    answers: Vec<Answer>,
}

enum Answer {
    /// The n-th insert; whether it is this very job.
    Inserted(usize, Landed),
    There(Enqueued),
}

/// Where a key stands.
enum Seen {
    /// With the n-th insert.
    New(usize),
    Held(Holder),
}

type Key<'a> = (&'a str, &'a str);

impl<'a> Plan<'a> {
    /// Where no job has a key: all of them are new.
    pub(super) fn plain(jobs: &'a [NewJob]) -> Self {
        let answers = (0..jobs.len()).map(|place| Answer::Inserted(place, Landed::New)).collect();
        Self { inserts: jobs.iter().map(Cow::Borrowed).collect(), answers, ..Self::default() }
    }

    /// Looks who holds the keys; writes nothing.
    pub(super) async fn of(
        jobs: &'a [NewJob],
        db: &mut SqliteConnection,
        tag: u32,
        now: Millis,
        refused: impl Fn(sqlx::Error) -> StoreError,
    ) -> Result<Self, StoreError> {
        let mut seen = holders(jobs, db, tag).await.map_err(refused)?;
        let mut plan = Self::default();
        for (place, job) in jobs.iter().enumerate() {
            let answer = plan.place(job, &mut seen, now).map_err(|existing| StoreError::Duplicate {
                place,
                key: job.unique.as_ref().map(|unique| unique.key.clone()).unwrap_or_default(),
                existing,
            })?;
            plan.answers.push(answer);
        }
        Ok(plan)
    }

    /// `Err`: it is to be rejected; who holds its key, `None` for an earlier one of the same call.
    fn place(
        &mut self,
        job: &'a NewJob,
        seen: &mut HashMap<Key<'a>, Seen>,
        now: Millis,
    ) -> Result<Answer, Option<JobId>> {
        let key = job.unique.as_deref().map(|unique| ((&*unique.key, &*unique.scope), unique));
        let Some((key, unique)) = key else { return Ok(self.insert(job)) };
        match seen.get(&key) {
            None => {}
            Some(Seen::Held(holder)) => match holder.decide(job, unique, now) {
                Decision::Lapsed => self.lapsed.push(holder.id),
                Decision::Refuse => return Err(Some(holder.id)),
                Decision::Existing => {
                    return Ok(Answer::There(Enqueued { id: holder.id, landed: Landed::Existing }));
                }
                Decision::Replace => {
                    if let OnConflict::Replace(fields) = unique.on_conflict {
                        self.replaces.push((holder.id, fields, job));
                    }
                    return Ok(Answer::There(Enqueued { id: holder.id, landed: Landed::Replaced }));
                }
            },
            Some(&Seen::New(first)) => {
                return match unique.on_conflict {
                    OnConflict::Reject => Err(None),
                    OnConflict::Replace(fields) if self.inserts[first].job_type == job.job_type => {
                        take_over(self.inserts[first].to_mut(), job, fields);
                        Ok(Answer::Inserted(first, Landed::Replaced))
                    }
                    OnConflict::Keep | OnConflict::Replace(_) => {
                        Ok(Answer::Inserted(first, Landed::Existing))
                    }
                };
            }
        }
        seen.insert(key, Seen::New(self.inserts.len()));
        Ok(self.insert(job))
    }

    fn insert(&mut self, job: &'a NewJob) -> Answer {
        self.inserts.push(Cow::Borrowed(job));
        Answer::Inserted(self.inserts.len() - 1, Landed::New)
    }

    /// Writes what comes before the inserts: a statement for each job that is there and changes.
    pub(super) async fn make_way(&self, db: &mut SqliteConnection, now: Millis) -> Result<(), sqlx::Error> {
        for id in &self.lapsed {
            sqlx::query(sql!("lapse")).bind(id.row()).execute(&mut *db).await?;
        }
        for &(id, fields, new) in &self.replaces {
            let columns = Inserted::of(new, now);
            if new.concurrency_key.is_some() {
                sqlx::query(sql!("turn_of")).bind(id.row()).execute(&mut *db).await?;
            }
            sqlx::query(sql!("replace"))
                .bind(id.row())
                .bind(fields.bits())
                .bind(&new.payload)
                .bind(&new.label)
                .bind(columns.run_at)
                .bind(columns.state.code())
                .bind(new.priority)
                .bind(&*new.queue)
                .bind(&*new.job_type)
                .bind(i64::from(new.max_attempts))
                .bind(columns.timeout)
                .bind(columns.backoff)
                .bind(columns.retain)
                .bind(now)
                .bind(columns.version)
                .bind(new.concurrency_key.as_ref().map(|key| stored(&new.job_type, key)))
                .execute(&mut *db)
                .await?;
        }
        Ok(())
    }

    /// The answers, once the inserts have their ids.
    pub(super) fn answers(self, ids: &[JobId]) -> Vec<Enqueued> {
        let answer = |answer| match answer {
            Answer::Inserted(place, landed) => Enqueued { id: ids[place], landed },
            Answer::There(enqueued) => enqueued,
        };
        self.answers.into_iter().map(answer).collect()
    }
}

/// Who holds the keys of these jobs.
async fn holders<'a>(
    jobs: &'a [NewJob],
    db: &mut SqliteConnection,
    tag: u32,
) -> Result<HashMap<Key<'a>, Seen>, sqlx::Error> {
    let mut keys: Vec<Key<'a>> = jobs
        .iter()
        .filter_map(|job| job.unique.as_deref())
        .map(|unique| (&*unique.key, &*unique.scope))
        .collect();
    keys.sort_unstable();
    keys.dedup();
    let rows = sqlx::query(sql!("holders_in")).bind(json!(keys).to_string()).fetch_all(db).await?;
    let mut holders = HashMap::with_capacity(rows.len());
    for row in rows {
        let place = usize::try_from(row.try_get::<i64, _>(6)?).unwrap_or(usize::MAX);
        let holder = Holder::new(
            JobId::compose(row.try_get(1)?, row.try_get(0)?, tag),
            row.try_get(2)?,
            row.try_get(3)?,
            row.try_get(4)?,
            row.try_get(5)?,
        );
        if let Some(&key) = keys.get(place) {
            holders.insert(key, Seen::Held(holder));
        }
    }
    Ok(holders)
}

/// The same as replace.sql, for a job that is not laid yet.
fn take_over(job: &mut NewJob, new: &NewJob, fields: Fields) {
    let takes = |field| fields.contains(field);
    if takes(JobField::Payload) {
        job.payload.clone_from(&new.payload);
        job.version = new.version;
        job.concurrency_key.clone_from(&new.concurrency_key);
    }
    if takes(JobField::Label) {
        job.label.clone_from(&new.label);
    }
    if takes(JobField::RunAt) {
        job.run_at = new.run_at;
    }
    if takes(JobField::Priority) {
        job.priority = new.priority;
    }
    if takes(JobField::Queue) {
        job.queue.clone_from(&new.queue);
    }
    if takes(JobField::MaxAttempts) {
        job.max_attempts = new.max_attempts;
    }
    if takes(JobField::Timeout) {
        job.timeout = new.timeout;
    }
    if takes(JobField::Backoff) {
        job.backoff = new.backoff;
    }
    if takes(JobField::Retain) {
        job.retain = new.retain;
    }
}
