//! EnqueueAll: many jobs of one type, in few commits.

use super::{EnqueueError, Enqueuing, Options, fill, options::Template, store};
use crate::{
    job::{Job, NewJob},
    store::{Enqueued, StoreError, Tx},
};

/// Jobs in one commit, unless [`EnqueueAll::atomic`] asks for all in one.
const CHUNK: usize = 10_000;

/// Many jobs on their way into a queue: [`JobQueue::enqueue_all`](crate::JobQueue::enqueue_all). Awaiting it stores
/// them, 10,000 in a commit; each commit holds all of its jobs or none. The answer says of each, in their order,
/// which job is there now and whether it is new.
///
/// Every option holds for all of the jobs; a `delay` counts from the start of the first commit.
///
/// # Errors
/// [`EnqueueAllError`] says how many jobs landed before, which they are, and why the next commit did not.
///
/// # Cancel safety
/// Dropping it while it is awaited loses the answer; the commits made so far, and the one under way, stay.
#[must_use = "an enqueue does nothing until it is awaited"]
pub struct EnqueueAll<'t, J: Job> {
    jobs: Vec<J>,
    pub(super) options: Options,
    tx: Option<Tx<'t>>,
    chunk: usize,
}

impl<J: Job> EnqueueAll<'_, J> {
    pub(super) fn new(jobs: Vec<J>, options: Options) -> EnqueueAll<'static, J> {
        EnqueueAll { jobs, options, tx: None, chunk: CHUNK }
    }

    /// Stores all of the jobs in one commit, or none. The write lock is held for the whole of it, while nobody else can
    /// write.
    pub fn atomic(mut self) -> Self {
        self.chunk = usize::MAX;
        self
    }

    /// Enqueues inside the caller's own transaction on the same database, all or none: see
    /// [`Enqueue::in_tx`](super::Enqueue::in_tx).
    pub fn in_tx<'u>(self, tx: impl Into<Tx<'u>>) -> EnqueueAll<'u, J> {
        EnqueueAll { jobs: self.jobs, options: self.options, tx: Some(tx.into()), chunk: usize::MAX }
    }
}

impl<'t, J: Job> IntoFuture for EnqueueAll<'t, J> {
    type Output = Result<Vec<Enqueued>, EnqueueAllError>;
    type IntoFuture = Enqueuing<'t, Vec<Enqueued>, EnqueueAllError>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move {
            let mut landed = Vec::with_capacity(self.jobs.len());
            let of = self.jobs.len();
            match self.store_into(&mut landed).await {
                Ok(()) => Ok(landed),
                Err((index, error)) => Err(EnqueueAllError { landed, of, index, error }),
            }
        })
    }
}

/// What went wrong, and with which job where it was one.
type Fault = (Option<usize>, EnqueueError);

impl<J: Job> EnqueueAll<'_, J> {
    async fn store_into(self, landed: &mut Vec<Enqueued>) -> Result<(), Fault> {
        let Self { jobs, mut options, mut tx, chunk } = self;
        let queue = options.target().map_err(|error| (None, error.into()))?;
        let template = options.template(J::TYPE, &J::DEFAULTS, &queue, queue.now());
        let template = template.map_err(|error| (None, error))?;
        let mut jobs = jobs.into_iter();
        while jobs.len() > 0 {
            let chunk = filled(&mut jobs, chunk, &template, landed.len())?;
            let expected = chunk.len();
            let enqueued = store(&queue, chunk, queue.now(), tx.take())
                .await
                .map_err(|error| fault(error, landed.len()))?;
            if enqueued.len() != expected {
                let why = format!("the store took {expected} jobs and gave {} answers", enqueued.len());
                return Err((None, StoreError::Invalid(why).into()));
            }
            landed.extend(enqueued);
        }
        Ok(())
    }
}

/// A refusal names its job, where it is one job's fault.
fn fault(error: StoreError, before: usize) -> Fault {
    match &error {
        StoreError::Duplicate { place, .. } => (Some(before + place), error.into()),
        _ => (None, error.into()),
    }
}

fn filled<J: Job>(
    jobs: &mut impl ExactSizeIterator<Item = J>,
    chunk: usize,
    template: &Template,
    from: usize,
) -> Result<Vec<NewJob>, Fault> {
    let mut filled = Vec::with_capacity(jobs.len().min(chunk));
    for (place, job) in jobs.take(chunk).enumerate() {
        filled.push(fill(template, &job).map_err(|error| (Some(from + place), error))?);
    }
    Ok(filled)
}

/// Why not all of the jobs were enqueued, and which were.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{} of {of} jobs were enqueued, then came{}: {error}", landed.len(), at(*index))]
pub struct EnqueueAllError {
    /// What became of the first jobs, in their order: these are stored and will run.
    pub landed: Vec<Enqueued>,
    /// How many jobs there were.
    pub of: usize,
    /// The job that can't be enqueued, counted from 0, where it was one job's fault.
    pub index: Option<usize>,
    /// Why.
    pub error: EnqueueError,
}

fn at(index: Option<usize>) -> String {
    index.map(|index| format!(" the job at index {index}")).unwrap_or_default()
}
