//! EnqueueRaw: a job by its stored name, checked against the linked jobs.

use super::{EnqueueError, Enqueuing, Options, only, options::checked_size, store};
use crate::{
    job::NewJob,
    queue::JobQueue,
    registry::{FOLLOWS, JobEntry, Registry},
    secret::PLAIN,
    store::{Enqueued, Tx},
    time::Millis,
};
use std::{borrow::Cow, sync::Arc};

/// A job given by its stored name, on its way into a queue: [`JobQueue::enqueue_raw`]. Awaiting it stores the job.
///
/// # Errors
/// Awaiting it gives an [`EnqueueError`]; then nothing is stored.
///
/// # Cancel safety
/// Dropping it while it is awaited loses the answer only: the job is stored whole or not at all.
#[must_use = "an enqueue does nothing until it is awaited"]
pub struct EnqueueRaw<'t> {
    job_type: String,
    payload: serde_json::Value,
    pub(super) options: Options,
    tx: Option<Tx<'t>>,
}

impl EnqueueRaw<'_> {
    pub(super) fn new(job_type: String, payload: serde_json::Value, options: Options) -> EnqueueRaw<'static> {
        EnqueueRaw { job_type, payload, options, tx: None }
    }

    /// Enqueues inside the caller's own transaction on the same database: see [`Enqueue::in_tx`](super::Enqueue::in_tx).
    pub fn in_tx<'u>(self, tx: impl Into<Tx<'u>>) -> EnqueueRaw<'u> {
        EnqueueRaw {
            job_type: self.job_type,
            payload: self.payload,
            options: self.options,
            tx: Some(tx.into()),
        }
    }
}

pub(super) fn new_job(
    job_type: &str,
    payload: &serde_json::Value,
    options: Options,
    queue: &JobQueue,
    now: Millis,
) -> Result<NewJob, EnqueueError> {
    let registry = Registry::linked()?;
    let entry = registry.get(job_type).ok_or_else(|| EnqueueError::UnknownType {
        job_type: job_type.to_owned(),
        known: registry.iter().map(|entry| entry.job_type).collect(),
    })?;
    job_of(entry, written(entry, payload), options, queue, now)
}

/// The payload as text. A secret is given as it is and is marked here, whatever it looks like.
fn written(entry: &JobEntry, payload: &serde_json::Value) -> String {
    let mut payload = Cow::Borrowed(payload);
    for field in entry.fields.iter().filter(|field| field.secret) {
        let names = std::iter::once(field.name).chain(field.aliases.iter().copied());
        for name in names {
            if let Some(value) = payload.get(name) {
                let marked = serde_json::json!({ PLAIN: value });
                payload.to_mut()[name] = marked;
            }
        }
    }
    payload.to_string()
}

/// A job of this entry with this JSON payload, which its function must take.
pub(crate) fn job_of(
    entry: &'static JobEntry,
    payload: String,
    options: Options,
    queue: &JobQueue,
    now: Millis,
) -> Result<NewJob, EnqueueError> {
    let template = options.template(entry.job_type, &entry.defaults, queue, now)?;
    let payload = checked_size(entry.job_type, payload)?;
    let checked = (entry.check)(&payload).map_err(|source| EnqueueError::Unfit(Arc::new(source)))?;
    // Its secrets are to be marked, and it is no flow's output; any other payload is stored as it was given.
    let as_given = entry.secrets.is_empty() && !payload.starts_with(FOLLOWS);
    let payload = if as_given { payload } else { checked.payload.clone() };
    template.filled(payload, &checked, Some(&checked.payload))
}

impl<'t> IntoFuture for EnqueueRaw<'t> {
    type Output = Result<Enqueued, EnqueueError>;
    type IntoFuture = Enqueuing<'t, Enqueued>;

    fn into_future(self) -> Self::IntoFuture {
        let Self { job_type, payload, mut options, tx } = self;
        Box::pin(async move {
            let queue = options.target()?;
            let now = queue.now();
            let new = new_job(&job_type, &payload, options, &queue, now)?;
            Ok(only(store(&queue, vec![new], now, tx).await?)?)
        })
    }
}
