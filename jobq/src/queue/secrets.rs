//! Secrets at the door: sealed on the way in, left out of what people see, shown where somebody asks for them.

use super::{EnvError, JobQueue, QueueError};
use crate::{
    job::{JobId, JobRow, NewJob},
    registry::{Known, Registry},
    secret::SecretKeys,
    store::{JobFilter, StoreError},
};
use std::{borrow::Cow, sync::Arc};

/// The variables that hold keys.
const KEYS: [&str; 2] = ["JOBQ_SECRET_KEYS", "JOBQ_SECRET_KEY"];

impl JobQueue {
    /// Reads the payload of one job with its `#[secret]` parameters as they are, which no other question shows; `None`
    /// where there is none of this id. Of a type that is not linked into this program it shows what is stored. It is JSON
    /// text, as [`enqueue_raw`](Self::enqueue_raw) takes it.
    ///
    /// # Errors
    /// [`QueueError::Sealed`]: the key that a secret was sealed with is not here. [`QueueError::Store`].
    pub async fn reveal(&self, job: impl Into<JobId>) -> Result<Option<String>, QueueError> {
        let Some(row) = self.0.store.get(job.into()).await? else { return Ok(None) };
        let row = self.opened(row)?;
        Ok(Some(Known::at(&row.job_type, row.version).bare(&row.payload).into_owned()))
    }

    /// The keys that secrets are sealed with; `None`: they are stored as they are.
    pub(crate) fn secret_keys(&self) -> Option<&Arc<SecretKeys>> {
        self.0.keys.as_ref()
    }

    /// Seals the secrets of jobs that are about to be stored, where there is a key. Whoever hands jobs to the store calls
    /// this before.
    ///
    /// # Errors
    /// [`StoreError::Invalid`]: a secret can't be sealed; then it is not to be stored.
    pub(crate) fn seal(&self, jobs: &mut [NewJob]) -> Result<(), StoreError> {
        match self.secret_keys() {
            None => Ok(()),
            Some(_) => jobs.iter_mut().try_for_each(|job| self.seal_payload(&job.job_type, &mut job.payload)),
        }
    }

    /// The same for a payload that is stored beside jobs, for jobs to come.
    ///
    /// # Errors
    /// As [`seal`](Self::seal).
    pub(crate) fn seal_payload(&self, job_type: &str, payload: &mut String) -> Result<(), StoreError> {
        let keys = self.secret_keys().map(Arc::as_ref);
        let sealed = Known::own(job_type).sealed(keys, job_type, payload);
        match sealed.map_err(|error| StoreError::Invalid(error.to_string()))? {
            Cow::Borrowed(_) => {}
            Cow::Owned(sealed) => *payload = sealed,
        }
        Ok(())
    }

    /// One page of jobs with their secrets opened.
    pub(super) async fn list_opened(&self, filter: JobFilter) -> Result<Vec<JobRow>, QueueError> {
        self.0.store.list(filter).await?.into_iter().map(|row| self.opened(row)).collect()
    }

    /// The row with its secrets opened, as this build's functions take them.
    pub(crate) fn opened(&self, mut row: JobRow) -> Result<JobRow, QueueError> {
        row.payload = self.opened_payload(&row.job_type, row.version, &row.payload)?.into_owned();
        Ok(row)
    }

    /// The same for a payload that is stored beside jobs, for jobs to come.
    pub(crate) fn opened_payload<'a>(
        &self,
        job_type: &str,
        version: u32,
        payload: &'a str,
    ) -> Result<Cow<'a, str>, QueueError> {
        let keys = self.secret_keys().map(Arc::as_ref);
        Ok(Known::at(job_type, version).opened(keys, job_type, payload)?)
    }
}

/// The row, with its secrets left out.
pub(crate) fn redacted(mut row: JobRow) -> JobRow {
    Known::at(&row.job_type, row.version).redact(&mut row.payload);
    row
}

/// Tells people of secrets that will be stored as they are, although this build could seal them.
pub(super) fn say_unsealed(keys: Option<&SecretKeys>) {
    if keys.is_some() || !cfg!(feature = "encryption") {
        return;
    }
    let linked = Registry::linked().into_iter().flat_map(Registry::iter);
    let with: Vec<_> = linked.filter(|entry| !entry.secrets.is_empty()).map(|entry| entry.job_type).collect();
    if !with.is_empty() {
        tracing::warn!(
            job_types = with.join(", "),
            "these jobs have secrets and there is no key, so they are stored as they are: set JOBQ_SECRET_KEYS or \
             JOBQ_SECRET_KEY"
        );
    }
}

/// The keys that the environment holds.
pub(super) fn keys(look_up: impl Fn(&str) -> Option<String>) -> Result<Option<SecretKeys>, EnvError> {
    let [several, one] = KEYS.map(|variable| EnvError::read(variable, &look_up, read));
    let unseen = |error| EnvError { value: None, ..error };
    match (several.map_err(unseen)?, one.map_err(unseen)?) {
        (Some(_), Some(_)) => Err(EnvError {
            variable: KEYS[1],
            value: None,
            why: "JOBQ_SECRET_KEYS is set too; put all keys there, the one that seals first".into(),
        }),
        (several, one) => Ok(several.or(one)),
    }
}

#[cfg(feature = "encryption")]
fn read(value: &str) -> Result<SecretKeys, String> {
    SecretKeys::parse(value).map_err(|error| error.to_string())
}

#[cfg(not(feature = "encryption"))]
fn read(_: &str) -> Result<SecretKeys, String> {
    Err("this build of jobq can't seal secrets: build it with the feature `encryption`".into())
}
