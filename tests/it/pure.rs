//! The pure rooms: states and their words, waits between attempts, errors, clocks, and what a row derives.

use crate::Ids;
use jobq::{
    JobError,
    job::{AttemptOutcome, ErrorClass, JobRow, NewJob},
    retry::Backoff,
    state::{Edge, JobState},
    store::{Store, memory::MemoryStore},
    time::{Clock, ManualClock, SystemClock, days, hours, mins, secs},
};
use proptest::prelude::*;
use std::{
    collections::{BTreeMap, HashSet},
    pin::pin,
    task::{Context, Poll, Waker},
    time::Duration,
};

// ---- states -----------------------------------------------------------------------------------

#[test]
fn every_state_is_left_by_the_edges_of_the_design_and_no_other() {
    let table = [
        (JobState::Scheduled, vec![Edge::Promote, Edge::Cancel, Edge::RunNow]),
        (JobState::Pending, vec![Edge::Claim, Edge::Cancel]),
        (
            JobState::Running,
            vec![Edge::Complete, Edge::Fail, Edge::Snooze, Edge::Release, Edge::Rescue, Edge::Cancel],
        ),
        (JobState::Completed, vec![Edge::Retry, Edge::Delete]),
        (JobState::Dead, vec![Edge::Retry, Edge::Delete]),
        (JobState::Cancelled, vec![Edge::Retry, Edge::Delete]),
    ];
    let edges = [
        Edge::Promote,
        Edge::Claim,
        Edge::Complete,
        Edge::Fail,
        Edge::Snooze,
        Edge::Release,
        Edge::Rescue,
        Edge::Cancel,
        Edge::Retry,
        Edge::RunNow,
        Edge::Delete,
    ];
    for (state, leaving) in table {
        for edge in edges {
            assert_eq!(state.allows(edge), leaving.contains(&edge), "{edge:?} of a {state} job");
        }
        let by_people_only = leaving.iter().all(|edge| matches!(edge, Edge::Retry | Edge::Delete));
        assert_eq!(state.is_terminal(), by_people_only, "{state}");
    }
}

/// The numbers are in people's databases: they never change.
#[test]
fn state_numbers_and_words_stay_as_they_are() {
    let words = ["scheduled", "pending", "running", "completed", "dead", "cancelled"];
    for (code, word) in words.into_iter().enumerate() {
        let state = JobState::from_code(code as i64).unwrap();
        assert_eq!((state.code(), state.as_str(), state.to_string()), (code as i64, word, word.into()));
        assert_eq!(word.parse(), Ok(state));
        assert_eq!(serde_json::to_value(state).unwrap(), word);
        assert_eq!(serde_json::from_value::<JobState>(word.into()).unwrap(), state);
    }
    for unknown in [-1, 6, i64::MIN, i64::MAX] {
        assert_eq!(JobState::from_code(unknown), None);
    }
    for unknown in ["", "Pending", "pending ", "done"] {
        let refused = unknown.parse::<JobState>().unwrap_err().to_string();
        assert!(refused.contains("scheduled, pending, running"), "{refused} names the known words");
    }
}

#[test]
fn outcome_numbers_stay_as_they_are() {
    let words = [
        "running",
        "completed",
        "failed",
        "timed out",
        "panicked",
        "undecodable",
        "worker lost",
        "released",
        "snoozed",
        "cancelled",
    ];
    for (code, word) in words.into_iter().enumerate() {
        let outcome = AttemptOutcome::from_code(code as i64).unwrap();
        assert_eq!((outcome.code(), outcome.as_str()), (code as i64, word));
        assert_eq!(outcome.counts(), !["released", "snoozed"].contains(&word), "{word}");
    }
    assert_eq!(AttemptOutcome::ALL.len(), words.len());
    for unknown in [-1, 10, i64::MIN, i64::MAX] {
        assert_eq!(AttemptOutcome::from_code(unknown), None);
    }
}

// ---- backoff ----------------------------------------------------------------------------------

fn millis(duration: Duration) -> u128 {
    duration.as_millis()
}

#[test]
fn the_default_waits_ten_seconds_and_doubles_within_fifteen_percent() {
    for (attempt, wait) in (1..=8).zip([10_000, 20_000, 40_000, 80_000, 160_000, 320_000, 640_000, 1_280_000])
    {
        assert_eq!(millis(Backoff::DEFAULT.delay(attempt, 0.5)), wait, "attempt {attempt}");
        assert_eq!(millis(Backoff::DEFAULT.delay(attempt, 0.0)), wait * 85 / 100, "attempt {attempt}");
        assert_eq!(millis(Backoff::DEFAULT.delay(attempt, 1.0)), wait * 115 / 100, "attempt {attempt}");
    }
}

#[test]
fn the_default_is_capped_at_an_hour_after_the_jitter() {
    for attempt in 10..200 {
        assert_eq!(Backoff::DEFAULT.delay(attempt, 1.0), hours(1), "attempt {attempt}");
        assert_eq!(Backoff::DEFAULT.delay(attempt, 0.5), hours(1), "attempt {attempt}");
        assert_eq!(Backoff::DEFAULT.delay(attempt, 0.0), mins(51), "the cap keeps a spread below it");
    }
}

/// `min(1000 · 2^attempts, 60000)` ms.
#[test]
fn doubling_to_a_minute_is_exact() {
    for attempt in 1..100_u32 {
        let expected = 1000 * 2_u128.pow(attempt.min(20));
        for random in [0.0, 0.3, 1.0] {
            let wait = Backoff::DOUBLING_TO_A_MINUTE.delay(attempt, random);
            assert_eq!(millis(wait), expected.min(60_000), "attempt {attempt}");
        }
    }
}

#[test]
fn a_fixed_wait_is_always_the_same() {
    for attempt in [0, 1, 2, 1000, u32::MAX] {
        assert_eq!(Backoff::fixed(secs(7)).delay(attempt, 0.9), secs(7));
        let spread = Backoff::Fixed { delay: secs(10), jitter: 0.5 };
        assert_eq!(
            [0.0, 0.5, 1.0].map(|random| spread.delay(attempt, random)),
            [secs(5), secs(10), secs(15)]
        );
    }
}

/// Case 027, for the defaults: every attempt up to 100,000 and the last number there is.
#[test]
fn no_attempt_number_overflows() {
    for attempt in (1..=100_000).chain([u32::MAX - 1, u32::MAX]) {
        for random in [0.0, 1.0] {
            let wait = Backoff::DEFAULT.delay(attempt, random);
            assert!(wait >= secs(10).mul_f64(0.85) && wait <= hours(1), "attempt {attempt}: {wait:?}");
        }
    }
}

/// Case 034, on the function that makes the waits.
#[test]
fn ten_thousand_waits_are_spread_over_the_band() {
    let mut random = fastrand::Rng::with_seed(34);
    let mut slots = BTreeMap::<u128, usize>::new();
    for _ in 0..10_000 {
        let wait = Backoff::DEFAULT.delay(1, random.f64());
        assert!(wait >= Duration::from_millis(8500) && wait <= Duration::from_millis(11_500), "{wait:?}");
        *slots.entry(millis(wait) / 100).or_default() += 1;
    }
    let fullest = slots.values().max().unwrap();
    assert!(*fullest <= 500, "{fullest} of 10,000 in one slot of 100 ms");
    assert!(slots.len() >= 29, "{} slots of 30 are used", slots.len());
}

#[test]
fn a_backoff_is_read_back_from_its_json() {
    for backoff in [Backoff::DEFAULT, Backoff::DOUBLING_TO_A_MINUTE, Backoff::fixed(Duration::from_millis(1))]
    {
        let json = serde_json::to_string(&backoff).unwrap();
        assert_eq!(serde_json::from_str::<Backoff>(&json).unwrap(), backoff, "{json}");
    }
}

proptest! {
    /// Case 027, for any settings: never below the least wait, never above the cap, and no panic.
    #[test]
    fn an_exponential_wait_stays_within_its_bounds(
        base in 0_u64..10_000_000,
        factor in 0.0..1000.0,
        max in 0_u64..10_000_000_000,
        jitter in 0.0..=1.0,
        attempt in prop_oneof![1_u32..=100_000, Just(0), Just(u32::MAX)],
        random in 0.0..=1.0,
    ) {
        let (base, max) = (Duration::from_millis(base), Duration::from_millis(max));
        let wait = Backoff::Exponential { base, factor, max, jitter }.delay(attempt, random);
        prop_assert!(wait <= max);
        // Half a microsecond for the arithmetic in floating point.
        let least = base.min(max).mul_f64(1.0 - jitter).saturating_sub(Duration::from_nanos(500));
        prop_assert!(wait >= least, "{wait:?} is below {least:?}");
    }

    #[test]
    fn a_longer_history_never_waits_less(attempt in 1_u32..100_000, random in 0.0..=1.0) {
        let waits = [attempt, attempt + 1].map(|attempt| Backoff::DEFAULT.delay(attempt, random));
        prop_assert!(waits[0] <= waits[1]);
    }

    /// Settings that no one should make: still no panic, and still the cap.
    #[test]
    fn absurd_settings_stay_below_the_cap(
        base in any::<u64>(),
        factor in any::<f64>(),
        max in any::<u64>(),
        jitter in any::<f64>(),
        attempt in any::<u32>(),
        random in any::<f64>(),
    ) {
        let (base, max) = (Duration::from_secs(base), Duration::from_secs(max));
        let grown = Backoff::Exponential { base, factor, max, jitter }.delay(attempt, random);
        prop_assert!(grown <= max);
        let fixed = Backoff::Fixed { delay: base, jitter }.delay(attempt, random);
        prop_assert!(fixed >= Duration::ZERO);
    }
}

#[test]
fn settings_that_are_no_numbers_count_as_unset() {
    let nan = f64::NAN;
    assert_eq!(Backoff::Fixed { delay: secs(7), jitter: nan }.delay(1, 0.9), secs(7));
    let backoff = Backoff::Exponential { base: secs(3), factor: nan, max: hours(1), jitter: nan };
    assert_eq!([1, 2, 99].map(|attempt| backoff.delay(attempt, 0.9)), [secs(3); 3]);
}

#[test]
fn a_base_of_nothing_stays_nothing() {
    let backoff = Backoff::Exponential { base: Duration::ZERO, factor: 2.0, max: hours(1), jitter: 0.0 };
    assert_eq!([1, 64, 2000, u32::MAX].map(|attempt| backoff.delay(attempt, 0.5)), [Duration::ZERO; 4]);
}

// ---- errors -----------------------------------------------------------------------------------

#[derive(Debug, PartialEq)]
struct Caused(Option<Box<Caused>>, &'static str);

impl std::fmt::Display for Caused {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.1)
    }
}

impl std::error::Error for Caused {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0.as_deref().map(|cause| cause as _)
    }
}

#[test]
fn an_error_shows_its_causes() {
    let error = Caused(Some(Box::new(Caused(None, "connection refused"))), "the mail server is away");
    assert_eq!(JobError::from(error).to_string(), "the mail server is away: connection refused");
}

#[test]
fn each_kind_of_error_keeps_its_class_and_source() {
    let error = || Caused(None, "why");
    let kinds = [
        (JobError::from(error()), ErrorClass::Retry),
        (JobError::new(error()), ErrorClass::Retry),
        (JobError::retry_in(secs(3), error()), ErrorClass::RetryIn(secs(3))),
        (JobError::dead(error()), ErrorClass::Dead),
        (JobError::cancel(error()), ErrorClass::Cancel),
    ];
    for (made, class) in kinds {
        assert_eq!((made.class(), made.source().downcast_ref()), (class, Some(&error())));
    }
    assert_eq!(JobError::snooze(mins(1)).class(), ErrorClass::Snooze(mins(1)));
    assert_eq!(JobError::dead("a text is enough").to_string(), "a text is enough");
}

#[test]
fn the_question_mark_makes_an_error_that_is_tried_again() {
    fn fallible() -> Result<(), JobError> {
        "x".parse::<i32>()?;
        Ok(())
    }
    assert_eq!(fallible().unwrap_err().class(), ErrorClass::Retry);
}

// ---- clocks -----------------------------------------------------------------------------------

fn poll<F: Future + ?Sized>(future: std::pin::Pin<&mut F>) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}

#[test]
fn a_manual_clock_moves_only_when_told() {
    let clock = ManualClock::at(1000);
    let (wall, steady) = (clock.now(), clock.steady());
    assert_eq!((clock.now(), clock.steady()), (wall, steady));
    clock.clone().advance(secs(2));
    assert_eq!((clock.now(), clock.steady()), (3000, steady + secs(2)), "clones share one time");
    clock.step_wall(-5000);
    assert_eq!((clock.now(), clock.steady()), (-2000, steady + secs(2)), "no step moves the steady clock");
}

#[test]
fn a_sleep_on_a_manual_clock_ends_at_its_time() {
    let clock = ManualClock::default();
    let mut short = pin!(clock.sleep(secs(5)));
    let mut long = pin!(clock.sleep(secs(6)));
    assert!(poll(short.as_mut()).is_pending() && poll(long.as_mut()).is_pending());
    assert_eq!(clock.sleepers(), 2);
    clock.advance(Duration::from_millis(4999));
    assert!(poll(short.as_mut()).is_pending());
    clock.advance(Duration::from_millis(1));
    assert_eq!(clock.sleepers(), 1, "the short one was woken");
    assert!(poll(short.as_mut()).is_ready() && poll(long.as_mut()).is_pending());
}

#[test]
fn a_dropped_sleep_is_forgotten() {
    let clock = ManualClock::default();
    {
        let mut sleep = pin!(clock.sleep(secs(5)));
        assert!(poll(sleep.as_mut()).is_pending());
        assert_eq!(clock.sleepers(), 1);
    }
    assert_eq!(clock.sleepers(), 0);
}

#[tokio::test]
async fn a_sleep_for_ever_on_the_system_clock_is_no_panic() {
    let mut sleep = pin!(SystemClock.sleep(Duration::MAX));
    assert!(poll(sleep.as_mut()).is_pending());
    SystemClock.sleep(Duration::ZERO).await;
    assert!(SystemClock.now() > 1_767_225_600_000, "the wall clock is past the start of 2026");
}

#[test]
fn durations_are_their_units_and_never_overflow() {
    assert_eq!([secs(60), mins(60), hours(24)], [mins(1), hours(1), days(1)]);
    assert_eq!(days(u64::MAX), secs(u64::MAX));
}

// ---- rows -------------------------------------------------------------------------------------

async fn row() -> JobRow {
    let store = MemoryStore::new();
    let id = store.enqueue(vec![NewJob::new("a", "1")], 1_767_225_600_000).await.unwrap()[0].id;
    store.get(id).await.unwrap().unwrap()
}

#[tokio::test]
async fn progress_is_0_to_100_whatever_a_job_reports() {
    let row = row().await;
    let percent = |state, done, total| {
        JobRow { state, processed_items: done, total_items: total, ..row.clone() }.progress_percent()
    };
    let running = |done, total| percent(JobState::Running, Some(done), Some(total));
    assert_eq!([running(0, 8), running(1, 8), running(8, 8)], [0, 12, 100]);
    assert_eq!([running(9, 8), running(-1, 8), running(5, 0), running(5, -5)], [100, 0, 0, 0]);
    assert_eq!([running(i64::MAX, i64::MAX), running(i64::MAX - 1, i64::MAX)], [100, 99]);
    assert_eq!(percent(JobState::Running, Some(5), None), 0);
    assert_eq!(percent(JobState::Completed, Some(1), Some(8)), 100);
    assert_eq!(percent(JobState::Completed, None, None), 100);
}

#[tokio::test]
async fn retrying_is_failed_before_and_waiting_now() {
    let row = row().await;
    for state in JobState::ALL {
        for attempts in [0, 1] {
            let waits = matches!(state, JobState::Scheduled | JobState::Pending);
            let retrying = JobRow { state, attempts, ..row.clone() }.is_retrying();
            assert_eq!(retrying, waits && attempts > 0, "{state} after {attempts}");
        }
    }
}

#[tokio::test]
async fn a_row_shows_instants_as_rfc_3339() {
    let json = serde_json::to_value(row().await).unwrap();
    assert_eq!(json["created_at"], "2026-01-01T00:00:00Z");
    assert_eq!(json["started_at"], serde_json::Value::Null);
    assert_eq!(json["state"], "pending");
    for run_at in [i64::MIN, -1, i64::MAX] {
        let odd = serde_json::to_value(JobRow { run_at, ..row().await }).expect("no instant is a panic");
        assert!(odd["run_at"].as_str().unwrap().ends_with('Z'), "{odd}");
    }
}

#[tokio::test]
async fn an_id_is_a_uuid_v7_that_sorts_by_time_and_is_read_back() {
    let store = MemoryStore::new();
    let mut ids = Vec::new();
    for step in 0..50 {
        let jobs = vec![NewJob::new("a", "1"); 3];
        ids.extend(store.enqueue(jobs, 1_767_225_600_000 + step * 7).await.unwrap().ids());
    }
    assert!(ids.is_sorted());
    assert_eq!(ids.iter().collect::<HashSet<_>>().len(), 150);
    for id in ids {
        let text = id.to_string();
        assert_eq!((text.parse(), &text[14..15]), (Ok(id), "7"), "{text}");
        assert!("89ab".contains(&text[19..20]), "{text} has the variant of RFC 9562");
        assert_eq!(serde_json::to_value(id).unwrap(), text.as_str());
    }
}
