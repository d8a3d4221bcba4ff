//! Steps of running jobs, as a store records them.

use super::StoreError;
use crate::{
    job::{JobId, Lease, MAX_NAME, MAX_RESULT},
    time::Millis,
};
use serde::Serialize;

/// A step of a running job, on its way into a store.
#[derive(Clone, Debug)]
pub struct NewStep {
    /// The job.
    pub id: JobId,
    /// The right to it.
    pub lease: Lease,
    /// The step.
    pub name: String,
    /// JSON text of what it gave.
    pub result: String,
    /// The most steps that the job may have.
    pub most: usize,
}

/// What became of the record of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recorded {
    /// Written.
    Stored,
    /// There is one of this name; it stays.
    Before,
    /// The job has as many steps as it may have.
    Full,
    /// The job has moved on under another lease, or is no longer there.
    LeaseLost,
}

/// A step that a job has taken.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Step {
    /// The step.
    pub name: String,
    /// The claim that recorded it.
    pub lease: Lease,
    /// When.
    #[serde(serialize_with = "crate::job::rfc3339")]
    pub at: Millis,
}

/// Refuses a step that no store takes.
pub(super) fn admit_step(step: &NewStep) -> Result<(), StoreError> {
    let (name, size) = (&step.name, step.result.len());
    let why = if name.is_empty() || name.len() > MAX_NAME || name.contains('\0') {
        format!("its name is not 1 to {MAX_NAME} bytes of text")
    } else if size > MAX_RESULT {
        format!("a result of {size} bytes; the most is {MAX_RESULT}")
    } else {
        return Ok(());
    };
    Err(StoreError::Invalid(format!("step {name:?} can't be recorded: {why}")))
}
