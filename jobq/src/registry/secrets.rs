//! Which fields of a stored payload are secrets: what their job type says, and never what a value looks like.

use super::{FOLLOWS, JobEntry, Registry};
use crate::{
    job::Job,
    secret::{self, FieldIs, OpenError, SealError, SecretKeys},
};
use std::borrow::Cow;

/// What this program knows of the secrets in a stored payload.
///
/// Of a payload of the build's own version it knows each field. A field that an older or newer version had may have been
/// a secret: it is opened and left out if it is marked. Of a type that is not linked, whatever is marked is left out, and
/// nothing is opened.
#[derive(Clone, Copy)]
pub(crate) struct Known<'e> {
    entry: Option<&'e JobEntry>,
    own: bool,
}

impl<'e> Known<'e> {
    /// Of a payload of this version.
    pub(crate) fn of(entry: &'e JobEntry, version: u32) -> Self {
        Self { entry: Some(entry), own: version == entry.defaults.version }
    }

    /// Of a row of this stored name and version.
    pub(crate) fn at(job_type: &str, version: u32) -> Known<'static> {
        match linked(job_type) {
            Some(entry) => Known::of(entry, version),
            None => Known { entry: None, own: false },
        }
    }

    /// Of a payload that this build has written.
    pub(crate) fn own(job_type: &str) -> Known<'static> {
        let entry = linked(job_type);
        Known { entry, own: entry.is_some() }
    }

    /// What the field of this name is.
    fn field(self, name: &str) -> FieldIs {
        let Some(entry) = self.entry else { return FieldIs::Unknown };
        let named = |field: &&super::Field| field.name == name || field.aliases.contains(&name);
        match entry.fields.iter().find(named) {
            Some(field) if field.secret => FieldIs::Secret,
            _ if self.own => FieldIs::Plain,
            Some(_) => FieldIs::Former,
            None => FieldIs::Unknown,
        }
    }

    /// Whether there is none in it, whatever it holds.
    pub(crate) fn none(self) -> bool {
        self.own && self.entry.is_some_and(|entry| entry.secrets.is_empty())
    }

    /// The payload with each secret sealed, where there is a key.
    ///
    /// # Errors
    /// As [`secret::sealed`].
    pub(crate) fn sealed<'p>(
        self,
        keys: Option<&SecretKeys>,
        job_type: &str,
        payload: &'p str,
    ) -> Result<Cow<'p, str>, SealError> {
        match keys {
            Some(keys) if !self.none() => secret::sealed(keys, job_type, payload, |name| self.field(name)),
            _ => Ok(Cow::Borrowed(payload)),
        }
    }

    /// The payload with each sealed secret opened, as it was before it was sealed.
    ///
    /// # Errors
    /// As [`secret::opened`].
    pub(crate) fn opened<'p>(
        self,
        keys: Option<&SecretKeys>,
        job_type: &str,
        payload: &'p str,
    ) -> Result<Cow<'p, str>, OpenError> {
        if self.entry.is_none() || self.none() || payload.starts_with(FOLLOWS) {
            return Ok(Cow::Borrowed(payload));
        }
        secret::opened(keys, job_type, payload, |name| self.field(name))
    }

    /// The payload without the marks.
    pub(crate) fn bare(self, payload: &str) -> Cow<'_, str> {
        if self.entry.is_none() || self.none() || payload.starts_with(FOLLOWS) {
            return Cow::Borrowed(payload);
        }
        secret::bare(payload, |name| self.field(name))
    }

    /// Leaves the secrets out of a payload, as [`redacted`](Self::redacted) does.
    pub(crate) fn redact(self, payload: &mut String) {
        if let Cow::Owned(redacted) = self.redacted(payload) {
            *payload = redacted;
        }
    }

    /// The payload as people may see it; a secret is left out also where it was stored before it was one.
    pub(crate) fn redacted(self, payload: &str) -> Cow<'_, str> {
        match self.entry {
            None => secret::redacted(payload),
            Some(_) if self.none() => Cow::Borrowed(payload),
            Some(entry) => secret::redacted_as(payload, !entry.secrets.is_empty(), |name| self.field(name)),
        }
    }
}

fn linked(job_type: &str) -> Option<&'static JobEntry> {
    Registry::linked().ok()?.get(job_type)
}

/// The payload as a row holds it.
///
/// # Errors
/// It can't be written as JSON, or a secret in it would not be known for one: it stands inside of another payload.
pub(crate) fn encode<J: Job>(job: &J) -> Result<String, serde_json::Error> {
    let (written, secrets) = secret::counted(|| serde_json::to_string(job));
    let written = written?;
    if secrets > 0 && secret::marks(&written, |name| Known::own(J::TYPE).field(name)) < secrets {
        return Err(secret::misplaced());
    }
    Ok(written)
}
