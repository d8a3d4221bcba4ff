//! Limits of the model store: whose jobs may start, by counting those that run and the tokens that are left.

use crate::{
    job::JobRow,
    limit::{Bounds, Bucket, Limit, Limited, Rate},
    state::JobState,
    store::LimitRow,
    time::Millis,
};
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// What was set and declared, and the tokens that are left.
#[derive(Default)]
pub(super) struct Limits {
    set: BTreeMap<Limited, Bounds>,
    declared: BTreeMap<Limited, Bounds>,
    /// One that is not here is full.
    buckets: HashMap<Whose, Bucket>,
}

/// Whose jobs are counted together.
#[derive(Clone, PartialEq, Eq, Hash)]
enum Whose {
    All(Limited),
    /// The job type, and the key.
    Key(String, String),
}

/// What a job has to pass to start.
struct Gate {
    whose: Whose,
    concurrency: Option<u32>,
    rate: Option<Rate>,
}

/// How many jobs run.
pub(super) struct Tally(HashMap<Whose, usize>);

impl Limits {
    pub(super) fn set(&mut self, limit: Limit) {
        self.set.insert(limit.of, limit.bounds);
    }

    pub(super) fn clear(&mut self, of: &Limited) -> bool {
        self.set.remove(of).is_some()
    }

    pub(super) fn declare(&mut self, types: Vec<(String, Bounds)>) {
        for (name, bounds) in types {
            match bounds {
                Bounds::NONE => self.declared.remove(&Limited::JobType(name)),
                bounds => self.declared.insert(Limited::JobType(name), bounds),
            };
        }
    }

    fn bounds(&self, of: &Limited) -> Bounds {
        self.set.get(of).or_else(|| self.declared.get(of)).copied().unwrap_or_default()
    }

    fn gates(&self, job: &JobRow) -> impl Iterator<Item = Gate> {
        let all = [Limited::Queue(job.queue.clone()), Limited::JobType(job.job_type.clone())].map(|of| {
            let Bounds { concurrency, rate, .. } = self.bounds(&of);
            Gate { whose: Whose::All(of), concurrency, rate }
        });
        all.into_iter().chain(self.gate_of_key(job))
    }

    fn gate_of_key(&self, job: &JobRow) -> Option<Gate> {
        let bounds = self.bounds(&Limited::JobType(job.job_type.clone())).of_key();
        let whose = Whose::Key(job.job_type.clone(), job.concurrency_key.clone()?);
        Some(Gate { whose, concurrency: bounds.concurrency, rate: bounds.rate })
    }

    /// Whether this job's end may let another one start.
    pub(super) fn count(&self, job: &JobRow) -> bool {
        job.concurrency_key.is_some() || self.gates(job).any(|gate| gate.concurrency.is_some())
    }

    pub(super) fn tally<'a>(&self, jobs: impl Iterator<Item = &'a JobRow>) -> Tally {
        let mut tally = Tally(HashMap::new());
        if !self.set.is_empty() || !self.declared.is_empty() {
            jobs.filter(|job| job.state == JobState::Running).for_each(|job| self.add(job, &mut tally));
        }
        tally
    }

    fn add(&self, job: &JobRow, tally: &mut Tally) {
        for gate in self.gates(job) {
            *tally.0.entry(gate.whose).or_default() += 1;
        }
    }

    /// Whether this job may start now.
    pub(super) fn admit(&self, job: &JobRow, tally: &Tally, now: Millis) -> bool {
        self.gates(job).all(|gate| self.slots(&gate, tally) > 0 && self.tokens(&gate, now) > 0)
    }

    /// It starts.
    pub(super) fn start(&mut self, job: &JobRow, tally: &mut Tally, now: Millis) {
        self.add(job, tally);
        let gates: Vec<_> = self.gates(job).collect();
        for Gate { whose, rate, .. } in gates {
            if let Some(rate) = rate {
                let bucket = self.buckets.entry(whose).or_insert(Bucket::FULL);
                *bucket = bucket.righted(rate, now).after(1, rate, now);
            }
        }
    }

    fn slots(&self, gate: &Gate, tally: &Tally) -> usize {
        let running = tally.0.get(&gate.whose).copied().unwrap_or_default();
        gate.concurrency.map_or(usize::MAX, |most| (most as usize).saturating_sub(running))
    }

    fn bucket(&self, gate: &Gate, rate: Rate, now: Millis) -> Bucket {
        self.buckets.get(&gate.whose).copied().unwrap_or(Bucket::FULL).righted(rate, now)
    }

    fn tokens(&self, gate: &Gate, now: Millis) -> usize {
        gate.rate.map_or(usize::MAX, |rate| self.bucket(gate, rate, now).tokens(rate, now))
    }

    fn next_at(&self, gate: &Gate, now: Millis) -> Option<Millis> {
        let rate = gate.rate?;
        self.bucket(gate, rate, now).next_at(rate, now)
    }

    /// A clock that was set back does not stop the tokens.
    pub(super) fn right(&mut self, now: Millis) {
        let rate = |limits: &Self, whose: &Whose| match whose {
            Whose::All(of) => limits.bounds(of).rate,
            Whose::Key(job_type, _) => limits.bounds(&Limited::JobType(job_type.clone())).rate_per_key,
        };
        let whose: Vec<_> = self.buckets.keys().cloned().collect();
        for whose in whose {
            if let Some(rate) = rate(self, &whose) {
                self.buckets.entry(whose).and_modify(|bucket| *bucket = bucket.righted(rate, now));
            }
        }
    }

    /// When a rate next lets a pending job start that it keeps waiting now.
    pub(super) fn next_start_at(&self, jobs: &BTreeMap<i64, JobRow>, now: Millis) -> Option<Millis> {
        let tally = self.tally(jobs.values());
        let pending = || jobs.values().filter(|job| job.state == JobState::Pending);
        let key_is_open = |job: &&JobRow| {
            let gate = self.gate_of_key(job);
            gate.is_none_or(|gate| self.slots(&gate, &tally) > 0 && self.tokens(&gate, now) > 0)
        };
        let all = pending().filter(key_is_open).flat_map(|job| self.gates(job));
        let all = all.filter(|gate| matches!(gate.whose, Whose::All(_)) && self.tokens(gate, now) == 0);
        // Of a key, so many as may start now may be claimed in each queue; the others wait.
        let mut waiting = HashMap::<_, usize>::new();
        for job in pending() {
            if let Some(gate) = self.gate_of_key(job) {
                *waiting.entry((job.queue.clone(), gate.whose)).or_default() += 1;
            }
        }
        let keys = pending().filter_map(|job| Some((&job.queue, self.gate_of_key(job)?)));
        let keys = keys.filter_map(|(queue, gate)| {
            let tokens = self.tokens(&gate, now);
            let waits = waiting[&(queue.clone(), gate.whose.clone())] > tokens;
            (waits && tokens < self.slots(&gate, &tally)).then_some(gate)
        });
        all.chain(keys).filter_map(|gate| self.next_at(&gate, now)).min()
    }

    pub(super) fn rows(&self, jobs: &BTreeMap<i64, JobRow>, now: Millis) -> Vec<LimitRow> {
        let tally = self.tally(jobs.values());
        let named: BTreeSet<&Limited> = self.set.keys().chain(self.declared.keys()).collect();
        let row = |of: &Limited| {
            let bounds = self.bounds(of);
            let gate = Gate { whose: Whose::All(of.clone()), concurrency: None, rate: bounds.rate };
            LimitRow {
                of: of.clone(),
                bounds,
                set: self.set.get(of).copied(),
                declared: self.declared.get(of).copied(),
                running: tally.0.get(&gate.whose).copied().unwrap_or_default() as u64,
                next_start_at: self.next_at(&gate, now).filter(|_| self.tokens(&gate, now) == 0),
            }
        };
        named.into_iter().map(row).collect()
    }
}
