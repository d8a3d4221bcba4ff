//! The name of a flow.

use super::JobId;
use serde::{Deserialize, Serialize};
use std::{fmt, str::FromStr};
use uuid::Uuid;

/// The name of a flow: a UUID, text like a job's id.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct FlowId(Uuid);

/// Where a UUID has its version, and that of a flow's.
const VERSION: u128 = 0xf << 76;
const FLOWS: u128 = 0x8 << 76;

impl FlowId {
    /// Row `row` of the store `tag`.
    pub(crate) fn compose(row: i64, tag: u32) -> Self {
        let bits = JobId::compose(0, row, tag).as_uuid().as_u128();
        Self(Uuid::from_u128(bits & !VERSION | FLOWS))
    }

    pub(crate) fn row(self) -> i64 {
        JobId::from(self.0).row()
    }

    /// Whether it can be one of the store with this tag.
    pub(crate) fn is_of(self, tag: u32) -> bool {
        self.0.as_u128() & VERSION == FLOWS && JobId::from(self.0).tag() == tag
    }
}

impl fmt::Display for FlowId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Debug for FlowId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for FlowId {
    type Err = uuid::Error;
    fn from_str(text: &str) -> Result<Self, uuid::Error> {
        Uuid::parse_str(text).map(Self)
    }
}
