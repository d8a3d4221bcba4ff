//! The six states of a job and the legal edges between them; pure.

use serde::{Deserialize, Serialize};
use std::{fmt, str::FromStr};

/// Where a job stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum JobState {
    /// Waits for its `run_at`.
    Scheduled,
    /// Due: a worker may claim it.
    Pending,
    /// Held by a worker under a lease.
    Running,
    /// Ended well.
    Completed,
    /// Out of attempts; kept for people.
    Dead,
    /// Taken back before it ended.
    Cancelled,
}

/// Some of the states.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct StateSet(u8);

impl StateSet {
    /// None of them.
    pub const NONE: Self = Self(0);

    /// These.
    pub const fn of(states: &[JobState]) -> Self {
        let (mut bits, mut at) = (0, 0);
        while at < states.len() {
            bits |= 1 << states[at].code();
            at += 1;
        }
        Self(bits)
    }

    /// Those of either set.
    pub const fn and(self, others: Self) -> Self {
        Self(self.0 | others.0)
    }

    /// Whether this one is among them.
    pub const fn contains(self, state: JobState) -> bool {
        self.0 & (1 << state.code()) != 0
    }

    /// Each of them, in the order of a job's life.
    pub fn iter(self) -> impl Iterator<Item = JobState> {
        JobState::ALL.into_iter().filter(move |state| self.contains(*state))
    }

    /// The stored number: bit n is the state of number n.
    pub const fn code(self) -> i64 {
        self.0 as i64
    }

    /// The set of this stored number; bits of no state are left out.
    pub const fn from_code(code: i64) -> Self {
        Self(code as u8 & Self::of(&JobState::ALL).0)
    }
}

impl fmt::Debug for StateSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.iter()).finish()
    }
}

impl Serialize for StateSet {
    fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_seq(self.iter())
    }
}

/// What moves a job from one state to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Edge {
    /// scheduled → pending, when due.
    Promote,
    /// pending → running; the lease and the attempts rise by one.
    Claim,
    /// running → completed.
    Complete,
    /// running → pending, scheduled or dead (cancelled, where the handler said so): the attempt failed.
    Fail,
    /// running → pending or scheduled; the attempt is given back.
    Snooze,
    /// running → pending; the attempt is given back by a worker that stops.
    Release,
    /// running → pending, scheduled or dead; the worker was lost.
    Rescue,
    /// scheduled or pending → cancelled; running → cancelled, where the attempt does not complete before it hears of it.
    Cancel,
    /// dead, cancelled or completed → pending; attempts start at 0 again.
    Retry,
    /// scheduled → pending, before its time.
    RunNow,
    /// completed, dead or cancelled → gone.
    Delete,
}

impl JobState {
    /// All six, in the order of a job's life.
    pub const ALL: [Self; 6] =
        [Self::Scheduled, Self::Pending, Self::Running, Self::Completed, Self::Dead, Self::Cancelled];

    /// The stored number.
    pub const fn code(self) -> i64 {
        self as i64
    }

    /// The state with this stored number.
    pub fn from_code(code: i64) -> Option<Self> {
        usize::try_from(code).ok().and_then(|code| Self::ALL.get(code)).copied()
    }

    /// The word for it, in every surface.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Scheduled => "scheduled",
            Self::Pending => "pending",
            Self::Running => "running",
            Self::Completed => "completed",
            Self::Dead => "dead",
            Self::Cancelled => "cancelled",
        }
    }

    /// Whether nothing but a person moves the job from here.
    pub const fn is_terminal(self) -> bool {
        matches!(self, Self::Completed | Self::Dead | Self::Cancelled)
    }

    /// The states that `edge` may leave.
    pub const fn left_by(edge: Edge) -> &'static [Self] {
        match edge {
            Edge::Promote | Edge::RunNow => &[Self::Scheduled],
            Edge::Claim => &[Self::Pending],
            Edge::Complete | Edge::Fail | Edge::Snooze | Edge::Release | Edge::Rescue => &[Self::Running],
            Edge::Cancel => &[Self::Scheduled, Self::Pending, Self::Running],
            Edge::Retry | Edge::Delete => &[Self::Completed, Self::Dead, Self::Cancelled],
        }
    }

    /// Whether `edge` may leave this state.
    pub fn allows(self, edge: Edge) -> bool {
        Self::left_by(edge).contains(&self)
    }
}

impl fmt::Display for JobState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for JobState {
    type Err = UnknownState;

    fn from_str(word: &str) -> Result<Self, UnknownState> {
        Self::ALL.into_iter().find(|state| state.as_str() == word).ok_or_else(|| UnknownState(word.into()))
    }
}

/// A word that names no state.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no job state `{0}`; known are scheduled, pending, running, completed, dead, cancelled")]
pub struct UnknownState(String);
