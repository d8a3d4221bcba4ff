//! job_type → handler: where a typed job loses its type, and where all linked jobs are known.

use crate::{
    context::JobContext,
    job::{Defaults, Job, JobError},
    retry::Backoff,
};
use std::{
    any::{Any, TypeId},
    collections::HashMap,
    future::Future,
    pin::Pin,
    time::Duration,
};

/// One linked `#[job]` function, its type forgotten.
pub struct JobEntry {
    /// The stored name.
    pub job_type: &'static str,
    /// Names of rows written before a rename.
    pub aliases: &'static [&'static str],
    /// What its attribute sets.
    pub defaults: Defaults,
    /// The wait between attempts.
    pub backoff: BackoffPolicy,
    /// Whether it runs on a thread of its own.
    pub blocking: bool,
    /// The `#[data]` parameters.
    pub data: &'static [DataNeed],
    /// Whether a payload fits, and its label: [`check`] of the payload's type.
    pub check: CheckFn,
    /// Runs it.
    pub run: RunFn,
    /// Where it was written: module path of the function.
    pub module: &'static str,
    /// Where it was written: file.
    pub file: &'static str,
    /// Where it was written: line.
    pub line: u32,
}

inventory::collect!(JobEntry);

/// The wait between attempts, as a job type sets it.
#[derive(Clone, Copy, Debug)]
pub enum BackoffPolicy {
    /// [`Backoff::DEFAULT`]; a job whose worker was lost runs again at once.
    Unset,
    /// This one, after every kind of failure.
    Set(Backoff),
    /// The user's own function of the attempt (1 = first) and its error, after every kind of failure.
    Own(fn(u32, &JobError) -> Duration),
}

/// One `#[data]` parameter.
#[derive(Clone, Copy)]
pub struct DataNeed {
    /// The type.
    pub id: fn() -> TypeId,
    /// Its name, for people.
    pub name: fn() -> &'static str,
}

impl DataNeed {
    /// The need of a `T`.
    pub const fn of<T: Any>() -> Self {
        Self { id: TypeId::of::<T>, name: std::any::type_name::<T> }
    }
}

/// Values that a worker lends to its jobs, one of each type.
#[derive(Default)]
pub struct DataMap(HashMap<TypeId, Box<dyn Any + Send + Sync>>);

impl DataMap {
    /// Provides a value; a second one of the same type replaces the first.
    pub fn insert<T: Any + Send + Sync>(&mut self, value: T) {
        self.0.insert(TypeId::of::<T>(), Box::new(value));
    }

    /// The value of this type.
    pub fn get<T: Any>(&self) -> Option<&T> {
        self.0.get(&TypeId::of::<T>()).and_then(|value| value.downcast_ref())
    }

    /// Whether the need is met.
    pub fn has(&self, need: &DataNeed) -> bool {
        self.0.contains_key(&(need.id)())
    }
}

/// Decodes a JSON payload and gives its label, without running anything.
pub type CheckFn = fn(&str) -> Result<Option<String>, DecodeError>;

/// The [`CheckFn`] of `J`.
pub fn check<J: Job>(payload: &str) -> Result<Option<String>, DecodeError> {
    match serde_json::from_str::<J>(payload) {
        Ok(job) => Ok(job.label()),
        Err(source) => Err(DecodeError { job_type: J::TYPE, source }),
    }
}

/// Starts one attempt: JSON payload, context and data in; the attempt out, or why it can't start.
pub type RunFn = for<'a> fn(&'a str, &'a JobContext, &'a DataMap) -> Result<Attempting<'a>, DecodeError>;

/// An attempt under way; gives the output as JSON text, `None` for `()`.
pub type Attempting<'a> = Pin<Box<dyn Future<Output = Result<Option<String>, JobError>> + Send + 'a>>;

/// A payload that this build's function does not take.
#[derive(Debug, thiserror::Error)]
#[error("the payload does not fit `{job_type}` of this build: {source}")]
pub struct DecodeError {
    /// The stored name.
    pub job_type: &'static str,
    /// What serde says.
    pub source: serde_json::Error,
}

/// All linked jobs.
pub struct Registry {
    by_name: HashMap<&'static str, &'static JobEntry>,
}
