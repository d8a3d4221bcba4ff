//! What is enqueued with the end of a job: its type's `on_dead`.

use super::caught;
use crate::{
    job::{DeadJob, JobRow, NewJob},
    registry::{JobEntry, Known},
    store::Claimed,
};

/// The job that tells of a dead one, where its type wants that. `dead` makes what is told. `max_attempts` holds for a
/// type that sets none.
pub(crate) fn on_dead(
    entry: &JobEntry,
    max_attempts: u32,
    dead: impl FnOnce() -> DeadJob,
) -> Option<Box<NewJob>> {
    let hook = entry.on_dead?;
    let dead = dead();
    let id = dead.id;
    // A user's label can panic.
    match caught(|| (hook.job)(dead, max_attempts)).unwrap_or_else(|panic| Err(format!("panicked: {panic}")))
    {
        Ok(job) => Some(Box::new(job)),
        Err(error) => {
            let (job_type, on_dead) = (entry.job_type, hook.job_type);
            tracing::error!(%id, job_type, on_dead, error, "the job that tells of a dead job could not be made");
            None
        }
    }
}

/// A payload as it is told to others: without its secrets.
fn shown(job_type: &str, version: u32, payload: &str) -> Option<serde_json::Value> {
    serde_json::from_str(&Known::at(job_type, version).redacted(payload)).ok()
}

/// What is told of a job that runs and is dead by this error.
pub(crate) fn dying(job: &Claimed, error: &str) -> DeadJob {
    DeadJob {
        id: job.id,
        job_type: job.job_type.to_string(),
        queue: job.queue.to_string(),
        payload: shown(&job.job_type, job.version, &job.payload),
        error: error.to_owned(),
        attempts: job.attempt,
    }
}

/// The same of one that is known by its row.
pub(crate) fn dying_row(job: JobRow, error: &str) -> DeadJob {
    DeadJob {
        id: job.id,
        payload: shown(&job.job_type, job.version, &job.payload),
        job_type: job.job_type,
        queue: job.queue,
        error: error.to_owned(),
        attempts: job.attempts,
    }
}
