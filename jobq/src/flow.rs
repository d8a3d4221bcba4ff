//! Flows: jobs that follow from one another's output, many beside one another, and one that follows when all have ended.

use crate::{
    enqueue::{Enqueue, EnqueueError, Enqueuing, Follows, JobLink, Options, made},
    job::{FlowId, Job, JobId, NewJob, Output},
    queue::{JobQueue, QueueError},
    store::{LaidFlow, Link, NewFlow, Strand, Tx},
    time::Millis,
};
use std::{fmt, future::IntoFuture, marker::PhantomData};

pub use crate::store::{BatchOutcome, FlowRow, FlowState};

type Made<T> = Box<dyn FnOnce(&JobQueue, Millis) -> Result<T, EnqueueError> + Send>;

/// What is enqueued: a job or jobs beside one another, and what follows.
enum Part {
    Job(Made<NewJob>, Vec<Made<Link>>),
    Batch(Vec<Part>, Vec<Made<Link>>),
}

impl Part {
    fn follow(&mut self, link: Made<Link>) {
        match self {
            Self::Job(_, links) | Self::Batch(_, links) => links.push(link),
        }
    }

    fn strand(self, queue: &JobQueue, now: Millis) -> Result<Strand, EnqueueError> {
        match self {
            Self::Job(job, links) => Ok(Strand::Job(Box::new(job(queue, now)?), linked(links, queue, now)?)),
            Self::Batch(parts, links) => Ok(Strand::Flow(batched(parts, links, queue, now)?)),
        }
    }

    /// The whole of it as a flow.
    fn flow(self, queue: &JobQueue, now: Millis) -> Result<NewFlow, EnqueueError> {
        match self.strand(queue, now)? {
            Strand::Flow(flow) => Ok(flow),
            job => Ok(NewFlow { strands: vec![job], follow: Vec::new() }),
        }
    }
}

fn link<J: Job>(link: JobLink<J>, each: bool) -> Made<Link> {
    Box::new(move |queue, now| link.stored(queue, now, each))
}

fn linked(links: Vec<Made<Link>>, queue: &JobQueue, now: Millis) -> Result<Vec<Link>, EnqueueError> {
    links.into_iter().map(|link| link(queue, now)).collect()
}

/// Nothing beside one another has ended before it begins: what follows is enqueued at once.
fn batched(
    parts: Vec<Part>,
    links: Vec<Made<Link>>,
    queue: &JobQueue,
    now: Millis,
) -> Result<NewFlow, EnqueueError> {
    let strands: Vec<_> = parts.into_iter().map(|part| part.strand(queue, now)).collect::<Result<_, _>>()?;
    let is_empty = |strand: &Strand| matches!(strand, Strand::Flow(flow) if flow.strands.is_empty());
    let strands: Vec<_> = strands.into_iter().filter(|strand| !is_empty(strand)).collect();
    let mut follow = linked(links, queue, now)?;
    if !strands.is_empty() || follow.is_empty() {
        return Ok(NewFlow { strands, follow });
    }
    let rest = follow.split_off(1);
    let nothing = serde_json::to_string(&BatchOutcome::default()).unwrap_or_default();
    let first = follow.remove(0).job(&nothing, now);
    Ok(NewFlow { strands: vec![Strand::Job(Box::new(first), rest)], follow: Vec::new() })
}

// ---- builders ------------------------------------------------------------------------------------------------

/// A flow on its way into a queue. Awaiting it stores its first jobs and what is to follow, in one commit.
///
/// `T` is the output of its last job.
///
/// # Errors
/// Awaiting it gives an [`EnqueueError`]; then nothing is stored.
///
/// # Cancel safety
/// Dropping it while it is awaited loses the answer only: the flow is stored whole or not at all.
#[must_use = "a flow does nothing until it is awaited"]
pub struct Flow<'t, T> {
    part: Part,
    on: Option<JobQueue>,
    tx: Option<Tx<'t>>,
    output: PhantomData<fn() -> T>,
}

/// Jobs beside one another, on their way into a queue: [`batch`].
#[must_use = "a batch does nothing until it is awaited"]
pub struct Batch<'t> {
    parts: Vec<Part>,
    on: Option<JobQueue>,
    tx: Option<Tx<'t>>,
}

/// Begins a batch: jobs beside one another, which are one flow. With [`then`](Batch::then) a job follows when all of them
/// have ended; it is given the [`BatchOutcome`].
///
/// ```standalone_crate
/// use jobq::{BatchOutcome, batch, prelude::*};
///
/// #[job]
/// async fn import_row(row: String) {
///     println!("{row}");
/// }
///
/// #[job]
/// async fn summarise(outcome: BatchOutcome) {
///     println!("{} rows are in, {} are not", outcome.succeeded, outcome.failed);
/// }
///
/// # use std::sync::Arc;
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let queue = JobQueue::with_store(Arc::new(jobq::MemoryStore::new()), Arc::new(jobq::SystemClock));
/// let rows = ["a", "b", "c"].map(|row| ImportRow { row: row.into() });
/// let flow = batch(rows).then(summarise).on(&queue).await?;
/// # Worker::new(&queue).jobs((import_row, summarise)).drain().await?;
/// assert_eq!(queue.flow(flow.id()).await?.unwrap().outcome.succeeded, 3);
/// # Ok(()) }
/// ```
pub fn batch<J: Job>(jobs: impl IntoIterator<Item = J>) -> Batch<'static> {
    Batch { parts: Vec::new(), on: None, tx: None }.and(jobs)
}

impl<'t> Batch<'t> {
    /// Also these jobs, of whatever type.
    pub fn and<J: Job>(mut self, jobs: impl IntoIterator<Item = J>) -> Self {
        let job = |job: J| {
            Part::Job(Box::new(move |queue, now| made(&job, Options::default(), queue, now)), Vec::new())
        };
        self.parts.extend(jobs.into_iter().map(job));
        self
    }

    /// Also this flow, as one of them: it counts once, when its last job has ended. Its queue and transaction are this
    /// batch's.
    pub fn and_flow<T>(mut self, flow: Flow<'_, T>) -> Self {
        self.parts.push(flow.part);
        self
    }

    /// What follows when all have ended, however they ended.
    pub fn then<P, F>(self, next: F) -> Flow<'t, Output<F::Job>>
    where
        F: Follows<P>,
        F::Job: Job<Args = BatchOutcome>,
    {
        let Self { parts, on, tx } = self;
        let links = vec![link(next.into_link(), false)];
        Flow { part: Part::Batch(parts, links), on, tx, output: PhantomData }
    }

    /// The queue to enqueue in, whatever is installed or in scope.
    pub fn on(mut self, queue: &JobQueue) -> Self {
        self.on = Some(queue.clone());
        self
    }

    /// Enqueues inside the caller's own transaction: see [`Enqueue::in_tx`].
    pub fn in_tx<'u>(self, tx: impl Into<Tx<'u>>) -> Batch<'u> {
        Batch { parts: self.parts, on: self.on, tx: Some(tx.into()) }
    }
}

impl<'t, J: Job> Enqueue<'t, J> {
    /// What follows when this job has completed: its output is the next job's arguments. With options of its own:
    /// `.then(resize.link().queue("images"))`.
    ///
    /// The next job is enqueued in the very transaction that stores the output; a job that is dead or cancelled ends the
    /// chain, and one that a person retries goes on with it. See the chapter [flows](crate::guide::flows) of the guide.
    pub fn then<P, F>(self, next: F) -> Flow<'t, Output<F::Job>>
    where
        F: Follows<P>,
        F::Job: Job<Args = Output<J>>,
    {
        self.into_flow().then(next)
    }

    /// For each element of this job's output, a list, a job beside the others: see [`Flow::then_each`].
    pub fn then_each<P, F, A>(self, next: F) -> Each<'t>
    where
        J: Job<Return: crate::job::Return<Output = Vec<A>>>,
        F: Follows<P>,
        F::Job: Job<Args = A>,
    {
        self.into_flow().then_each(next)
    }

    fn into_flow(self) -> Flow<'t, Output<J>> {
        let (job, mut options, tx) = self.into_parts();
        let on = options.named();
        let job = move |queue: &JobQueue, now| made(&job, options, queue, now);
        Flow { part: Part::Job(Box::new(job), Vec::new()), on, tx, output: PhantomData }
    }
}

impl<'t, T> Flow<'t, T> {
    /// What follows when the last job so far has completed: its output is the next job's arguments.
    pub fn then<P, F>(mut self, next: F) -> Flow<'t, Output<F::Job>>
    where
        F: Follows<P>,
        F::Job: Job<Args = T>,
    {
        self.part.follow(link(next.into_link(), false));
        Flow { part: self.part, on: self.on, tx: self.tx, output: PhantomData }
    }

    /// The queue to enqueue in, whatever is installed or in scope.
    pub fn on(mut self, queue: &JobQueue) -> Self {
        self.on = Some(queue.clone());
        self
    }

    /// Enqueues inside the caller's own transaction: see [`Enqueue::in_tx`].
    pub fn in_tx<'u>(self, tx: impl Into<Tx<'u>>) -> Flow<'u, T> {
        Flow { part: self.part, on: self.on, tx: Some(tx.into()), output: PhantomData }
    }
}

impl<'t, A> Flow<'t, Vec<A>> {
    /// For each element of the output so far, a job beside the others, which are a flow within this one.
    pub fn then_each<P, F>(mut self, next: F) -> Each<'t>
    where
        F: Follows<P>,
        F::Job: Job<Args = A>,
    {
        self.part.follow(link(next.into_link(), true));
        Each(Flow { part: self.part, on: self.on, tx: self.tx, output: PhantomData })
    }
}

/// A flow that ends in jobs beside one another; with [`then`](Self::then) one follows when all of these have ended.
#[must_use = "a flow does nothing until it is awaited"]
pub struct Each<'t>(Flow<'t, BatchOutcome>);

impl<'t> Each<'t> {
    /// What follows when all of them have ended, however they ended.
    pub fn then<P, F>(self, next: F) -> Flow<'t, Output<F::Job>>
    where
        F: Follows<P>,
        F::Job: Job<Args = BatchOutcome>,
    {
        self.0.then(next)
    }

    /// The queue to enqueue in, whatever is installed or in scope.
    pub fn on(self, queue: &JobQueue) -> Self {
        Self(self.0.on(queue))
    }

    /// Enqueues inside the caller's own transaction: see [`Enqueue::in_tx`].
    pub fn in_tx<'u>(self, tx: impl Into<Tx<'u>>) -> Each<'u> {
        Each(self.0.in_tx(tx))
    }
}

async fn store(part: Part, on: Option<JobQueue>, tx: Option<Tx<'_>>) -> Result<FlowHandle, EnqueueError> {
    let queue = on.map_or_else(JobQueue::current, Ok)?;
    let now = queue.now();
    let mut flow = part.flow(&queue, now)?;
    let mut unsealed = Ok(());
    flow.jobs(&mut |job| {
        if unsealed.is_ok() {
            unsealed = queue.seal_payload(&job.job_type, &mut job.payload);
        }
    });
    unsealed?;
    let LaidFlow { id, jobs } = match tx {
        Some(tx) => queue.store().enqueue_flow_in(tx, flow, now).await?,
        None => queue.store().enqueue_flow(flow, now).await?,
    };
    Ok(FlowHandle { id, jobs, queue })
}

impl<'t, T: 't> IntoFuture for Flow<'t, T> {
    type Output = Result<FlowHandle, EnqueueError>;
    type IntoFuture = Enqueuing<'t, FlowHandle>;

    fn into_future(self) -> Self::IntoFuture {
        let Self { part, on, tx, .. } = self;
        Box::pin(store(part, on, tx))
    }
}

impl<'t> IntoFuture for Each<'t> {
    type Output = Result<FlowHandle, EnqueueError>;
    type IntoFuture = Enqueuing<'t, FlowHandle>;

    fn into_future(self) -> Self::IntoFuture {
        self.0.into_future()
    }
}

impl<'t> IntoFuture for Batch<'t> {
    type Output = Result<FlowHandle, EnqueueError>;
    type IntoFuture = Enqueuing<'t, FlowHandle>;

    fn into_future(self) -> Self::IntoFuture {
        let Self { parts, on, tx } = self;
        Box::pin(store(Part::Batch(parts, Vec::new()), on, tx))
    }
}

/// A flow that is stored.
#[derive(Clone)]
pub struct FlowHandle {
    id: FlowId,
    jobs: Vec<JobId>,
    queue: JobQueue,
}

impl FlowHandle {
    /// Its name, by which any process finds it: [`JobQueue::flow`], [`JobFilter::flow`](crate::JobFilter::flow).
    pub fn id(&self) -> FlowId {
        self.id
    }

    /// The jobs that it began with, in their order.
    pub fn jobs(&self) -> &[JobId] {
        &self.jobs
    }

    /// Reads how it is; `None` where all of it is deleted.
    ///
    /// # Errors
    /// [`QueueError::Store`].
    pub async fn row(&self) -> Result<Option<FlowRow>, QueueError> {
        self.queue.flow(self.id).await
    }
}

impl fmt::Debug for FlowHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FlowHandle").field("id", &self.id).field("jobs", &self.jobs).finish()
    }
}

impl From<&FlowHandle> for FlowId {
    fn from(flow: &FlowHandle) -> Self {
        flow.id
    }
}

impl JobQueue {
    /// Reads one flow: how many strands it has, what those that have ended ended in, and what is live. Its jobs are in
    /// [`list`](Self::list), by [`JobFilter::flow`](crate::JobFilter::flow). `None` where there is none of this id, or all
    /// of its jobs are deleted.
    ///
    /// # Errors
    /// [`QueueError::Store`].
    pub async fn flow(&self, id: impl Into<FlowId>) -> Result<Option<FlowRow>, QueueError> {
        Ok(self.store().flow(id.into()).await?)
    }
}
