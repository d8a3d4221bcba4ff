//! What a schedule adds to its pattern: what becomes of ticks that were missed, and of those that would overlap; pure.

use serde::{Serialize, Serializer};
use std::{fmt, str::FromStr, time::Duration};

#[cfg(feature = "cron")]
mod plan;

#[cfg(feature = "cron")]
pub use jobq_schedule::{Cron, CronError, MAX_PATTERN, next_runs};
#[cfg(feature = "cron")]
pub use plan::{Plan, plan};

/// What becomes of ticks that no worker was there for: the machine was off, the clock was set ahead.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CatchUp {
    /// One job for all of them, with the latest one's time, unless that is more than an hour ago.
    #[default]
    Once,
    /// The same, with another time than an hour.
    OnceWithin(Duration),
    /// A job for each of them, the oldest first; of more than this many the latest.
    All(u32),
    /// Nothing: a tick has its job within a minute, or none.
    Skip,
}

/// The most ticks that [`CatchUp::All`] makes up for.
pub const MOST_CAUGHT_UP: u32 = 1000;

/// As the store has it: `once`, `once(21600s)`, `all(24)`, `skip`.
impl fmt::Display for CatchUp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Once => f.write_str("once"),
            Self::OnceWithin(time) => write!(f, "once({}s)", time.as_secs()),
            Self::All(most) => write!(f, "all({most})"),
            Self::Skip => f.write_str("skip"),
        }
    }
}

impl FromStr for CatchUp {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let number = |before: &str, after: &str| {
            text.strip_prefix(before).and_then(|rest| rest.strip_suffix(after)).and_then(|n| n.parse().ok())
        };
        match text {
            "once" => Ok(Self::Once),
            "skip" => Ok(Self::Skip),
            _ => {
                let within = number("once(", "s)").map(|secs| Self::OnceWithin(Duration::from_secs(secs)));
                let all = || number("all(", ")").and_then(|most| u32::try_from(most).ok()).map(Self::All);
                within.or_else(all).ok_or_else(|| {
                    format!("{text:?} is no way to catch up; known are once, once(3600s), all(24), skip")
                })
            }
        }
    }
}

impl Serialize for CatchUp {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

/// What becomes of a tick while the job of an earlier one is scheduled, pending or running.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Overlap {
    /// It has its job beside that one.
    #[default]
    Allow,
    /// It has none, and is counted.
    Skip,
}

impl Overlap {
    /// As the store has it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Allow => "allow",
            Self::Skip => "skip",
        }
    }
}
