//! job_type → handler: where a typed job loses its type, and where all linked jobs are known.

use crate::{
    context::JobContext,
    job::{DeadJob, Defaults, Job, JobError, NewJob},
    retry::Backoff,
    schedule::{CatchUp, Overlap},
    secret::{discreet, mark},
};
use serde_json::value::RawValue;
use std::{
    any::{Any, TypeId},
    borrow::Cow,
    collections::{BTreeMap, HashMap},
    error::Error,
    fmt,
    future::Future,
    pin::Pin,
    sync::{Arc, LazyLock},
    time::Duration,
};

mod manifest;
mod schema;
mod secrets;

pub use manifest::{Change, JobManifest, Manifest, ManifestError, ManifestField};
pub use schema::TypeSchema;
pub(crate) use secrets::{Known, encode};

/// One linked `#[job]` function, its type forgotten.
#[derive(Clone, Copy)]
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
    /// What is enqueued when a job of it is dead.
    pub on_dead: Option<OnDead>,
    /// The `#[data]` parameters.
    pub data: &'static [DataNeed],
    /// The events that enqueue it.
    pub on: &'static [Subscription],
    /// The `#[secret]` parameters.
    pub secrets: &'static [&'static str],
    /// The times at which it is enqueued.
    pub cron: Option<CronEntry>,
    /// Makes payloads of older versions ones of this build; `None`: this build has the first version.
    pub upgrade: Option<UpgradeFn>,
    /// Whether a payload of this build's version fits, its label and its unique key: [`check`] of the payload's type. Rows
    /// may be older: see [`read`](Self::read).
    pub check: CheckFn,
    /// Runs a payload of this build's version: see [`start`](Self::start).
    pub run: RunFn,
    /// The fields of its payload, as rows hold them.
    pub fields: &'static [Field],
    /// What makes the payload's JSON another than an object of the fields, such as serde's `transparent`; else empty.
    pub shape: &'static str,
    /// Every option of its attribute, with its value as written.
    pub written: &'static [(&'static str, &'static str)],
    /// The doc comment of the function.
    pub doc: &'static str,
    /// The name of the function.
    pub function: &'static str,
    /// Where it was written: module path of the function.
    pub module: &'static str,
    /// Where it was written: file.
    pub file: &'static str,
    /// Where it was written: line.
    pub line: u32,
}

inventory::collect!(JobEntry);

/// One field of a payload, as rows hold it.
#[derive(Clone, Copy, Debug)]
pub struct Field {
    /// Its name in JSON.
    pub name: &'static str,
    /// Other names that are read for it.
    pub aliases: &'static [&'static str],
    /// Its type, as written.
    pub ty: &'static str,
    /// Whether a payload may lack it.
    pub optional: bool,
    /// Whether its own fields stand in its place.
    pub flatten: bool,
    /// Whether it is marked `#[secret]`.
    pub secret: bool,
    /// The doc comment of the parameter.
    pub doc: &'static str,
    /// A value to begin with, as JSON: see [`JobEntry::template`].
    pub template: &'static str,
    /// Its type's JSON Schema: see the chapter [`schema`](crate::guide::schema).
    pub schema: TypeSchema,
}

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

/// The job function that is told of a type's dead jobs: its stored name, and how a job of it is made.
#[derive(Clone, Copy, Debug)]
pub struct OnDead {
    /// The stored name.
    pub job_type: &'static str,
    /// The job that tells of this one; the number is the `max_attempts` of a type that sets none.
    pub job: fn(DeadJob, u32) -> Result<NewJob, String>,
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

/// The times at which a job is enqueued: `cron = …`, checked when it was compiled.
#[derive(Clone, Copy, Debug)]
pub struct CronEntry {
    /// The pattern.
    pub pattern: &'static str,
    /// The pattern's time zone.
    pub zone: &'static str,
    /// What becomes of missed ticks.
    pub catch_up: CatchUp,
    /// What becomes of a tick while the job of an earlier one is live.
    pub overlap: Overlap,
    /// The payload of a job without parameters, as JSON.
    pub payload: fn() -> Result<String, serde_json::Error>,
}

/// One event that a job follows from: `on = …`.
#[derive(Clone, Copy, Debug)]
pub struct Subscription {
    /// The stored name of the event.
    pub event: &'static str,
    /// The event's type.
    pub id: fn() -> TypeId,
    /// Its name, for people.
    pub type_name: fn() -> &'static str,
    /// The payloads that follow from an event.
    pub map: MapFn,
}

/// Gives the payloads that follow from an event, as JSON; from a value of another type none.
pub type MapFn = fn(&dyn Any) -> Result<Vec<String>, serde_json::Error>;

/// Values that a worker lends to its jobs, one of each type.
#[derive(Clone, Default)]
pub struct DataMap(HashMap<TypeId, Arc<dyn Any + Send + Sync>>);

impl DataMap {
    /// Provides a value; a second one of the same type replaces the first.
    pub fn insert<T: Any + Send + Sync>(&mut self, value: T) {
        self.0.insert(TypeId::of::<T>(), Arc::new(value));
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

/// Decodes a JSON payload and gives what is made of it, without running anything.
pub type CheckFn = fn(&str) -> Result<Checked, DecodeError>;

/// What is made of a payload that fits.
#[derive(Clone, PartialEq, Eq)]
pub struct Checked {
    /// The title for people.
    pub label: Option<String>,
    /// What the attribute says is its unique key.
    pub unique_key: Option<String>,
    /// What the attribute says is its concurrency key.
    pub concurrency_key: Option<String>,
    /// Its JSON, as this build writes it.
    pub payload: String,
}

/// The [`CheckFn`] of `J`.
pub fn check<J: Job>(payload: &str) -> Result<Checked, DecodeError> {
    let job: J = decode(payload)?;
    Ok(Checked {
        label: job.label(),
        unique_key: job.unique_key(),
        concurrency_key: job.concurrency_key(),
        payload: encode(&job).map_err(DecodeError::of::<J>)?,
    })
}

/// The payload in a row's JSON text.
///
/// # Errors
/// It is not what this build's function takes.
pub fn decode<J: Job>(payload: &str) -> Result<J, DecodeError> {
    serde_json::from_str(payload).map_err(DecodeError::of::<J>)
}

/// Starts one attempt: JSON payload, context and data in; the attempt out, or why it can't start.
pub type RunFn = for<'a> fn(&str, &'a JobContext, &'a DataMap) -> Result<Attempting<'a>, DecodeError>;

/// An attempt under way; gives the output as JSON text, `None` for `()`.
pub type Attempting<'a> = Pin<Box<dyn Future<Output = Result<Option<String>, JobError>> + Send + 'a>>;

/// Makes the JSON of a payload of an older version, which is given, that of this build's version.
pub type UpgradeFn = fn(u32, serde_json::Value) -> Result<serde_json::Value, Box<dyn Error + Send + Sync>>;

/// A payload that this build's function does not take.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DecodeError {
    /// It is of this build's version, and not of its type.
    #[error("the payload does not fit `{job_type}` of this build: {source}")]
    Unfit {
        /// The stored name.
        job_type: &'static str,
        /// What serde says.
        source: serde_json::Error,
    },
    /// A newer build wrote it.
    #[error("written by version {stored} of `{job_type}`; this build knows up to {known}")]
    Newer {
        /// The stored name.
        job_type: &'static str,
        /// The version of the row.
        stored: u32,
        /// The version of this build.
        known: u32,
    },
    /// The user's `upgrade` refuses it.
    #[error("`{job_type}` has no upgrade for this payload of version {stored}: {source}")]
    Refused {
        /// The stored name.
        job_type: &'static str,
        /// The version of the row.
        stored: u32,
        /// What it says.
        source: Box<dyn Error + Send + Sync>,
    },
    /// What the user's `upgrade` made of it does not fit either.
    #[error("upgraded from version {stored}, {source}")]
    Upgraded {
        /// The version of the row.
        stored: u32,
        /// Why it does not fit.
        source: Box<Self>,
    },
}

impl DecodeError {
    /// What serde says of a payload of `J`; where that has secrets, without what stands in it.
    pub fn of<J: Job>(source: serde_json::Error) -> Self {
        Self::Unfit { job_type: J::TYPE, source: quiet::<J>(source) }
    }
}

/// What serde says of a payload of `J`; where that has secrets, without what stands in it.
pub(crate) fn quiet<J: Job>(source: serde_json::Error) -> serde_json::Error {
    if J::SECRETS.is_empty() { source } else { discreet(source) }
}

/// How the payload of a job begins that follows from another's output: see `store::flows`.
pub(crate) const FOLLOWS: &str = r#"{"$output":"#;

impl JobEntry {
    /// Its stored name, then the names of rows written before a rename.
    pub fn names(&self) -> impl Iterator<Item = &'static str> + use<> {
        std::iter::once(self.job_type).chain(self.aliases.iter().copied())
    }

    /// Starts one attempt with the payload of a row, of whatever version.
    ///
    /// # Errors
    /// The payload is not one that this build's function takes.
    pub fn start<'a>(
        &self,
        version: u32,
        payload: &str,
        ctx: &'a JobContext,
        data: &'a DataMap,
    ) -> Result<Attempting<'a>, DecodeError> {
        self.upgraded(version, payload, |payload| (self.run)(payload, ctx, data))
    }

    /// Decodes the payload of a row, of whatever version, and gives what is made of it, without running anything but the
    /// user's `upgrade`.
    ///
    /// # Errors
    /// The payload is not one that this build's function takes.
    pub fn read(&self, version: u32, payload: &str) -> Result<Checked, DecodeError> {
        self.upgraded(version, payload, self.check)
    }

    /// The payload whose arguments are this output of the job before.
    fn of_output(&self, output: &str) -> Result<String, DecodeError> {
        let job_type = self.job_type;
        let unfit = |source| DecodeError::Unfit { job_type, source };
        let one: &RawValue = serde_json::from_str(output).map_err(unfit)?;
        let many = || serde_json::from_str::<Vec<&RawValue>>(output).map_err(unfit);
        let values = match self.fields {
            [] => Vec::new(),
            [field] if field.flatten || !self.shape.is_empty() => return Ok(output.to_owned()),
            [_] => vec![one],
            _ => many()?,
        };
        if values.len() != self.fields.len() {
            let (given, taken) = (values.len(), self.fields.len());
            let why = format!("the job before gave {given} values, and its function takes {taken}");
            return Err(unfit(serde::de::Error::custom(why)));
        }
        let mut named = BTreeMap::new();
        for (field, value) in self.fields.iter().zip(values) {
            // Whatever it looks like, it is the value, and not a mark.
            let value = match field.secret {
                true => Cow::Owned(RawValue::from_string(mark(value.get())).map_err(unfit)?),
                false => Cow::Borrowed(value),
            };
            named.insert(field.name, value);
        }
        serde_json::to_string(&named).map_err(unfit)
    }

    /// `take` is given a payload of this build's version.
    fn upgraded<T>(
        &self,
        stored: u32,
        payload: &str,
        take: impl FnOnce(&str) -> Result<T, DecodeError>,
    ) -> Result<T, DecodeError> {
        let (job_type, known) = (self.job_type, self.defaults.version);
        if let Some(output) = payload.strip_prefix(FOLLOWS).and_then(|rest| rest.strip_suffix('}')) {
            return take(&self.of_output(output)?);
        }
        if stored == known {
            return take(payload);
        }
        let Some(upgrade) = self.upgrade.filter(|_| stored < known) else {
            return Err(DecodeError::Newer { job_type, stored, known });
        };
        let old = serde_json::from_str(&Known::of(self, stored).bare(payload));
        let old = old.map_err(|source| {
            let source = if self.secrets.is_empty() { source } else { discreet(source) };
            DecodeError::Unfit { job_type, source }
        })?;
        let new = upgrade(stored, old).map_err(|source| DecodeError::Refused { job_type, stored, source })?;
        take(&new.to_string()).map_err(|why| DecodeError::Upgraded { stored, source: Box::new(why) })
    }
}

impl fmt::Debug for JobEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

/// The job and where it was written.
impl fmt::Display for JobEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { job_type, function, module, file, line, .. } = self;
        write!(f, "`{job_type}` (fn {module}::{function}, {file}:{line})")
    }
}

/// Jobs by their names, in the order of their names. No two of them share a name.
///
/// # Link-time registration, and its trap
/// `#[job]` enters a function into the list of [`linked`](Self::linked) jobs when the program is linked, so there is no
/// list to keep. The linker, however, leaves out a whole crate that nothing in the program names, although it stands in
/// `Cargo.toml`, and with it all of its jobs; rows of these stay pending, where
/// [`JobQueue::counts`](crate::queue::JobQueue::counts) shows them. Naming one item of the crate, `use mail_jobs as _;`, links all of its jobs. A worker that is told which jobs it must know
/// ([`Worker::expect((send_mail, send_bill))`](crate::worker::Worker::expect)) can't fall into it unseen: naming the functions links them, and it refuses
/// to start, naming what is missing, should one not be there all the same.
#[derive(Clone, Debug, Default)]
pub struct Registry {
    entries: Vec<&'static JobEntry>,
    by_name: HashMap<&'static str, &'static JobEntry>,
}

static LINKED: LazyLock<Result<Registry, RegistryError>> =
    LazyLock::new(|| Registry::of(inventory::iter::<JobEntry>));

impl Registry {
    /// All jobs that are linked into this program.
    ///
    /// # Errors
    /// [`RegistryError::Twice`]: two of them share a name; rename one, or give it a `type = "…"` of its own.
    pub fn linked() -> Result<&'static Self, RegistryError> {
        LINKED.as_ref().map_err(Clone::clone)
    }

    /// These jobs; the same one given twice is one.
    ///
    /// # Errors
    /// [`RegistryError::Twice`]: two of them share a name.
    pub fn of(entries: impl IntoIterator<Item = &'static JobEntry>) -> Result<Self, RegistryError> {
        let mut registry = Self::default();
        let mut clashes = Vec::new();
        let mut entries: Vec<_> = entries.into_iter().collect();
        entries.sort_by_key(|entry| (entry.job_type, entry.file, entry.line));
        entries.dedup_by(|one, other| std::ptr::eq(*one, *other));
        for &entry in &entries {
            for name in entry.names() {
                match registry.by_name.insert(name, entry) {
                    Some(other) if !std::ptr::eq(other, entry) => clashes.push((name, other, entry)),
                    _ => {}
                }
            }
        }
        if !clashes.is_empty() {
            return Err(RegistryError::Twice(clashes));
        }
        registry.entries = entries;
        Ok(registry)
    }

    /// Those of these names.
    ///
    /// # Errors
    /// [`RegistryError::NotLinked`] lists every name that is not here.
    pub fn pick(&self, names: &[&'static str]) -> Result<Self, RegistryError> {
        let (known, unknown): (Vec<_>, Vec<_>) =
            names.iter().partition(|name| self.by_name.contains_key(**name));
        if !unknown.is_empty() {
            return Err(RegistryError::NotLinked(unknown));
        }
        Self::of(known.into_iter().filter_map(|name| self.get(name)))
    }

    /// The job of this stored name or alias.
    pub fn get(&self, name: &str) -> Option<&'static JobEntry> {
        self.by_name.get(name).copied()
    }

    /// All of them, in the order of their stored names.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &'static JobEntry> + '_ {
        self.entries.iter().copied()
    }

    /// All names that rows may carry: stored names and aliases.
    pub fn names(&self) -> impl Iterator<Item = &'static str> + '_ {
        self.iter().flat_map(JobEntry::names)
    }

    /// The events that jobs follow from, in the order of the jobs' stored names.
    pub fn subscriptions(&self) -> impl Iterator<Item = (&'static JobEntry, &'static Subscription)> + '_ {
        self.iter().flat_map(|entry| entry.on.iter().map(move |on| (entry, on)))
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Every type that a `#[data]` parameter asks for and `data` lacks, each with all the jobs that need it.
    pub fn missing(&self, data: &DataMap) -> Vec<MissingData> {
        let mut missing: Vec<MissingData> = Vec::new();
        for entry in self.iter() {
            for need in entry.data.iter().filter(|need| !data.has(need)) {
                let id = (need.id)();
                match missing.iter_mut().find(|missing| missing.id == id) {
                    Some(missing) => missing.jobs.push(entry),
                    None => missing.push(MissingData { id, name: (need.name)(), jobs: vec![entry] }),
                }
            }
        }
        missing
    }
}

/// All jobs that are linked into this program, in the order of their names; two of one name are both listed.
pub fn registry() -> Vec<&'static JobEntry> {
    let mut entries: Vec<_> = inventory::iter::<JobEntry>.into_iter().collect();
    entries.sort_by_key(|entry| (entry.job_type, entry.file, entry.line));
    entries
}

/// A type that `#[data]` parameters ask for and nobody provides.
#[derive(Clone, Debug)]
pub struct MissingData {
    /// The type.
    pub id: TypeId,
    /// Its name.
    pub name: &'static str,
    /// The jobs that need it.
    pub jobs: Vec<&'static JobEntry>,
}

impl fmt::Display for MissingData {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` for {}", self.name, listed(&self.jobs))
    }
}

/// Jobs that can't be run together.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RegistryError {
    /// Two jobs share a stored name or an alias: the name, and both of them.
    #[error(
        "{}; rename one, or give it a `type = \"…\"` of its own",
        .0.iter().map(|(name, one, other)| format!("two jobs are named `{name}`: {one} and {other}"))
            .collect::<Vec<_>>().join("; ")
    )]
    Twice(Vec<(&'static str, &'static JobEntry, &'static JobEntry)>),
    /// These jobs are expected, and not in this program.
    #[error(
        "not linked into this program: {}; name the crate that has them, as in `use that_crate as _;`",
        quoted(.0)
    )]
    NotLinked(Vec<&'static str>),
}

fn listed(entries: &[&'static JobEntry]) -> String {
    entries.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

fn quoted(names: &[&str]) -> String {
    names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
}
