//! What is done to both stores, drawn from a seed. An operation names jobs by where they stand, so that it still
//! means something after others were left out.

use super::{
    flows::{Drawn, drawn},
    ticks::{Deed, deed},
};
use fastrand::Rng;
use jobq::{
    job::{AttemptOutcome, Fields, JobField, OnConflict},
    limit::{Bounds, Rate},
    state::JobState,
};
use std::time::Duration;

/// One operation.
#[derive(Clone, Debug)]
pub enum Op {
    /// The time goes on.
    Wait(i64),
    Enqueue(Vec<Spec>),
    Promote(usize),
    Claim {
        worker: usize,
        /// Which of [`TYPES`], as bits.
        types: u8,
        /// Which of [`QUEUES`], as bits; all for `None`.
        queues: Option<u8>,
        limit: usize,
    },
    Settle(Way, Vec<Ended>),
    /// What running jobs say of themselves.
    Note(Vec<Said>),
    /// A step: the job, what is added to its lease, which of [`STEPS`].
    Step(Pick, i64, usize),
    Act(Act, Vec<Pick>),
    /// Pauses one of [`QUEUES`] or, counted on, of [`TYPES`]; it ends so many milliseconds from now.
    Pause(usize, Option<i64>),
    Resume(usize),
    /// Limits one of [`QUEUES`] or of [`TYPES`], as with pauses; `None`: takes the limit back.
    Limit(usize, Option<Bounds>),
    /// What one of [`TYPES`] declares.
    Declare(usize, Bounds),
    Prune {
        finished: Option<u64>,
        dead: Option<u64>,
    },
    List {
        state: Option<JobState>,
        job_type: Option<usize>,
        queue: Option<usize>,
        label: Option<&'static str>,
        key: Option<usize>,
        since: Option<i64>,
        before: Option<i64>,
        after: Option<Pick>,
        limit: usize,
    },
    Flow(Drawn),
    /// Does something to the n-th schedule.
    Schedule(usize, Deed),
    /// One job, its attempts, and all that needs no argument.
    Look(Pick),
}

pub const TYPES: [&str; 3] = ["mail", "report", "sync"];
pub const QUEUES: [&str; 2] = ["default", "slow"];
/// The names of steps; one less may be recorded.
pub const STEPS: [&str; 3] = ["a", "b", "c"];
pub const WORKERS: usize = 2;
pub const KEYS: usize = 3;

/// A job to be enqueued; all choices small, so that they meet.
#[derive(Clone, Copy, Debug)]
pub struct Spec {
    pub job_type: usize,
    pub queue: usize,
    pub priority: i16,
    /// From now, in milliseconds.
    pub delay: Option<i64>,
    pub max_attempts: u32,
    pub retain: Option<u64>,
    pub label: Option<&'static str>,
    pub unique: Option<Unique>,
    pub concurrency_key: Option<&'static str>,
}

/// A unique key, by its small choices.
#[derive(Clone, Copy, Debug)]
pub struct Unique {
    /// Which key.
    pub key: usize,
    /// Whether all types share it.
    pub global: bool,
    /// The states that hold it beside the waiting ones, as bits.
    pub states: i64,
    pub within: Option<u64>,
    pub on_conflict: OnConflict,
}

/// A job that was enqueued before.
#[derive(Clone, Copy, Debug)]
pub enum Pick {
    /// The n-th of those that run, where any do; else as `Any`.
    Running(usize),
    /// The n-th of all, also of those that were deleted.
    Any(usize),
    /// The id of `Any`, with the tag of another store.
    Foreign(usize),
}

/// The edges out of `running`.
#[derive(Clone, Copy, Debug)]
pub enum Way {
    Complete,
    Fail,
    Snooze,
    Release,
    Rescue,
}

#[derive(Clone, Copy, Debug)]
pub struct Ended {
    pub job: Pick,
    /// Added to the job's true lease.
    pub lease: i64,
    pub outcome: AttemptOutcome,
    /// The next time from now, in milliseconds; `None`: no further attempt.
    pub next: Option<i64>,
    pub text: &'static str,
    /// Whether it brings a job with it, for the case that the job is dead by it.
    pub brings: bool,
}

#[derive(Clone, Copy, Debug)]
pub struct Said {
    pub job: Pick,
    /// Added to the job's true lease.
    pub lease: i64,
    pub progress: Option<(i64, i64)>,
    /// The place of the first line, and how many lines.
    pub lines: (i64, i64),
    pub text: &'static str,
}

/// Acts of people.
#[derive(Clone, Copy, Debug)]
pub enum Act {
    Cancel,
    Retry,
    RunNow,
    Delete,
}

impl Op {
    /// The same with one item less, for each of its items.
    pub fn smaller(&self) -> Vec<Self> {
        fn without<T: Clone>(items: &[T], wrap: impl Fn(Vec<T>) -> Op) -> Vec<Op> {
            let others =
                |at| items.iter().enumerate().filter(move |(n, _)| *n != at).map(|(_, item)| item.clone());
            (0..items.len()).map(|at| wrap(others(at).collect())).collect()
        }
        match self {
            Self::Enqueue(jobs) => without(jobs, Self::Enqueue),
            Self::Settle(way, ended) => without(ended, |ended| Self::Settle(*way, ended)),
            Self::Note(said) => without(said, Self::Note),
            Self::Act(act, picks) => without(picks, |picks| Self::Act(*act, picks)),
            _ => Vec::new(),
        }
    }
}

/// The sequence of this seed.
pub fn sequence(seed: u64) -> Vec<Op> {
    let mut random = Rng::with_seed(seed);
    if random.u8(..) < 3 {
        return long_history(&mut random);
    }
    let length = random.usize(10..50);
    (0..length).map(|_| op(&mut random)).collect()
}

/// Few jobs that start so often that their histories are cut.
fn long_history(random: &mut Rng) -> Vec<Op> {
    let mut ops = vec![Op::Enqueue(vec![spec(random), spec(random)])];
    for _ in 0..random.usize(90..130) {
        ops.push(Op::Wait(60));
        ops.push(Op::Promote(10));
        ops.push(Op::Act(Act::Retry, vec![Pick::Any(0), Pick::Any(1)]));
        ops.push(Op::Claim { worker: 0, types: 7, queues: None, limit: 10 });
        ops.push(Op::Note(vec![said(random)]));
        ops.push(Op::Step(Pick::Running(random.usize(..2)), 0, random.usize(..STEPS.len())));
        let mut both = vec![ended(random), ended(random)];
        (both[0].job, both[1].job) = (Pick::Running(0), Pick::Running(1));
        ops.push(Op::Settle(way(random), both));
    }
    ops
}

fn op(random: &mut Rng) -> Op {
    match random.u8(..100) {
        0..8 => Op::Wait(random.i64(0..40)),
        8..22 => Op::Enqueue(some(random, 4, spec)),
        22..26 => Op::Flow(drawn(random)),
        26..30 => {
            let (at, deed) = deed(random);
            Op::Schedule(at, deed)
        }
        30..36 => Op::Promote(random.usize(0..4)),
        36..56 => Op::Claim {
            worker: random.usize(..WORKERS),
            types: random.u8(0..8) | random.u8(0..8),
            queues: random.bool().then(|| random.u8(0..4)),
            limit: random.usize(0..5),
        },
        56..74 => Op::Settle(way(random), some(random, 4, ended)),
        74..77 => Op::Note(some(random, 3, said)),
        77 => {
            let job = if seldom(random) { pick(random) } else { Pick::Running(random.usize(..1000)) };
            Op::Step(job, [0, 0, 0, -1, 1][random.usize(..5)], random.usize(..STEPS.len()))
        }
        78..84 => Op::Act(act(random), some(random, 4, pick)),
        84..86 => Op::Pause(random.usize(..5), random.bool().then(|| random.i64(1..60))),
        86..87 => Op::Resume(random.usize(..5)),
        87..88 => Op::Declare(random.usize(..3), bounds(random, true)),
        88..90 => {
            let at = random.usize(..5);
            Op::Limit(at, random.bool().then(|| bounds(random, at >= QUEUES.len())))
        }
        90..92 => Op::Prune {
            finished: random.bool().then(|| random.u64(0..80)),
            dead: random.bool().then(|| random.u64(0..80)),
        },
        92..96 => Op::List {
            state: random.bool().then(|| JobState::ALL[random.usize(..6)]),
            job_type: seldom(random).then(|| random.usize(..3)),
            queue: seldom(random).then(|| random.usize(..2)),
            label: seldom(random).then(|| if random.bool() { "A" } else { "%" }),
            key: seldom(random).then(|| random.usize(..KEYS)),
            since: seldom(random).then(|| random.i64(-40..5)),
            before: seldom(random).then(|| random.i64(-40..5)),
            after: random.bool().then(|| pick(random)),
            limit: random.usize(0..6),
        },
        _ => Op::Look(pick(random)),
    }
}

fn seldom(random: &mut Rng) -> bool {
    random.u8(..4) == 0
}

fn some<T>(random: &mut Rng, most: usize, draw: fn(&mut Rng) -> T) -> Vec<T> {
    let count = random.usize(0..=most);
    (0..count).map(|_| draw(random)).collect()
}

pub(super) fn spec(random: &mut Rng) -> Spec {
    Spec {
        job_type: random.usize(..TYPES.len()),
        queue: random.usize(..QUEUES.len()),
        priority: random.i16(-1..=1),
        delay: random.bool().then(|| random.i64(-5..60)),
        max_attempts: random.u32(1..4),
        retain: seldom(random).then(|| random.u64(0..60)),
        label: [None, Some("a"), Some("100%"), Some("bA \u{1f600}")][random.usize(..4)],
        unique: random.bool().then(|| unique(random)),
        concurrency_key: [None, Some("k"), Some("k"), Some("")][random.usize(..4)],
    }
}

fn unique(random: &mut Rng) -> Unique {
    use JobField::{Backoff, Label, MaxAttempts, Payload, Priority, Queue, Retain, RunAt, Timeout};
    let all = [Payload, RunAt, Priority, Queue, MaxAttempts, Label, Timeout, Backoff, Retain];
    let some: Vec<_> = all.into_iter().filter(|_| random.bool()).collect();
    Unique {
        key: random.usize(..KEYS),
        global: seldom(random),
        states: [0, 0b000100, 0b000100, 0b010100, 0b111100, random.i64(0..64)][random.usize(..6)],
        within: seldom(random).then(|| random.u64(1..80)),
        on_conflict: match random.u8(..8) {
            0..4 => OnConflict::Keep,
            4..6 => OnConflict::replace(&some),
            6 => OnConflict::Replace(Fields::ALL),
            _ => OnConflict::Reject,
        },
    }
}

/// Small numbers, so that limits are met, and sometimes none.
fn bounds(random: &mut Rng, keys: bool) -> Bounds {
    let rate = |random: &mut Rng| Rate::new(random.u32(1..4), Duration::from_millis(random.u64(1..80)));
    let keys = |random: &mut Rng| keys && random.bool();
    Bounds {
        concurrency: random.bool().then(|| random.u32(1..4)),
        concurrency_per_key: keys(random).then(|| random.u32(1..3)),
        rate: seldom(random).then(|| rate(random)),
        rate_per_key: (seldom(random) && keys(random)).then(|| rate(random)),
    }
}

fn pick(random: &mut Rng) -> Pick {
    let place = random.usize(..1000);
    match random.u8(..20) {
        0 => Pick::Foreign(place),
        1..6 => Pick::Running(place),
        _ => Pick::Any(place),
    }
}

fn ended(random: &mut Rng) -> Ended {
    use AttemptOutcome::{Cancelled, Failed, Panicked, TimedOut, Undecodable};
    Ended {
        job: if seldom(random) { pick(random) } else { Pick::Running(random.usize(..1000)) },
        lease: [0, 0, 0, 0, 0, 0, -1, 1][random.usize(..8)],
        outcome: [Failed, TimedOut, Panicked, Undecodable, Cancelled][random.usize(..5)],
        next: (!seldom(random)).then(|| random.i64(-3..50)),
        text: ["", "no such host", "it said \"\0\"", "é'"][random.usize(..4)],
        brings: seldom(random),
    }
}

fn said(random: &mut Rng) -> Said {
    Said {
        job: if seldom(random) { pick(random) } else { Pick::Running(random.usize(..1000)) },
        lease: [0, 0, 0, 0, 0, 0, -1, 1][random.usize(..8)],
        progress: random.bool().then(|| (random.i64(0..5), random.i64(0..5))),
        lines: (random.i64(0..3), random.i64(0..3)),
        text: ["", "one\ntwo", "é'"][random.usize(..3)],
    }
}

fn way(random: &mut Rng) -> Way {
    [Way::Complete, Way::Fail, Way::Fail, Way::Snooze, Way::Release, Way::Rescue][random.usize(..6)]
}

fn act(random: &mut Rng) -> Act {
    [Act::Cancel, Act::Retry, Act::RunNow, Act::Delete][random.usize(..4)]
}
