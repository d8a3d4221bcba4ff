//! The check: every payload that may yet have to be run, decoded with this build, and what it could not run.

use crate::{
    executor::caught,
    job::JobId,
    queue::{JobQueue, QueueError},
    registry::Registry,
    state::JobState,
    store::StoredPayload,
};
use serde::Serialize;
use std::{
    collections::BTreeMap,
    fmt,
    future::{Future, IntoFuture},
    pin::Pin,
};

/// Different errors of one job type and version, and ids of each, that a report names at most.
const EXAMPLES: usize = 5;

impl JobQueue {
    /// Starts to check that the jobs of this program can run what is stored: every payload of a scheduled, pending,
    /// running or dead job is upgraded and decoded as a worker would, and nothing is run or changed. Awaiting the builder
    /// does it; a new build may do so before its workers start.
    ///
    /// It reads page by page beside workers and enqueues, holding some MiB at most; jobs that come meanwhile may be left
    /// out.
    pub fn check(&self) -> Check {
        Check { queue: self.clone(), registry: None, progress: None }
    }
}

/// A check on its way: [`JobQueue::check`].
///
/// # Errors
/// Awaiting it gives [`QueueError::Store`], and [`QueueError::Registry`] where two linked jobs share a name.
///
/// # Cancel safety
/// It writes nothing.
#[must_use = "nothing is checked before this is awaited"]
pub struct Check {
    queue: JobQueue,
    registry: Option<Registry>,
    progress: Option<Box<dyn FnMut(CheckProgress) + Send>>,
}

/// How far a check is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct CheckProgress {
    /// Payloads that were checked.
    pub payloads: u64,
    /// Rows that were passed, also such as need no check.
    pub rows: u64,
    /// Rows in all; some may be long gone.
    pub of: u64,
}

impl Check {
    /// Checks with these jobs in place of all that are linked.
    pub fn with(mut self, registry: &Registry) -> Self {
        self.registry = Some(registry.clone());
        self
    }

    /// Is told after each page how far it is: 20,000 rows or 1,000 payloads at most.
    pub fn on_progress(mut self, tell: impl FnMut(CheckProgress) + Send + 'static) -> Self {
        self.progress = Some(Box::new(tell));
        self
    }
}

impl IntoFuture for Check {
    type Output = Result<CheckReport, QueueError>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        let Self { queue, registry, mut progress } = self;
        Box::pin(async move {
            let registry = match &registry {
                Some(registry) => registry,
                None => Registry::linked()?,
            };
            let (mut findings, mut after) = (Findings::default(), 0);
            loop {
                let page = queue.store().payloads(after).await?;
                page.payloads.iter().for_each(|job| findings.look_at(&queue, registry, job));
                after = page.next;
                if let Some(tell) = &mut progress {
                    let (rows, of) = (after.unsigned_abs(), page.last.unsigned_abs());
                    tell(CheckProgress { payloads: findings.payloads, rows, of });
                }
                if after >= page.last {
                    return Ok(findings.report());
                }
                // A page takes some milliseconds of this thread; others want it too.
                tokio::task::yield_now().await;
            }
        })
    }
}

#[derive(Default)]
struct Findings {
    payloads: u64,
    unreadable: BTreeMap<(String, u32), (Standing, Vec<Fault>)>,
    unknown: BTreeMap<String, (Standing, Vec<JobId>)>,
}

impl Findings {
    fn look_at(&mut self, queue: &JobQueue, registry: &Registry, job: &StoredPayload) {
        let StoredPayload { id, job_type, state, version, payload } = job;
        self.payloads += 1;
        let Some(entry) = registry.get(job_type) else {
            let (standing, ids) = self.unknown.entry(job_type.clone()).or_default();
            standing.count(*state);
            if ids.len() < EXAMPLES {
                ids.push(*id);
            }
            return;
        };
        let read = || {
            let payload =
                queue.opened_payload(job_type, *version, payload).map_err(|error| error.to_string())?;
            entry.read(*version, &payload).map_err(|error| error.to_string())
        };
        let error = match caught(read) {
            Ok(Ok(_)) => return,
            Ok(Err(error)) => error,
            Err(panic) => format!("its decoding panicked: {panic}"),
        };
        let (standing, faults) = self.unreadable.entry((job_type.clone(), *version)).or_default();
        standing.count(*state);
        if let Some(fault) = faults.iter_mut().find(|fault| fault.error == error) {
            fault.count += 1;
            if fault.ids.len() < EXAMPLES {
                fault.ids.push(*id);
            }
        } else if faults.len() < EXAMPLES {
            faults.push(Fault { error, count: 1, ids: vec![*id] });
        }
    }

    fn report(self) -> CheckReport {
        let unreadable = self.unreadable.into_iter().map(|((job_type, version), (standing, faults))| {
            Unreadable { job_type, version, standing, faults }
        });
        let unknown = self.unknown.into_iter();
        CheckReport {
            payloads: self.payloads,
            unreadable: unreadable.collect(),
            unknown: unknown.map(|(job_type, (standing, ids))| Unknown { job_type, standing, ids }).collect(),
        }
    }
}

/// What a check has found. Its `Display` says it to people.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CheckReport {
    /// Payloads that were checked.
    pub payloads: u64,
    /// What this build knows by name and can't decode, by job type and version.
    pub unreadable: Vec<Unreadable>,
    /// What no job of this build is named, by job type.
    pub unknown: Vec<Unknown>,
}

/// Jobs of one type and version that this build can't decode.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Unreadable {
    /// The stored name.
    pub job_type: String,
    /// The version of the payloads.
    pub version: u32,
    /// How many, and where they stand.
    #[serde(flatten)]
    pub standing: Standing,
    /// Why, with examples; only the first few errors are told apart.
    pub faults: Vec<Fault>,
}

/// One error that payloads were answered with.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Fault {
    /// What a worker would say.
    pub error: String,
    /// How many payloads.
    pub count: u64,
    /// The first few of their jobs.
    pub ids: Vec<JobId>,
}

/// Jobs of one type that no job of this build is named. Another program may know them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Unknown {
    /// The stored name.
    pub job_type: String,
    /// How many, and where they stand.
    #[serde(flatten)]
    pub standing: Standing,
    /// The first few of them.
    pub ids: Vec<JobId>,
}

/// How many jobs stand where.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Standing {
    /// Scheduled or pending.
    pub waiting: u64,
    /// Running.
    pub running: u64,
    /// Dead; a person may retry them.
    pub dead: u64,
}

impl Standing {
    fn count(&mut self, state: JobState) {
        match state {
            JobState::Running => self.running += 1,
            JobState::Dead => self.dead += 1,
            _ => self.waiting += 1,
        }
    }

    /// All of them.
    pub fn all(&self) -> u64 {
        self.waiting + self.running + self.dead
    }
}

/// `14 waiting and 1 dead jobs`
impl fmt::Display for Standing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let groups = [(self.waiting, "waiting"), (self.running, "running"), (self.dead, "dead")];
        let groups: Vec<_> = groups.iter().filter(|(count, _)| *count > 0).collect();
        for (place, (count, word)) in groups.iter().enumerate() {
            let before = match place {
                0 => "",
                place if place + 1 == groups.len() => " and ",
                _ => ", ",
            };
            write!(f, "{before}{count} {word}")?;
        }
        f.write_str(if self.all() == 1 { " job" } else { " jobs" })
    }
}

impl CheckReport {
    /// Whether this build can run everything.
    pub fn is_ok(&self) -> bool {
        self.unreadable.is_empty() && self.unknown.is_empty()
    }
}

impl fmt::Display for CheckReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} payloads were checked", self.payloads)?;
        if self.is_ok() {
            return f.write_str(", and this build can run all of them");
        }
        for Unreadable { job_type, version, standing, faults } in &self.unreadable {
            write!(f, "\n{standing} of `{job_type}` v{version} cannot be read by this build")?;
            for Fault { error, ids, .. } in faults {
                write!(f, "\n    {error}{}", examples(ids))?;
            }
        }
        for Unknown { job_type, standing, ids } in &self.unknown {
            write!(
                f,
                "\n{standing} of `{job_type}`, a name that no job of this program has{}",
                examples(ids)
            )?;
        }
        Ok(())
    }
}

fn examples(ids: &[JobId]) -> String {
    let ids: Vec<_> = ids.iter().map(ToString::to_string).collect();
    if ids.is_empty() { String::new() } else { format!(" ({})", ids.join(", ")) }
}
