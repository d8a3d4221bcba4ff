//! The attempts of a job, and that they stay bounded.

use super::{ground::*, on_every_store};
use jobq::{
    job::{Attempt, AttemptOutcome, NewJob},
    state::JobState,
    store::{Failure, Next},
};

on_every_store![
    each_attempt_is_kept_with_its_start_end_and_reason,
    a_running_attempt_is_shown,
    a_completed_attempt_stays_after_a_retry,
    an_attempt_number_starts_anew_after_a_retry_and_the_lease_does_not,
    every_outcome_is_read_back,
    a_long_history_keeps_its_first_and_latest_attempts,
    a_long_history_stays_bounded_through_retries,
    thousands_of_snoozes_leave_the_row_small,
];

async fn each_attempt_is_kept_with_its_start_end_and_reason(g: &Ground) {
    let id = g.enqueue(NewJob { max_attempts: 9, ..work() }, NOW).await;
    for lease in 1..=5 {
        let (start, end) = (NOW + 100 * lease, NOW + 100 * lease + 50);
        g.claim_this(id, start).await;
        match lease {
            1 => g.fail(id, lease, Next::At(end), end).await,
            2 => g.snooze(id, lease, end, end).await,
            3 => g.release(id, lease, end).await,
            4 => g.rescue(id, lease, Next::At(end), end).await,
            _ => g.complete(id, lease, end).await,
        };
    }
    let attempt = |lease: i64, attempt, outcome, error: Option<&str>| Attempt {
        lease,
        attempt,
        worker: Some(g.worker),
        started_at: NOW + 100 * lease,
        ended_at: Some(NOW + 100 * lease + 50),
        outcome,
        error: error.map(str::to_owned),
        late: None,
    };
    let expected = [
        attempt(1, 1, AttemptOutcome::Failed, Some("no such host")),
        attempt(2, 2, AttemptOutcome::Snoozed, None),
        attempt(3, 2, AttemptOutcome::Released, None),
        attempt(4, 2, AttemptOutcome::Lost, Some("the worker was lost")),
        attempt(5, 3, AttemptOutcome::Completed, None),
    ];
    assert_eq!(g.attempts(id).await, expected);
}

async fn a_running_attempt_is_shown(g: &Ground) {
    let id = g.pending().await;
    assert_eq!(g.attempts(id).await, []);
    g.claim_this(id, NOW + 5).await;
    let attempts = g.attempts(id).await;
    assert_eq!(attempts.len(), 1);
    let running = &attempts[0];
    assert_eq!((running.lease, running.attempt, running.worker), (1, 1, Some(g.worker)));
    assert_eq!((running.started_at, running.ended_at), (NOW + 5, None));
    assert_eq!(running.outcome, AttemptOutcome::Running);
}

async fn a_completed_attempt_stays_after_a_retry(g: &Ground) {
    let (id, _) = g.job_in(JobState::Completed, work()).await;
    let before = g.attempts(id).await;
    assert_eq!((before.len(), before[0].outcome), (1, AttemptOutcome::Completed));
    g.retry(id, NOW + 5).await;
    assert_eq!(g.attempts(id).await, before);
    g.claim_this(id, NOW + 6).await;
    assert_eq!(g.attempts(id).await[..1], before);
}

async fn an_attempt_number_starts_anew_after_a_retry_and_the_lease_does_not(g: &Ground) {
    let (id, _) = g.job_in(JobState::Dead, work()).await;
    g.retry(id, NOW + 5).await;
    let job = g.claim_this(id, NOW + 6).await;
    g.fail(id, job.lease, Next::Dead, NOW + 7).await;
    let attempts = g.attempts(id).await;
    let numbers: Vec<_> = attempts.iter().map(|attempt| (attempt.lease, attempt.attempt)).collect();
    assert_eq!(numbers, [(1, 1), (2, 1)]);
}

async fn every_outcome_is_read_back(g: &Ground) {
    let id = g.enqueue(NewJob { max_attempts: 99, ..work() }, NOW).await;
    for (n, outcome) in AttemptOutcome::ALL.into_iter().filter(|outcome| outcome.counts()).enumerate() {
        if matches!(outcome, AttemptOutcome::Running | AttemptOutcome::Completed) {
            continue;
        }
        let now = NOW + n as i64;
        let job = g.claim_this(id, now).await;
        let ended = Failure { outcome, ..failure(id, job.lease, Next::At(now)) };
        g.store.fail(vec![ended], now).await.unwrap();
        assert_eq!(g.attempts(id).await.last().unwrap().outcome, outcome);
    }
}

/// Starts and ends the job once, in a way that depends on the lease.
async fn once(g: &Ground, id: jobq::job::JobId, now: i64) -> i64 {
    let job = g.claim_this(id, now).await;
    match job.lease % 3 {
        0 => g.snooze(id, job.lease, now, now).await,
        1 => g.release(id, job.lease, now).await,
        _ => g.fail(id, job.lease, Next::At(now), now).await,
    };
    job.lease
}

fn leases(attempts: &[Attempt]) -> Vec<i64> {
    attempts.iter().map(|attempt| attempt.lease).collect()
}

/// Case 116: the first ten and the latest ninety stay.
async fn a_long_history_keeps_its_first_and_latest_attempts(g: &Ground) {
    let id = g.enqueue(NewJob { max_attempts: 1000, ..work() }, NOW).await;
    let other = g.enqueue(in_queue("other"), FAR).await;
    for round in 1..=130 {
        let lease = once(g, id, NOW + round).await;
        let kept: Vec<_> = (1..=lease).filter(|kept| *kept <= 10 || *kept > lease - 90).collect();
        assert_eq!(leases(&g.attempts(id).await), kept);
    }
    assert_eq!(g.attempts(other).await, []);
}

async fn a_long_history_stays_bounded_through_retries(g: &Ground) {
    let id = g.pending().await;
    for round in 1..=130 {
        let job = g.claim_this(id, NOW + round).await;
        g.complete(id, job.lease, NOW + round).await;
        g.retry(id, NOW + round).await;
    }
    let kept: Vec<_> = (1..=10).chain(41..=130).collect();
    assert_eq!(leases(&g.attempts(id).await), kept);
}

/// Case 033, with 2,000 snoozes for its 70,000.
async fn thousands_of_snoozes_leave_the_row_small(g: &Ground) {
    let id = g.pending().await;
    let before = g.row(id).await;
    for round in 1..=2000 {
        let job = g.claim_this(id, NOW + round).await;
        assert_eq!((job.attempt, job.max_attempts), (1, 3));
        g.snooze(id, job.lease, NOW + round, NOW + round).await;
    }
    let row = g.row(id).await;
    assert_eq!((row.attempts, row.max_attempts, row.lease), (0, before.max_attempts, 2000));
    assert_eq!((row.payload, row.error, row.result), (before.payload, None, None));
    assert_eq!(g.attempts(id).await.len(), 100);
}
