//! How many jobs run at once, and how often jobs start: limits, rates and their token buckets; pure.

use crate::time::{Millis, millis};
use serde::{Serialize, Serializer};
use std::{fmt, time::Duration};

/// The most starts that a rate may have, and the longest time that it may be for: sums of both stay exact.
const MOST_STARTS: u32 = 1_000_000;
const LONGEST: Duration = Duration::from_secs(366 * 86_400);

/// How often jobs start: so many in so long a time, as a token bucket.
///
/// The bucket holds `starts` tokens and begins full. A start takes one; they come back one by one, evenly over the time.
/// So after a rest up to `starts` jobs start at once, and in any stretch of time at most `starts` and what comes back
/// within it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    /// How many, 1 to 1,000,000.
    pub starts: u32,
    /// In how long a time: 1 ms to 366 days.
    pub per: Duration,
}

impl Rate {
    /// So many starts in so long a time: `Rate::new(100, mins(1))`.
    pub const fn new(starts: u32, per: Duration) -> Self {
        Self { starts, per }
    }

    fn check(self) -> Result<(), String> {
        let Self { starts, per } = self;
        if starts == 0 {
            return Err("a rate of 0 starts would stop the jobs for good; pause them instead".into());
        }
        if starts > MOST_STARTS {
            return Err(format!("a rate of {starts} starts; at most {MOST_STARTS} can be counted"));
        }
        if !(Duration::from_millis(1)..=LONGEST).contains(&per) {
            return Err(format!("a rate for a time of {per:?}; it is at least 1 ms and at most 366 days"));
        }
        Ok(())
    }

    fn count(self) -> i128 {
        self.starts.into()
    }

    /// How long an empty bucket waits for a token at most, in milliseconds.
    pub(crate) fn step(self) -> Millis {
        ((self.period() + self.count() - 1) / self.count()) as Millis
    }

    /// Whole milliseconds.
    fn period(self) -> i128 {
        i128::from(millis(self.per)).max(1)
    }
}

/// As the attribute has it: `100/1m`.
impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const UNITS: [(u128, &str); 4] = [(86_400_000, "d"), (3_600_000, "h"), (60_000, "m"), (1000, "s")];
        let per = self.per.as_millis();
        let unit = UNITS.iter().find(|(unit, _)| per >= *unit && per.is_multiple_of(*unit));
        let (unit, name) = unit.unwrap_or(&(1, "ms"));
        write!(f, "{}/{}{name}", self.starts, per / unit)
    }
}

impl Serialize for Rate {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

/// What a limit is of.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case", tag = "kind", content = "name")]
pub enum Limited {
    /// The jobs of this queue, whatever their type.
    Queue(String),
    /// The jobs of this stored name, whatever their queue.
    JobType(String),
}

impl Limited {
    /// The name of the queue or of the job type.
    pub fn name(&self) -> &str {
        match self {
            Self::Queue(name) | Self::JobType(name) => name,
        }
    }
}

impl fmt::Display for Limited {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Queue(name) => write!(f, "queue {name}"),
            Self::JobType(name) => write!(f, "job type {name}"),
        }
    }
}

/// The numbers of a limit; `None`: no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Bounds {
    /// Jobs that run at once.
    pub concurrency: Option<u32>,
    /// The same for each concurrency key of a job type.
    pub concurrency_per_key: Option<u32>,
    /// Starts.
    pub rate: Option<Rate>,
    /// Starts for each concurrency key of a job type.
    pub rate_per_key: Option<Rate>,
}

impl Bounds {
    /// No limit.
    pub const NONE: Self =
        Self { concurrency: None, concurrency_per_key: None, rate: None, rate_per_key: None };

    /// What holds for each key.
    pub(crate) fn of_key(&self) -> KeyBounds {
        KeyBounds { concurrency: self.concurrency_per_key, rate: self.rate_per_key }
    }

    /// Whether they can be those of a limit, and what is wrong where not.
    pub(crate) fn check(&self, of: &Limited) -> Result<(), String> {
        if self.concurrency == Some(0) || self.concurrency_per_key == Some(0) {
            return Err("a limit of 0 jobs would stop the jobs for good; pause them instead".into());
        }
        if matches!(of, Limited::Queue(_)) && self.of_key().is_some() {
            return Err(
                "keys are those of a job type; limit the job type for each key, or the queue as a whole"
                    .into(),
            );
        }
        [self.rate, self.rate_per_key].into_iter().flatten().try_for_each(Rate::check)
    }
}

/// What holds for each key of a job type.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct KeyBounds {
    pub(crate) concurrency: Option<u32>,
    pub(crate) rate: Option<Rate>,
}

impl KeyBounds {
    pub(crate) fn is_some(&self) -> bool {
        self.concurrency.is_some() || self.rate.is_some()
    }
}

/// A limit on the jobs of a queue or of a job type: how many run at once, and how often one starts.
///
/// ```
/// # use jobq::{limit::{Limit, Rate}, prelude::*};
/// Limit::queue("mail").concurrency(4).rate(Rate::new(100, mins(1)));
/// Limit::job_type("report:generate").concurrency(10).concurrency_per_key(2);
/// Limit::queue("mail"); // none, whatever else would hold
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Limit {
    /// What is limited.
    #[serde(flatten)]
    pub of: Limited,
    /// How.
    #[serde(flatten)]
    pub bounds: Bounds,
}

impl Limit {
    /// On the jobs of a queue, whatever their type.
    pub fn queue(name: impl Into<String>) -> Self {
        Self { of: Limited::Queue(name.into()), bounds: Bounds::NONE }
    }

    /// On the jobs of a stored name, whatever their queue.
    pub fn job_type(name: impl Into<String>) -> Self {
        Self { of: Limited::JobType(name.into()), bounds: Bounds::NONE }
    }

    /// So many run at once, over all processes; at least 1.
    pub fn concurrency(mut self, jobs: u32) -> Self {
        self.bounds.concurrency = Some(jobs);
        self
    }

    /// So many of each concurrency key run at once; at least 1. Job types only.
    pub fn concurrency_per_key(mut self, jobs: u32) -> Self {
        self.bounds.concurrency_per_key = Some(jobs);
        self
    }

    /// Jobs start at most this often.
    pub fn rate(mut self, rate: Rate) -> Self {
        self.bounds.rate = Some(rate);
        self
    }

    /// Jobs of each concurrency key start at most this often. Job types only.
    pub fn rate_per_key(mut self, rate: Rate) -> Self {
        self.bounds.rate_per_key = Some(rate);
        self
    }
}

impl From<Limit> for Limited {
    fn from(limit: Limit) -> Self {
        limit.of
    }
}

/// A token bucket, told by the instant at which it will be full: nothing is counted up, so nothing drifts, and one that
/// is full needs no row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Bucket {
    /// When it is full, in milliseconds times `parts`.
    pub(crate) full_at: i64,
    /// The starts of the rate that it was last used with: a token comes back every `per / parts`.
    pub(crate) parts: i64,
}

impl Bucket {
    pub(crate) const FULL: Self = Self { full_at: 0, parts: 1 };

    /// How long until it is full, in milliseconds times the rate's starts.
    fn missing(self, rate: Rate, now: Millis) -> i128 {
        let (count, now) = (rate.count(), i128::from(now));
        let full_at = i128::from(self.full_at) * count / i128::from(self.parts.max(1));
        (full_at - now * count).clamp(0, count * rate.period())
    }

    /// The same bucket where the clock was set back so far that more is missing than it holds: empty, from now on. It is
    /// to be kept so, or tokens would come back only when the clock is where it was.
    pub(crate) fn righted(self, rate: Rate, now: Millis) -> Self {
        let latest = (i128::from(now) + rate.period()) * i128::from(self.parts.max(1));
        if i128::from(self.full_at) > latest {
            Self::FULL.after(rate.starts as usize, rate, now)
        } else {
            self
        }
    }

    /// The tokens in it.
    pub(crate) fn tokens(self, rate: Rate, now: Millis) -> usize {
        let (count, period) = (rate.count(), rate.period());
        ((count * period - self.missing(rate, now)) / period) as usize
    }

    /// The same bucket after so many starts more.
    pub(crate) fn after(self, starts: usize, rate: Rate, now: Millis) -> Self {
        if starts == 0 {
            return self;
        }
        let (count, period) = (rate.count(), rate.period());
        let full_at = i128::from(now) * count + self.missing(rate, now) + starts as i128 * period;
        Self { full_at: i64::try_from(full_at).unwrap_or(i64::MAX), parts: rate.starts.into() }
    }

    /// When there will be one token more than now; `None`: it is full.
    pub(crate) fn next_at(self, rate: Rate, now: Millis) -> Option<Millis> {
        let (count, period) = (rate.count(), rate.period());
        let missing = self.missing(rate, now);
        let one_more = self.tokens(rate, now) as i128 + 1;
        let wait = missing - (count - one_more) * period;
        (one_more <= count).then(|| now.saturating_add(((wait + count - 1) / count) as i64))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RATES: [Rate; 6] = [
        Rate::new(1, Duration::from_millis(1)),
        Rate::new(7, Duration::from_secs(1)),
        Rate::new(100, Duration::from_secs(60)),
        Rate::new(3, Duration::from_millis(10)),
        Rate::new(MOST_STARTS, Duration::from_secs(1)),
        Rate::new(1, LONGEST),
    ];

    /// Starts whatever may start, at random instants.
    fn starts(rate: Rate, seed: u64, longest: i64) -> Vec<(Millis, usize)> {
        let mut random = fastrand::Rng::with_seed(seed);
        let (mut now, mut bucket) = (1_767_225_600_000, Bucket::FULL);
        let mut started = Vec::new();
        for _ in 0..300 {
            now += random.i64(0..=longest);
            let there = bucket.tokens(rate, now);
            let taken = if random.bool() { there } else { random.usize(0..=there) };
            bucket = bucket.after(taken, rate, now);
            started.push((now, taken));
        }
        started
    }

    #[test]
    fn no_stretch_of_time_has_more_starts_than_the_bucket_and_what_comes_back() {
        for rate in RATES {
            let period = rate.period() as i64;
            for (seed, longest) in
                [0, 1, period / rate.starts as i64, period, 3 * period].into_iter().enumerate()
            {
                let started = starts(rate, seed as u64, longest);
                for (first, &(from, _)) in started.iter().enumerate() {
                    let mut sum = 0;
                    for &(to, taken) in &started[first..] {
                        sum += taken as i128;
                        let back = i128::from(to - from) * rate.count() / rate.period();
                        assert!(sum <= rate.count() + back, "{rate}: {sum} from {from} to {to}");
                    }
                }
            }
        }
    }

    #[test]
    fn the_next_token_is_there_when_it_is_said_to_be_and_not_before() {
        let mut random = fastrand::Rng::with_seed(7);
        for rate in RATES {
            let (mut now, mut bucket) = (1_767_225_600_000, Bucket::FULL);
            assert_eq!(bucket.next_at(rate, now), None);
            for _ in 0..200 {
                bucket = bucket.after(bucket.tokens(rate, now).min(random.usize(1..4)), rate, now);
                let Some(next) = bucket.next_at(rate, now) else { continue };
                let there = bucket.tokens(rate, now);
                assert!(
                    bucket.tokens(rate, next) > there && bucket.tokens(rate, next - 1) == there,
                    "{rate}"
                );
                now = next;
            }
        }
    }

    /// Flat out for long, exactly as many start as come back: not one in a million is lost to rounding.
    #[test]
    fn nothing_drifts() {
        for rate in RATES {
            let (begin, mut bucket, mut started) = (1_767_225_600_000, Bucket::FULL, 0);
            let mut now = begin;
            while started < 100_000 {
                let there = bucket.tokens(rate, now);
                (bucket, started) = (bucket.after(there, rate, now), started + there);
                now = bucket.next_at(rate, now).expect("it is empty");
            }
            let back = i128::from(now - begin) * rate.count() / rate.period();
            assert_eq!(started as i128 + bucket.tokens(rate, now) as i128, rate.count() + back, "{rate}");
        }
    }

    #[test]
    fn a_clock_that_was_set_back_costs_one_token_at_most_and_one_set_forward_gives_one_bucket() {
        for rate in RATES {
            let now = 1_767_225_600_000;
            let empty = Bucket::FULL.after(rate.starts as usize, rate, now);
            assert_eq!(empty.righted(rate, now), empty);
            for back in [1, 1000, 86_400_000, now] {
                let then = now - back;
                let next = empty.righted(rate, then).next_at(rate, then).expect("it is empty");
                assert!(next - then <= rate.step(), "{rate} {back}");
                assert_eq!(empty.righted(rate, then).tokens(rate, next).min(1), 1, "{rate} {back}");
            }
            assert_eq!(empty.tokens(rate, now * 2), rate.starts as usize);
        }
    }

    #[test]
    fn a_bucket_keeps_what_is_missing_when_the_rate_changes() {
        let (now, slow, fast) = (
            1_767_225_600_000,
            Rate::new(10, Duration::from_secs(60)),
            Rate::new(600, Duration::from_secs(60)),
        );
        let empty = Bucket::FULL.after(10, slow, now);
        assert_eq!((empty.tokens(slow, now), empty.tokens(fast, now)), (0, 0));
        assert_eq!(empty.tokens(fast, now + 30_000), 300);
        assert_eq!(empty.tokens(Rate::new(10, Duration::from_secs(6)), now), 0);
    }

    #[test]
    fn rates_are_shown_as_the_attribute_has_them() {
        let shown = |starts, millis| Rate::new(starts, Duration::from_millis(millis)).to_string();
        assert_eq!(shown(100, 60_000), "100/1m");
        assert_eq!(shown(5, 90_000), "5/90s");
        assert_eq!(shown(1, 250), "1/250ms");
        assert_eq!(shown(2, 172_800_000), "2/2d");
    }

    #[test]
    fn what_can_be_no_limit_is_told() {
        let (queue, job_type) = (Limited::Queue("a".into()), Limited::JobType("a".into()));
        let rate = |starts, per| Bounds { rate: Some(Rate::new(starts, per)), ..Bounds::NONE };
        let per_key = Bounds { concurrency_per_key: Some(1), ..Bounds::NONE };
        for (bounds, of) in [
            (Bounds { concurrency: Some(0), ..Bounds::NONE }, &queue),
            (Bounds { concurrency_per_key: Some(0), ..Bounds::NONE }, &job_type),
            (per_key, &queue),
            (rate(0, Duration::from_secs(1)), &queue),
            (rate(MOST_STARTS + 1, Duration::from_secs(1)), &queue),
            (rate(1, Duration::ZERO), &queue),
            (rate(1, LONGEST * 2), &queue),
        ] {
            assert!(bounds.check(of).is_err(), "{bounds:?}");
        }
        assert!(per_key.check(&job_type).is_ok() && Bounds::NONE.check(&queue).is_ok());
    }
}
