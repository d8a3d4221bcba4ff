//! What expanded code may name, and nothing else. Not part of the public API; it changes without notice.

pub use crate::{
    context::JobContext,
    enqueue::{Call, CallJob},
    event::Event,
    job::{Defaults, Job, JobError, JobField, KeyScope, OnConflict, Timeout, UniqueRule, Until},
    limit::{Bounds, Rate},
    registry::{
        BackoffPolicy, CronEntry, DataMap, DataNeed, Field, JobEntry, OnDead, Subscription, TypeSchema,
        check, decode,
    },
    retry::Backoff,
    schedule::{CatchUp, Overlap},
    secret,
    state::{JobState, StateSet},
};
pub use ::inventory;
pub use ::serde::{self, Deserialize, Serialize};
pub use std::{
    boxed::Box,
    file,
    fmt::{self, Debug, Formatter},
    format, line, module_path,
    option::Option::{self, None, Some},
    result::Result::{self, Ok},
    string::String,
    time::Duration,
};

use crate::{
    enqueue::{EnqueueError, JobFn, brought},
    job::{DeadJob, NewJob, Return},
    registry::MapFn,
    secret::{Fields, shown as field_shown},
};

use serde::de::DeserializeOwned;
use serde_json::Value;
use std::{
    any::{Any, TypeId, type_name},
    error::Error,
};

/// A payload as a row holds it.
///
/// # Errors
/// What serde says.
pub fn encode<J: Job>(job: &J) -> Result<String, serde_json::Error> {
    serde_json::to_string(job)
}

/// Compiles where a payload can hold a `T`.
pub const fn stores<T: Storable>() {}

/// What a payload may hold.
#[diagnostic::on_unimplemented(
    message = "`{Self}` can't be stored in a payload",
    label = "not `Serialize` and `Deserialize`",
    note = "derive `serde::Serialize` and `serde::Deserialize` on it, or mark the parameter `#[data]` where the worker \
            is to lend it"
)]
pub trait Storable {}

#[diagnostic::do_not_recommend]
impl<T: Serialize + DeserializeOwned> Storable for T {}

/// What a `#[data] x: &T` is given.
///
/// # Errors
/// Nothing of the type was provided. A worker does not start then, so this is met only by who runs an entry by hand.
pub fn lend<T: Any>(data: &DataMap) -> Result<&T, JobError> {
    data.get()
        .ok_or_else(|| JobError::new(format!("no `{}` was provided with `Worker::data`", type_name::<T>())))
}

/// What a `#[data] x: T` is given: a clone.
///
/// # Errors
/// As [`lend`].
pub fn lend_clone<T: Any + Clone>(data: &DataMap) -> Result<T, JobError> {
    lend(data).cloned()
}

/// The `on_dead` of a job type.
pub const fn on_dead<Params, F: TellsOfTheDead<Params>>(_: &F) -> OnDead {
    assert!(F::Job::SECRETS.is_empty(), "the `on_dead` of a job has no secrets: what it is told holds none");
    OnDead { job_type: F::Job::TYPE, job: telling::<F::Job> }
}

/// A job function that takes a dead job and nothing else.
#[diagnostic::on_unimplemented(
    message = "this can't be the `on_dead` of a job",
    label = "a job function whose one payload parameter is a `DeadJob` is expected here",
    note = "write it as `#[job] async fn tell_ops(dead: DeadJob) {{ … }}`; it may take a context and data as well"
)]
pub trait TellsOfTheDead<Params>: JobFn<Params, Job: Job<Args = DeadJob>> {}

#[diagnostic::do_not_recommend]
impl<Params, F: JobFn<Params, Job: Job<Args = DeadJob>>> TellsOfTheDead<Params> for F {}

fn telling<J: Job<Args = DeadJob>>(dead: DeadJob, max_attempts: u32) -> Result<NewJob, String> {
    let without = DeadJob { payload: Option::None, ..dead.clone() };
    match brought(&J::from_args(dead), max_attempts) {
        Err(EnqueueError::TooLarge { .. }) => brought(&J::from_args(without), max_attempts),
        job => job,
    }
    .map_err(|error| error.to_string())
}

/// That a job follows from `E`, with these payloads.
pub const fn subscription<E: Event>(map: MapFn) -> Subscription {
    Subscription { event: E::NAME, id: TypeId::of::<E>, type_name: type_name::<E>, map }
}

/// What follows from the event that was given, if it is an `E`.
///
/// # Errors
/// What `payloads` says.
pub fn follow<E: Event>(
    given: &dyn Any,
    payloads: impl FnOnce(&E) -> Result<Vec<String>, serde_json::Error>,
) -> Result<Vec<String>, serde_json::Error> {
    given.downcast_ref::<E>().map_or_else(|| Ok(Vec::new()), payloads)
}

/// These payloads as JSON.
///
/// # Errors
/// One of them can't be written as JSON.
pub fn payloads<J: Job, P: Payloads<J>>(payloads: P) -> Result<Vec<String>, serde_json::Error> {
    payloads.each().map(|job| serde_json::to_string(&job)).collect()
}

/// What a mapping from an event may give.
#[diagnostic::on_unimplemented(
    message = "what follows from the event are payloads `{J}`, and this gives `{Self}`",
    label = "not payloads `{J}`",
    note = "let it return `Option<{J}>`, `Vec<{J}>` or any other `impl IntoIterator<Item = {J}>`"
)]
pub trait Payloads<J> {
    #[doc(hidden)]
    fn each(self) -> impl Iterator<Item = J>;
}

#[diagnostic::do_not_recommend]
impl<J, P: IntoIterator<Item = J>> Payloads<J> for P {
    fn each(self) -> impl Iterator<Item = J> {
        self.into_iter()
    }
}

/// The payload that follows from an event by `From`, as JSON.
///
/// # Errors
/// It can't be written as JSON.
pub fn followed<E, J: Job + Follows<E>>(event: &E) -> Result<Vec<String>, serde_json::Error> {
    payloads([J::of(event)])
}

/// A payload that is made from an event.
#[diagnostic::on_unimplemented(
    message = "nothing says how a `{Self}` is made from the event `{E}`",
    label = "there is no `From<&{E}>`",
    note = "write `impl From<&{E}> for {Self}`, or a function from the event to payloads: `on({E}, with = path)`"
)]
pub trait Follows<E>: Sized {
    #[doc(hidden)]
    fn of(event: &E) -> Self;
}

#[diagnostic::do_not_recommend]
impl<E, J: for<'e> From<&'e E>> Follows<E> for J {
    fn of(event: &E) -> Self {
        Self::from(event)
    }
}

/// What a user's `upgrade` gave.
///
/// # Errors
/// It refuses the payload.
pub fn upgraded(given: impl Upgraded) -> Result<Value, Box<dyn Error + Send + Sync>> {
    given.upgraded()
}

/// What a user's `upgrade` may give.
#[diagnostic::on_unimplemented(
    message = "an upgrade gives a `Result<serde_json::Value, E>`, and this gives `{Self}`",
    label = "not a `Result<serde_json::Value, E>`",
    note = "write it as `fn(stored: u32, payload: serde_json::Value) -> Result<serde_json::Value, E>`, with any `E` that \
            converts into `Box<dyn Error + Send + Sync>`, such as `String`"
)]
pub trait Upgraded {
    #[doc(hidden)]
    fn upgraded(self) -> Result<Value, Box<dyn Error + Send + Sync>>;
}

#[diagnostic::do_not_recommend]
impl<E: Into<Box<dyn Error + Send + Sync>>> Upgraded for Result<Value, E> {
    fn upgraded(self) -> Result<Value, Box<dyn Error + Send + Sync>> {
        self.map_err(Into::into)
    }
}

/// What a function returned, as a row holds it: JSON text, `None` for `()`.
///
/// # Errors
/// What the function returned as its error. An output that is not JSON makes the job dead: the work was done, and
/// doing it again gives the same output.
pub fn stored<R: Outcome>(returned: R) -> Result<Option<String>, JobError> {
    returned.stored()
}

/// A return type whose output and error a row can hold.
#[diagnostic::on_unimplemented(
    message = "a job returns `()` or a `Result`, not `{Self}`",
    label = "neither `()` nor a `Result`"
)]
pub trait Outcome: Return {
    #[doc(hidden)]
    fn stored(self) -> Result<Option<String>, JobError>;
}

impl Outcome for () {
    fn stored(self) -> Result<Option<String>, JobError> {
        Ok(None)
    }
}

impl<T: Serialize + Send + 'static, E: Fault + Send + 'static> Outcome for Result<T, E> {
    fn stored(self) -> Result<Option<String>, JobError> {
        let output = self.map_err(Fault::into_job_error)?;
        if TypeId::of::<T>() == TypeId::of::<()>() {
            return Ok(None);
        }
        let json = serde_json::to_string(&output);
        json.map(Some).map_err(|error| JobError::dead(format!("the output can't be stored as JSON: {error}")))
    }
}

/// An error that a job may return.
#[diagnostic::on_unimplemented(
    message = "`{Self}` can't be the error of a job",
    label = "not an error",
    note = "the error of a job is `JobError`, or anything that converts into `Box<dyn Error + Send + Sync>`: every \
            `std::error::Error + Send + Sync`, `anyhow::Error`, `eyre::Report`, `String`"
)]
pub trait Fault {
    #[doc(hidden)]
    fn into_job_error(self) -> JobError;
}

#[diagnostic::do_not_recommend]
impl<E: Into<JobError>> Fault for E {
    fn into_job_error(self) -> JobError {
        self.into()
    }
}

/// `Name { field: json, … }`: the payload as it is stored, so that its fields need no `Debug`.
pub fn debug<J: Serialize>(job: &J, name: &str, f: &mut Formatter<'_>) -> fmt::Result {
    let json = serde_json::to_string(job);
    match json.as_deref().map(serde_json::from_str) {
        Ok(Ok(Fields(fields))) => {
            let mut shown = f.debug_struct(name);
            for (field, value) in &fields {
                shown.field(field, &format_args!("{}", field_shown(value)));
            }
            shown.finish()
        }
        // No JSON object, as with `serde(transparent)`.
        Ok(Err(_)) => write!(f, "{name}({})", json.as_deref().unwrap_or_default()),
        Err(error) => write!(f, "{name}(no JSON: {error})"),
    }
}

/// The schema of a type, or that it tells none.
#[cfg(feature = "schema")]
#[doc(hidden)]
#[macro_export]
macro_rules! __type_schema {
    ($ty:ty) => {{
        use $crate::private::TellsNoSchema as _;
        $crate::private::Told::<$ty>::SCHEMA
    }};
}

/// Without the feature `schema` no type is asked.
#[cfg(not(feature = "schema"))]
#[doc(hidden)]
#[macro_export]
macro_rules! __type_schema {
    ($ty:ty) => {
        $crate::private::TypeSchema::NONE
    };
}

/// What `T` tells of its JSON: its own constant where it tells a schema, else the trait's of the same name.
#[cfg(feature = "schema")]
pub struct Told<T>(std::marker::PhantomData<T>);

#[cfg(feature = "schema")]
impl<T: schemars::JsonSchema> Told<T> {
    pub const SCHEMA: TypeSchema = TypeSchema::of::<T>();
}

/// What is left where the type tells nothing.
#[cfg(feature = "schema")]
pub trait TellsNoSchema {
    const SCHEMA: TypeSchema = TypeSchema::NONE;
}

#[cfg(feature = "schema")]
impl<T> TellsNoSchema for Told<T> {}

pub use __type_schema as type_schema;
