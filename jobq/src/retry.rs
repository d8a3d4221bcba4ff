//! Attempt number → how long to wait before the next one; pure.

use serde::{Deserialize, Serialize};
use std::time::Duration;

/// How the wait before the next attempt grows.
///
/// `attempt` counts from 1. No number of attempts overflows, and no wait is above `max`, jitter included.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Backoff {
    /// `base · factor^(attempt - 1)`, times a random factor within `1 ± jitter`, at most `max`.
    Exponential {
        /// The wait after the first attempt.
        #[serde(with = "in_millis")]
        base: Duration,
        /// How much longer each wait is than the one before; at least 1.
        factor: f64,
        /// No wait is longer, jitter included.
        #[serde(with = "in_millis")]
        max: Duration,
        /// 0.15 spreads each wait over 85 % to 115 % of itself; 0 to 1.
        jitter: f64,
    },
    /// Always the same wait, times a random factor within `1 ± jitter`.
    Fixed {
        /// The wait.
        #[serde(with = "in_millis")]
        delay: Duration,
        /// As above.
        jitter: f64,
    },
}

impl Backoff {
    /// 10, 20, 40 s … up to 1 h, each ± 15 %: what a job without a backoff of its own gets.
    pub const DEFAULT: Self = Self::Exponential {
        base: Duration::from_secs(10),
        factor: 2.0,
        max: Duration::from_secs(3600),
        jitter: 0.15,
    };

    /// `min(1000 · 2^attempt, 60000)` ms: 2, 4, 8 … 60 s, without jitter.
    pub const DOUBLING_TO_A_MINUTE: Self = Self::Exponential {
        base: Duration::from_secs(2),
        factor: 2.0,
        max: Duration::from_secs(60),
        jitter: 0.0,
    };

    /// Always `delay`, without jitter.
    pub const fn fixed(delay: Duration) -> Self {
        Self::Fixed { delay, jitter: 0.0 }
    }

    /// The wait after `attempt` failed; `random` is in 0.0 ..= 1.0 and picks the place within the jitter.
    pub fn delay(&self, attempt: u32, random: f64) -> Duration {
        match *self {
            Self::Exponential { base, factor, max, jitter } => {
                let growth = factor.max(1.0).powf(f64::from(attempt.saturating_sub(1)));
                // Nothing stays nothing, also where the growth has become infinite.
                let grown = if base.is_zero() { 0.0 } else { base.as_secs_f64() * growth };
                spread(grown.min(max.as_secs_f64()), jitter, random).min(max)
            }
            Self::Fixed { delay, jitter } => spread(delay.as_secs_f64(), jitter, random),
        }
    }
}

fn spread(seconds: f64, jitter: f64, random: f64) -> Duration {
    let jitter = share(jitter);
    let factor = 1.0 - jitter + 2.0 * jitter * share(random);
    Duration::try_from_secs_f64(seconds * factor).unwrap_or(Duration::MAX)
}

/// Within 0 to 1; what is no number is 0.
fn share(value: f64) -> f64 {
    if value.is_nan() { 0.0 } else { value.clamp(0.0, 1.0) }
}

/// How long to wait after this many failures of the store in a row: from 50 ms, doubling, at most 5 s, spread so that
/// processes do not fall into step.
pub(crate) fn trouble_wait(failures: u32) -> Duration {
    const WAIT: Backoff = Backoff::Exponential {
        base: Duration::from_millis(50),
        factor: 2.0,
        max: Duration::from_secs(5),
        jitter: 0.5,
    };
    WAIT.delay(failures, fastrand::f64())
}

/// Durations in stored JSON: whole milliseconds.
mod in_millis {
    use serde::{Deserialize, Deserializer, Serializer};
    use std::time::Duration;

    pub(super) fn serialize<S: Serializer>(duration: &Duration, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_u64(u64::try_from(duration.as_millis()).unwrap_or(u64::MAX))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Duration, D::Error> {
        u64::deserialize(from).map(Duration::from_millis)
    }
}
