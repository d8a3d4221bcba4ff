//! The pure step: what happened, and what follows from it.

use jobq::{
    AttemptOutcome, Backoff, JobError, WorkerId,
    executor::{Ending, Terms, Verdict, verdict},
    job::{MAX_ERROR, MAX_RESULT},
    maintenance::Liveness,
    registry::BackoffPolicy,
    secs,
    store::{Life, Next, WorkerRow},
};
use std::time::Duration;

const NOW: i64 = 1_767_225_600_000;

fn terms(attempt: u32) -> Terms {
    Terms { attempt, max_attempts: 10, backoff: None, policy: BackoffPolicy::Unset }
}

/// One ending of every kind that counts as a failed attempt and may be tried again.
fn failures() -> Vec<(AttemptOutcome, Ending)> {
    use AttemptOutcome::*;
    vec![
        (Failed, Ending::Returned(Err(JobError::new("no luck")))),
        (Failed, Ending::Returned(Ok(Some("x".repeat(MAX_RESULT + 1))))),
        (Failed, Ending::NotStarted("no thread".into())),
        (TimedOut, Ending::TimedOut(secs(2))),
        (Panicked, Ending::Panicked("ouch".into())),
        (Undecodable, Ending::Undecodable("missing field".into())),
        (Lost, Ending::Lost("its process is gone".into())),
    ]
}

/// How long after [`NOW`] the next attempt comes.
fn wait(ending: Ending, terms: &Terms, random: f64) -> i64 {
    match verdict(ending, terms, NOW, random) {
        Verdict::Fail { next: Next::At(at), .. } => at - NOW,
        // Sooner than any wait: it is due as it was.
        Verdict::Fail { next: Next::AsBefore, .. } => -1,
        other => panic!("{other:?}"),
    }
}

fn seven(_: u32, _: &JobError) -> Duration {
    secs(7)
}

#[test]
fn every_kind_of_failure_waits_as_the_backoff_that_was_set_says_and_counts() {
    let fixed = Backoff::fixed(secs(7));
    let set = [
        Terms { backoff: Some(fixed), ..terms(3) },
        Terms { policy: BackoffPolicy::Set(fixed), ..terms(3) },
        Terms { policy: BackoffPolicy::Own(seven), ..terms(3) },
    ];
    for terms in &set {
        for (outcome, ending) in failures() {
            match verdict(ending, terms, NOW, 0.9) {
                Verdict::Fail { outcome: found, next, .. } => {
                    assert_eq!((found, next), (outcome, Next::At(NOW + 7000)), "{terms:?}");
                    assert!(found.counts());
                }
                other => panic!("{outcome}: {other:?}"),
            }
        }
    }
}

#[test]
fn the_rows_backoff_goes_before_the_types() {
    let terms =
        Terms { backoff: Some(Backoff::fixed(secs(1))), policy: BackoffPolicy::Own(seven), ..terms(1) };
    assert_eq!(wait(Ending::TimedOut(secs(2)), &terms, 0.5), 1000);
}

#[test]
fn an_own_backoff_is_given_the_attempt_and_the_error() {
    fn by_error(attempt: u32, error: &JobError) -> Duration {
        let slow = error.to_string().contains("429");
        secs(u64::from(attempt) * if slow { 100 } else { 1 })
    }
    let terms = Terms { policy: BackoffPolicy::Own(by_error), ..terms(3) };
    assert_eq!(wait(Ending::Returned(Err(JobError::new("status 429"))), &terms, 0.5), 300_000);
    assert_eq!(wait(Ending::Panicked("no status".into()), &terms, 0.5), 3000);
}

#[test]
fn an_own_backoff_that_panics_is_replaced_by_the_default() {
    fn panics(_: u32, _: &JobError) -> Duration {
        panic!("no idea")
    }
    let terms = Terms { policy: BackoffPolicy::Own(panics), ..terms(1) };
    assert_eq!(wait(Ending::TimedOut(secs(2)), &terms, 0.5), 10_000);
}

#[test]
fn without_a_backoff_the_default_holds_and_a_lost_workers_job_keeps_its_place() {
    for (outcome, ending) in failures() {
        let expected = if outcome == AttemptOutcome::Lost { -1 } else { 40_000 };
        assert_eq!(wait(ending, &terms(3), 0.5), expected, "{outcome}");
    }
}

#[test]
fn the_wait_lies_within_the_jitter_at_both_ends() {
    assert_eq!(wait(Ending::TimedOut(secs(2)), &terms(1), 0.0), 8500);
    assert_eq!(wait(Ending::TimedOut(secs(2)), &terms(1), 1.0), 11_500);
}

#[test]
fn at_its_limit_every_kind_of_failure_is_the_last() {
    for attempt in [10, 11, u32::MAX] {
        for (outcome, ending) in failures() {
            let Verdict::Fail { next, .. } = verdict(ending, &terms(attempt), NOW, 0.5) else {
                panic!("{outcome}")
            };
            assert_eq!(next, Next::Dead, "{outcome} at attempt {attempt} of 10");
        }
    }
}

#[test]
fn what_the_handlers_error_asks_for_is_done() {
    let ends = |error| verdict(Ending::Returned(Err(error)), &terms(1), NOW, 0.5);
    let next = |verdict| match verdict {
        Verdict::Fail { outcome, error, next } => (outcome, error, next),
        other => panic!("{other:?}"),
    };
    let (failed, cancelled) = (AttemptOutcome::Failed, AttemptOutcome::Cancelled);
    assert_eq!(next(ends(JobError::dead("no such user"))), (failed, "no such user".into(), Next::Dead));
    assert_eq!(next(ends(JobError::cancel("withdrawn"))), (cancelled, "withdrawn".into(), Next::Cancelled));
    let in_77 = next(ends(JobError::retry_in(secs(77), "busy")));
    assert_eq!(in_77, (failed, "busy".into(), Next::At(NOW + 77_000)));
    assert_eq!(ends(JobError::snooze(secs(60))), Verdict::Snooze { run_at: NOW + 60_000 });
    let last = verdict(Ending::Returned(Err(JobError::snooze(secs(60)))), &terms(10), NOW, 0.5);
    assert_eq!(last, Verdict::Snooze { run_at: NOW + 60_000 }, "a snooze costs nothing, also at the limit");
    let last = verdict(Ending::Returned(Err(JobError::retry_in(secs(1), "x"))), &terms(10), NOW, 0.5);
    assert_eq!(next(last).2, Next::Dead);
}

#[test]
fn a_stop_gives_the_job_back_and_a_lost_lease_leaves_nothing_to_say() {
    assert_eq!(verdict(Ending::Stopped, &terms(10), NOW, 0.5), Verdict::Release);
    assert_eq!(verdict(Ending::Forgotten, &terms(10), NOW, 0.5), Verdict::Forget);
}

#[test]
fn a_result_within_the_limit_is_kept_whole_and_one_above_it_fails_with_both_numbers() {
    let whole = "x".repeat(MAX_RESULT);
    let kept = verdict(Ending::Returned(Ok(Some(whole.clone()))), &terms(1), NOW, 0.5);
    assert_eq!(kept, Verdict::Complete { result: Some(whole) });
    let Verdict::Fail { error, .. } =
        verdict(Ending::Returned(Ok(Some("x".repeat(MAX_RESULT + 1)))), &terms(1), NOW, 0.5)
    else {
        panic!()
    };
    assert!(error.contains("1048577") && error.contains("1048576"), "{error}");
}

#[test]
fn a_long_error_is_cut_on_a_character_and_says_so() {
    let Verdict::Fail { error, .. } = verdict(Ending::Panicked("ü".repeat(100_000)), &terms(1), NOW, 0.5)
    else {
        panic!()
    };
    assert!(error.len() <= MAX_ERROR && error.starts_with("panicked: üü") && error.ends_with("bytes cut]"));
}

#[test]
fn no_wait_overflows_whatever_is_asked_for() {
    let forever = [Duration::MAX, Duration::from_secs(u64::MAX)];
    for delay in forever {
        let errors = [JobError::retry_in(delay, "x"), JobError::snooze(delay)];
        for error in errors {
            let at = match verdict(Ending::Returned(Err(error)), &terms(1), i64::MAX - 1, 0.5) {
                Verdict::Fail { next: Next::At(at), .. } | Verdict::Snooze { run_at: at } => at,
                other => panic!("{other:?}"),
            };
            assert_eq!(at, i64::MAX);
        }
    }
}

// ---- who is lost -----------------------------------------------------------------------------------------------

const TIMEOUT: Duration = Duration::from_secs(300);
const BEAT: Duration = Duration::from_secs(5);

fn worker(id: i64, beats: i64, life: Life) -> WorkerRow {
    let (host, build, queues) = ("elsewhere".into(), "0.1.0".into(), "all".into());
    let id = WorkerId(id);
    WorkerRow { id, host, pid: 1, build, queues, beats, heartbeat_at: NOW, started_at: NOW, life }
}

/// Looks every second from `from` up to and with `to`, seconds, at workers that do not beat; when and who was lost.
fn watch(liveness: &mut Liveness, (from, to): (u64, u64), workers: &[WorkerRow]) -> Vec<(u64, WorkerId)> {
    let looks = (from..=to).flat_map(|at| {
        let lost = liveness.lost(workers, secs(at));
        lost.into_iter().map(move |id| (at, id))
    });
    looks.collect()
}

#[test]
fn one_whose_process_is_gone_is_lost_at_the_first_look() {
    let mut liveness = Liveness::new(TIMEOUT, BEAT);
    let all = [worker(1, 0, Life::Gone), worker(2, 0, Life::Alive), worker(3, 0, Life::Unknown)];
    assert_eq!(liveness.lost(&all, secs(1)), [WorkerId(1)]);
}

#[test]
fn one_that_the_kernel_knows_is_never_lost_however_long_it_does_not_beat() {
    let mut liveness = Liveness::new(TIMEOUT, BEAT);
    assert_eq!(watch(&mut liveness, (1, 10_000), &[worker(1, 0, Life::Alive)]), []);
}

#[test]
fn one_elsewhere_is_lost_after_the_time_out_without_a_beat_and_not_before() {
    let mut liveness = Liveness::new(TIMEOUT, BEAT);
    let silent = [worker(1, 41, Life::Unknown)];
    assert_eq!(
        watch(&mut liveness, (1000, 1299), &silent),
        [],
        "what was before the first look counts for nothing"
    );
    assert_eq!(watch(&mut liveness, (1300, 1300), &silent), [(1300, WorkerId(1))]);
}

#[test]
fn each_beat_begins_the_time_out_anew() {
    let mut liveness = Liveness::new(TIMEOUT, BEAT);
    for round in 0..10 {
        let at = 1 + round * 299;
        let beating = [worker(1, round as i64, Life::Unknown)];
        assert_eq!(watch(&mut liveness, (at, at + 298), &beating), []);
    }
}

#[test]
fn a_counter_that_goes_back_is_a_sign_of_life_too() {
    let mut liveness = Liveness::new(TIMEOUT, BEAT);
    assert_eq!(watch(&mut liveness, (1, 299), &[worker(1, 9, Life::Unknown)]), []);
    assert_eq!(watch(&mut liveness, (300, 598), &[worker(1, 3, Life::Unknown)]), []);
}

#[test]
fn after_a_gap_in_the_looking_nobody_is_judged_before_there_was_time_for_a_beat() {
    let mut liveness = Liveness::new(TIMEOUT, BEAT);
    let silent = [worker(1, 41, Life::Unknown), worker(2, 7, Life::Unknown)];
    assert_eq!(watch(&mut liveness, (1, 10), &silent), []);
    let found = watch(&mut liveness, (5000, 5009), &silent);
    assert_eq!(found, [], "this process stood still, and so may all others have");
    let found =
        watch(&mut liveness, (5010, 5010), &[worker(1, 41, Life::Unknown), worker(2, 8, Life::Unknown)]);
    assert_eq!(found, [(5010, WorkerId(1))], "the one that has beaten since is alive");
}

#[test]
fn a_gap_does_not_hide_one_whose_process_is_gone() {
    let mut liveness = Liveness::new(TIMEOUT, BEAT);
    liveness.lost(&[worker(1, 0, Life::Alive)], secs(1));
    assert_eq!(liveness.lost(&[worker(1, 0, Life::Gone)], secs(5000)), [WorkerId(1)]);
}
