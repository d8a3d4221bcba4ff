//! What a schedule's jobs are enqueued with, as JSON in its row.

use super::Options;
use crate::{job::Timeout, retry::Backoff, time::millis};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Only what was said; durations are milliseconds, a time-out of 0 is none.
#[derive(Default, Serialize, Deserialize)]
#[serde(default)]
struct Stored {
    #[serde(skip_serializing_if = "Option::is_none")]
    queue: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    priority: Option<i16>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_attempts: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    timeout: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    backoff: Option<Backoff>,
    #[serde(skip_serializing_if = "Option::is_none")]
    retain: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    label: Option<String>,
}

impl Options {
    /// As JSON.
    pub(in super::super) fn stored(&self) -> Result<String, serde_json::Error> {
        let whole = |duration| millis(duration).unsigned_abs();
        serde_json::to_string(&Stored {
            queue: self.queue.as_ref().map(|queue| queue.to_string()),
            priority: self.priority,
            max_attempts: self.max_attempts,
            timeout: self.timeout.map(Timeout::in_millis),
            backoff: self.backoff,
            retain: self.retain.map(whole),
            label: self.label.clone(),
        })
    }

    /// From that JSON.
    pub(in super::super) fn read(json: &str) -> Result<Self, serde_json::Error> {
        let stored: Stored = serde_json::from_str(json)?;
        Ok(Self {
            queue: stored.queue.map(Into::into),
            priority: stored.priority,
            max_attempts: stored.max_attempts,
            timeout: stored.timeout.map(Timeout::of_millis),
            backoff: stored.backoff,
            retain: stored.retain.map(Duration::from_millis),
            label: stored.label,
            ..Self::default()
        })
    }
}
