//! Flows as a store has them: strands of jobs that follow from one another's output, and what follows when all have ended;
//! and the rules, which are the same on every store.

use crate::{
    job::{FlowId, JobId, NewJob, Timeout},
    retry::Backoff,
    state::JobState,
    time::{Millis, millis},
};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// A job to be, but for its payload, which is the output of the one before. Stored as JSON.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Link {
    /// The stored name.
    pub job_type: String,
    /// The lane of work.
    pub queue: String,
    /// Larger runs first.
    pub priority: i16,
    /// Counted starts at most.
    pub max_attempts: u32,
    /// How long one attempt may take, in milliseconds; 0: for ever.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout: Option<u64>,
    /// The wait between attempts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backoff: Option<Backoff>,
    /// How long the row is kept, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retain: Option<u64>,
    /// A title for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// The version of its payload.
    pub version: u32,
    /// How long it waits before it is due, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delay: Option<u64>,
    /// The output is a list, and each of its elements has a job.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub each: bool,
}

impl Link {
    /// The link that makes jobs like this one, which was made at `now`.
    pub(crate) fn of(job: NewJob, now: Millis, each: bool) -> Self {
        let whole = |duration: Duration| millis(duration).unsigned_abs();
        Self {
            job_type: job.job_type.into_owned(),
            queue: job.queue.into_owned(),
            priority: job.priority,
            max_attempts: job.max_attempts,
            timeout: job.timeout.map(Timeout::in_millis),
            backoff: job.backoff,
            retain: job.retain.map(whole),
            label: job.label,
            version: job.version,
            delay: job.run_at.map(|run_at| run_at.saturating_sub(now).max(0).unsigned_abs()),
            each,
        }
    }

    /// The job that follows from this output, JSON text.
    pub(crate) fn job(&self, output: &str, now: Millis) -> NewJob {
        let delay = |delay: u64| now.saturating_add(i64::try_from(delay).unwrap_or(i64::MAX));
        NewJob {
            queue: self.queue.clone().into(),
            priority: self.priority,
            max_attempts: self.max_attempts.max(1),
            timeout: self.timeout.map(Timeout::of_millis),
            backoff: self.backoff,
            retain: self.retain.map(Duration::from_millis),
            label: self.label.clone(),
            version: self.version.max(1),
            run_at: self.delay.map(delay),
            ..NewJob::new(self.job_type.clone(), of_output(output))
        }
    }
}

/// The payload of a job that follows from an output: its function's arguments, as [`JobEntry`](crate::registry::JobEntry)
/// reads them.
fn of_output(output: &str) -> String {
    format!("{{\"$output\":{output}}}")
}

/// A flow on its way into a store.
#[derive(Clone, Debug)]
pub struct NewFlow {
    /// What runs beside one another.
    pub strands: Vec<Strand>,
    /// What follows, one after the other, when all of these have ended; the first is given a [`BatchOutcome`]. Empty:
    /// nothing.
    pub follow: Vec<Link>,
}

/// A strand of a flow.
#[derive(Clone, Debug)]
pub enum Strand {
    /// A job, and what follows from it, one after the other.
    Job(Box<NewJob>, Vec<Link>),
    /// A flow of its own, which ends with what follows from it.
    Flow(NewFlow),
}

impl NewFlow {
    /// All jobs that are laid at once.
    pub(crate) fn jobs(&mut self, take: &mut impl FnMut(&mut NewJob)) {
        for strand in &mut self.strands {
            match strand {
                Strand::Job(job, _) => take(job),
                Strand::Flow(flow) => flow.jobs(take),
            }
        }
    }
}

/// A flow that is laid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LaidFlow {
    /// Its name.
    pub id: FlowId,
    /// The jobs that its strands begin with, in their order.
    pub jobs: Vec<JobId>,
}

/// What a flow's strands ended in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BatchOutcome {
    /// Strands whose last job completed.
    pub succeeded: u64,
    /// Strands in which a job is dead.
    pub failed: u64,
    /// Strands in which a job was cancelled.
    pub cancelled: u64,
}

impl BatchOutcome {
    fn all(&self) -> u64 {
        self.succeeded + self.failed + self.cancelled
    }

    fn of(&mut self, end: End) -> &mut u64 {
        match end {
            End::Succeeded => &mut self.succeeded,
            End::Failed => &mut self.failed,
            End::Cancelled => &mut self.cancelled,
        }
    }

    /// What it counts for in the flow that it is a strand of.
    fn end(&self) -> End {
        match self {
            Self { failed: 1.., .. } => End::Failed,
            Self { cancelled: 1.., .. } => End::Cancelled,
            _ => End::Succeeded,
        }
    }
}

/// A flow as it stands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FlowRow {
    /// Its name.
    pub id: FlowId,
    /// Strands of work: jobs that were enqueued beside one another, each with what follows from it.
    pub total: u64,
    /// What those that have ended ended in.
    #[serde(flatten)]
    pub outcome: BatchOutcome,
    /// Its jobs that are scheduled, pending or running, and flows within it that have not ended.
    pub live: u64,
    /// Its jobs that are dead.
    pub dead: u64,
    /// The flow that it is a strand of.
    pub parent: Option<FlowId>,
    /// The stored name of the job that follows when all strands have ended.
    pub follow: Option<String>,
    /// When it was enqueued.
    #[serde(serialize_with = "crate::job::rfc3339")]
    pub created_at: Millis,
    /// When all strands had ended, and what follows was enqueued.
    #[serde(serialize_with = "crate::job::rfc3339_option")]
    pub joined_at: Option<Millis>,
}

/// How a flow is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum FlowState {
    /// A job of it is not at its end.
    Running,
    /// All of it has ended, and no job is dead or cancelled.
    Succeeded,
    /// All of it has ended, and a job is dead: a person may retry it.
    Failed,
    /// All of it has ended, and a job was cancelled.
    Cancelled,
}

impl FlowRow {
    /// How it is.
    pub fn state(&self) -> FlowState {
        if self.joined_at.is_none() || self.live > 0 {
            return FlowState::Running;
        }
        match self.outcome.end() {
            End::Failed => FlowState::Failed,
            _ if self.dead > 0 => FlowState::Failed,
            End::Cancelled => FlowState::Cancelled,
            End::Succeeded => FlowState::Succeeded,
        }
    }
}

/// How a job left its strand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Succeeded,
    Failed,
    Cancelled,
}

impl End {
    /// What a state that is an end is to a strand.
    pub(crate) fn of(state: JobState) -> Option<Self> {
        match state {
            JobState::Completed => Some(Self::Succeeded),
            JobState::Dead => Some(Self::Failed),
            JobState::Cancelled => Some(Self::Cancelled),
            _ => None,
        }
    }
}

/// What is stored of a job's part in a flow.
pub(crate) struct Member {
    pub(crate) flow: i64,
    /// The links as JSON; empty once the next one is laid.
    pub(crate) links: Option<String>,
}

/// What is stored of a flow.
#[derive(Clone, Debug, Default)]
pub(crate) struct Flow {
    pub(crate) total: u64,
    pub(crate) outcome: BatchOutcome,
    /// Links as JSON.
    pub(crate) follow: Option<String>,
    pub(crate) parent: Option<i64>,
    pub(crate) joined_at: Option<Millis>,
}

/// What the rules ask of a store, within one transaction.
pub(crate) trait Flows {
    type Error;

    /// The part that a job has in a flow, if it has one.
    fn member(&mut self, job: i64) -> Result<Option<Member>, Self::Error>;
    /// What followed from this job is laid.
    fn pass(&mut self, job: i64) -> Result<(), Self::Error>;
    /// Lays jobs of a flow, each with its links as JSON.
    fn lay(
        &mut self,
        jobs: Vec<(NewJob, Option<String>)>,
        flow: i64,
        now: Millis,
    ) -> Result<Vec<JobId>, Self::Error>;
    /// Lays a flow; its row.
    fn found(&mut self, flow: &Flow, now: Millis) -> Result<i64, Self::Error>;
    fn flow(&mut self, flow: i64) -> Result<Option<Flow>, Self::Error>;
    /// Writes the outcome and `joined_at`.
    fn keep(&mut self, row: i64, flow: &Flow) -> Result<(), Self::Error>;
}

/// Lays a new flow: its row, and the jobs that are laid at once.
pub(crate) fn lay<S: Flows>(
    store: &mut S,
    new: NewFlow,
    parent: Option<i64>,
    now: Millis,
) -> Result<(i64, Vec<JobId>), S::Error> {
    let flow =
        Flow { total: new.strands.len() as u64, follow: written(&new.follow), parent, ..Flow::default() };
    let row = store.found(&flow, now)?;
    let (mut jobs, mut ids) = (Vec::new(), Vec::new());
    for strand in new.strands {
        match strand {
            Strand::Job(job, links) => jobs.push((*job, written(&links))),
            Strand::Flow(flow) => {
                ids.extend(store.lay(std::mem::take(&mut jobs), row, now)?);
                ids.extend(lay(store, flow, Some(row), now)?.1);
            }
        }
    }
    ids.extend(store.lay(jobs, row, now)?);
    join(store, row, now)?;
    Ok((row, ids))
}

/// A job has ended: lays what follows from it, or counts its strand.
pub(crate) fn ended<S: Flows>(
    store: &mut S,
    job: i64,
    end: End,
    output: Option<&str>,
    now: Millis,
) -> Result<(), S::Error> {
    let Some(Member { flow, links }) = store.member(job)? else { return Ok(()) };
    match links.as_deref().map(read) {
        // It was passed before.
        Some(None) => Ok(()),
        Some(Some(links)) if end == End::Succeeded => {
            store.pass(job)?;
            follow(store, flow, links, output.unwrap_or("null"), now)
        }
        _ => count(store, flow, end, now),
    }
}

/// A job that had ended in this state runs again: its strand has not ended, unless what follows is laid already.
pub(crate) fn retried<S: Flows>(store: &mut S, job: i64, was: JobState) -> Result<(), S::Error> {
    let (Some(member), Some(end)) = (store.member(job)?, End::of(was)) else { return Ok(()) };
    if member.links.as_deref() == Some("") {
        return Ok(());
    }
    let Some(mut flow) = store.flow(member.flow)? else { return Ok(()) };
    let closed = flow.joined_at.is_some() && (flow.follow.is_some() || flow.parent.is_some());
    if !closed {
        let counted = flow.outcome.of(end);
        *counted = counted.saturating_sub(1);
        flow.joined_at = None;
        store.keep(member.flow, &flow)?;
    }
    Ok(())
}

/// Lays the first of these links in this flow, with the rest to follow; all of them are laid: the strand has ended.
fn follow<S: Flows>(
    store: &mut S,
    flow: i64,
    mut links: Vec<Link>,
    output: &str,
    now: Millis,
) -> Result<(), S::Error> {
    if links.is_empty() {
        return count(store, flow, End::Succeeded, now);
    }
    let rest = links.split_off(1);
    let link = &links[0];
    if !link.each {
        return store.lay(vec![(link.job(output, now), written(&rest))], flow, now).map(drop);
    }
    let elements: Vec<Box<serde_json::value::RawValue>> = serde_json::from_str(output).unwrap_or_default();
    let jobs = elements.iter().map(|element| Strand::Job(Box::new(link.job(element.get(), now)), Vec::new()));
    let split = NewFlow { strands: jobs.collect(), follow: rest };
    lay(store, split, Some(flow), now).map(drop)
}

/// One strand of a flow has ended.
fn count<S: Flows>(store: &mut S, row: i64, end: End, now: Millis) -> Result<(), S::Error> {
    let Some(mut flow) = store.flow(row)?.filter(|flow| flow.joined_at.is_none()) else { return Ok(()) };
    *flow.outcome.of(end) += 1;
    store.keep(row, &flow)?;
    join(store, row, now)
}

/// When all strands have ended: lays what follows, or counts the flow as a strand of its parent.
fn join<S: Flows>(store: &mut S, row: i64, now: Millis) -> Result<(), S::Error> {
    let Some(mut flow) = store.flow(row)?.filter(|flow| flow.joined_at.is_none()) else { return Ok(()) };
    if flow.outcome.all() < flow.total {
        return Ok(());
    }
    flow.joined_at = Some(now);
    store.keep(row, &flow)?;
    let links = flow.follow.as_deref().and_then(read).unwrap_or_default();
    match (links.is_empty(), flow.parent) {
        (false, parent) => {
            let outcome = serde_json::to_string(&flow.outcome).unwrap_or_default();
            follow(store, parent.unwrap_or(row), links, &outcome, now)
        }
        (true, Some(parent)) => count(store, parent, flow.outcome.end(), now),
        (true, None) => Ok(()),
    }
}

/// Links as they are stored; `None` for none.
pub(crate) fn written(links: &[Link]) -> Option<String> {
    (!links.is_empty()).then(|| serde_json::to_string(links).unwrap_or_default())
}

/// `None` for those of a job that was passed.
fn read(links: &str) -> Option<Vec<Link>> {
    if links.is_empty() { None } else { Some(serde_json::from_str(links).unwrap_or_default()) }
}

/// The stored name of the first of these.
pub(crate) fn first(links: Option<&str>) -> Option<String> {
    links.and_then(read)?.into_iter().next().map(|link| link.job_type)
}
