//! Flows inside the caller's own transaction.

use super::{Home, enqueue_in, refused, sql};
use crate::{
    job::{JobId, NewJob},
    store::{NewFlow, StoreError, Strand, flows::written},
    time::Millis,
};
use sqlx::{Row, SqliteConnection};
use std::{future::Future, pin::Pin, time::Instant};

type Laid<'a> = Pin<Box<dyn Future<Output = Result<(i64, Vec<JobId>), StoreError>> + Send + 'a>>;

/// Two statements for each flow, and two for each run of jobs that the same follows from.
pub(in super::super) fn enqueue_flow_in<'a>(
    home: Home<'a>,
    db: &'a mut SqliteConnection,
    new: NewFlow,
    parent: Option<i64>,
    now: Millis,
) -> Laid<'a> {
    Box::pin(async move {
        let (began, new_is_empty) = (Instant::now(), new.strands.is_empty());
        let failed = |error| refused(error, began.elapsed());
        let found = sqlx::query(sql!("found")).bind(new.strands.len() as i64).bind(written(&new.follow));
        let found = found.bind(parent).bind(now).fetch_one(&mut *db).await.map_err(failed)?;
        let flow: i64 = found.get(0);
        let (mut ids, mut run): (Vec<JobId>, (Vec<NewJob>, Option<String>)) = Default::default();
        for strand in new.strands {
            match strand {
                Strand::Job(job, links) => {
                    let links = written(&links);
                    if links != run.1 {
                        ids.extend(lay(home, db, std::mem::take(&mut run), flow, now).await?);
                        run.1 = links;
                    }
                    run.0.push(*job);
                }
                Strand::Flow(inner) => {
                    ids.extend(lay(home, db, std::mem::take(&mut run), flow, now).await?);
                    ids.extend(enqueue_flow_in(home, db, inner, Some(flow), now).await?.1);
                }
            }
        }
        ids.extend(lay(home, db, run, flow, now).await?);
        if new_is_empty {
            let joined = sqlx::query(sql!("keep_flow")).bind(flow).bind(0).bind(0).bind(0).bind(now);
            joined.execute(&mut *db).await.map_err(failed)?;
        }
        Ok((flow, ids))
    })
}

/// Jobs that the same follows from.
async fn lay(
    home: Home<'_>,
    db: &mut SqliteConnection,
    (jobs, links): (Vec<NewJob>, Option<String>),
    flow: i64,
    now: Millis,
) -> Result<Vec<JobId>, StoreError> {
    let began = Instant::now();
    let laid = enqueue_in(home, db, &jobs, now).await?;
    let ids: Vec<JobId> = laid.into_iter().map(|job| job.id).collect();
    if let (Some(first), Some(last)) = (ids.first(), ids.last()) {
        let join =
            sqlx::query(sql!("join_flow_in")).bind(first.row()).bind(last.row()).bind(flow).bind(links);
        join.execute(&mut *db).await.map_err(|error| refused(error, began.elapsed()))?;
    }
    Ok(ids)
}
