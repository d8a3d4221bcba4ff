//! Each edge from each state: what it may leave, and the whole row after it.

use super::{ground::*, on_every_store};
use jobq::{
    job::{AttemptOutcome, JobRow, NewJob},
    state::{Edge, JobState},
    store::{Acted, Completion, Failure, Next, Settled},
};
use std::time::Duration;

on_every_store![
    each_edge_leaves_exactly_the_states_it_may,
    an_edge_that_is_refused_leaves_the_row_as_it_was,
    a_job_enqueued_without_a_time_is_pending_now,
    a_job_enqueued_for_later_is_scheduled,
    a_job_enqueued_for_earlier_is_pending_and_keeps_its_time,
    everything_set_at_the_enqueue_is_read_back,
    a_timeout_below_a_millisecond_is_still_a_timeout,
    promote_moves_the_state_alone,
    claim_writes_lease_attempt_worker_and_start,
    what_is_claimed_is_what_the_row_says,
    complete_stores_the_result,
    complete_without_a_result_stores_none,
    complete_takes_the_error_of_earlier_attempts_away,
    fail_with_a_time_that_has_come_is_pending,
    fail_with_a_later_time_is_scheduled,
    fail_without_a_next_time_is_dead,
    a_time_without_an_attempt_left_is_dead,
    fail_taken_back_by_its_handler_is_cancelled,
    snooze_gives_the_attempt_back_and_waits,
    snooze_until_a_time_that_has_come_is_pending,
    release_gives_the_attempt_back_and_keeps_the_place,
    rescue_counts_the_attempt,
    rescue_as_before_keeps_the_place,
    rescue_without_a_next_time_is_dead,
    cancel_ends_the_job,
    retry_begins_anew_and_keeps_lease_and_error,
    retry_of_a_completed_job_forgets_its_result,
    run_now_makes_a_scheduled_job_due,
    delete_leaves_nothing,
    the_creation_time_never_changes,
    an_empty_batch_is_fine,
];

/// The table of the states that each edge leaves, written down a second time on purpose.
const TABLE: [(Edge, &[JobState]); 11] = [
    (Edge::Promote, &[JobState::Scheduled]),
    (Edge::Claim, &[JobState::Pending]),
    (Edge::Complete, &[JobState::Running]),
    (Edge::Fail, &[JobState::Running]),
    (Edge::Snooze, &[JobState::Running]),
    (Edge::Release, &[JobState::Running]),
    (Edge::Rescue, &[JobState::Running]),
    (Edge::Cancel, &[JobState::Scheduled, JobState::Pending, JobState::Running]),
    (Edge::Retry, &[JobState::Completed, JobState::Dead, JobState::Cancelled]),
    (Edge::RunNow, &[JobState::Scheduled]),
    (Edge::Delete, &[JobState::Completed, JobState::Dead, JobState::Cancelled]),
];

/// A job for this state, due at `NOW + 10` where it is to be scheduled.
fn for_state(state: JobState) -> NewJob {
    if state == JobState::Scheduled { due_at(NOW + 10) } else { work() }
}

/// Takes the job out of the way of the next one.
async fn clear(g: &Ground, id: jobq::job::JobId, lease: i64) {
    g.cancel(id, NOW).await;
    g.rescue(id, lease, Next::Dead, NOW).await;
    g.rescue(id, lease + 1, Next::Dead, NOW).await;
    g.delete(id, NOW).await;
    assert_eq!(g.store.get(id).await.unwrap(), None);
}

async fn each_edge_leaves_exactly_the_states_it_may(g: &Ground) {
    for (edge, may_leave) in TABLE {
        for state in JobState::ALL {
            let (id, lease) = g.job_in(state, for_state(state)).await;
            let taken = g.take(edge, id, lease, NOW + 10).await;
            assert_eq!(taken, may_leave.contains(&state), "{edge:?} of a {state} job");
            clear(g, id, lease).await;
        }
    }
}

async fn an_edge_that_is_refused_leaves_the_row_as_it_was(g: &Ground) {
    for (edge, may_leave) in TABLE {
        for state in JobState::ALL.into_iter().filter(|state| !may_leave.contains(state)) {
            let (id, lease) = g.job_in(state, for_state(state)).await;
            let before = g.row(id).await;
            let attempts = g.attempts(id).await.len();
            g.take(edge, id, lease, NOW + 10).await;
            assert_eq!(g.row(id).await, before, "{edge:?} of a {state} job");
            assert_eq!(g.attempts(id).await.len(), attempts, "{edge:?} of a {state} job");
            clear(g, id, lease).await;
        }
    }
}

async fn a_job_enqueued_without_a_time_is_pending_now(g: &Ground) {
    let id = g.enqueue(work(), NOW + 3).await;
    let expected = JobRow {
        flow: None,
        id,
        job_type: WORK.into(),
        queue: "default".into(),
        state: JobState::Pending,
        priority: 0,
        payload: r#"{"n":1}"#.into(),
        version: 1,
        label: None,
        run_at: NOW + 3,
        attempts: 0,
        max_attempts: 3,
        lease: 0,
        worker: None,
        heartbeat_at: None,
        started_at: None,
        completed_at: None,
        cancel_asked_at: None,
        created_at: NOW + 3,
        updated_at: NOW + 3,
        timeout: None,
        backoff: None,
        retain: None,
        unique: None,
        processed_items: None,
        total_items: None,
        result: None,
        error: None,
        concurrency_key: None,
    };
    assert_eq!(g.row(id).await, expected);
    assert_eq!(id.created_at(), NOW + 3);
    assert_eq!(g.attempts(id).await, []);
}

async fn a_job_enqueued_for_later_is_scheduled(g: &Ground) {
    let row = g.row(g.enqueue(due_at(NOW + 1), NOW).await).await;
    assert_eq!((row.state, row.run_at), (JobState::Scheduled, NOW + 1));
}

async fn a_job_enqueued_for_earlier_is_pending_and_keeps_its_time(g: &Ground) {
    for early in [NOW, NOW - 1, NOW - 1_000_000] {
        let row = g.row(g.enqueue(due_at(early), NOW).await).await;
        assert_eq!((row.state, row.run_at), (JobState::Pending, early));
    }
}

/// Case 003: no value may land in another's column.
async fn everything_set_at_the_enqueue_is_read_back(g: &Ground) {
    let backoffs = [
        None,
        Some(jobq::retry::Backoff::DEFAULT),
        Some(jobq::retry::Backoff::fixed(Duration::from_millis(1234))),
    ];
    let timeouts = [None, Some(Duration::from_millis(1501).into()), Some(jobq::job::Timeout::Never)];
    for (n, (backoff, timeout)) in backoffs.into_iter().zip(timeouts).enumerate() {
        let job = NewJob {
            job_type: format!("type {n}").into(),
            queue: format!("queue {n}").into(),
            payload: format!("[{n}]"),
            priority: [i16::MIN, 7, i16::MAX][n],
            run_at: Some(NOW + 3_600_000 + n as i64),
            max_attempts: [1, 25, u32::MAX][n],
            timeout,
            backoff,
            label: Some(format!("label {n}")),
            retain: [None, Some(Duration::ZERO), Some(Duration::from_millis(86_400_001))][n],
            unique: None,
            version: [1, 2, u32::MAX][n],
            concurrency_key: [None, Some(String::new()), Some("a key\tof é".into())][n].clone(),
        };
        let row = g.row(g.enqueue(job.clone(), NOW).await).await;
        let read = NewJob {
            job_type: row.job_type.into(),
            queue: row.queue.into(),
            payload: row.payload,
            priority: row.priority,
            run_at: Some(row.run_at),
            max_attempts: row.max_attempts,
            timeout: row.timeout,
            backoff: row.backoff,
            label: row.label,
            retain: row.retain,
            unique: None,
            version: row.version,
            concurrency_key: row.concurrency_key,
        };
        assert_eq!(format!("{read:?}"), format!("{job:?}"));
    }
}

async fn a_timeout_below_a_millisecond_is_still_a_timeout(g: &Ground) {
    for short in [Duration::from_nanos(1), Duration::from_micros(999)] {
        let job = NewJob { timeout: Some(short.into()), ..work() };
        let timeout = g.row(g.enqueue(job, NOW).await).await.timeout;
        let Some(jobq::job::Timeout::After(stored)) = timeout else { panic!("{short:?} became {timeout:?}") };
        assert!(stored <= Duration::from_millis(1), "{short:?} became {stored:?}");
    }
}

async fn promote_moves_the_state_alone(g: &Ground) {
    let id = g.enqueue(due_at(NOW + 10), NOW).await;
    let before = g.row(id).await;
    assert_eq!(g.store.promote(1000, NOW + 9).await.unwrap(), 0);
    assert_eq!(g.row(id).await, before);
    assert_eq!(g.store.promote(1000, NOW + 10).await.unwrap(), 1);
    let after = JobRow { state: JobState::Pending, updated_at: NOW + 10, ..before };
    assert_eq!(g.row(id).await, after);
}

async fn claim_writes_lease_attempt_worker_and_start(g: &Ground) {
    let id = g.pending().await;
    let before = g.row(id).await;
    g.claim_this(id, NOW + 5).await;
    let row = g.row(id).await;
    let after = JobRow {
        state: JobState::Running,
        lease: 1,
        attempts: 1,
        worker: Some(g.worker),
        heartbeat_at: row.heartbeat_at,
        started_at: Some(NOW + 5),
        updated_at: NOW + 5,
        ..before
    };
    assert_eq!(row, after);
    assert!(row.heartbeat_at.is_some(), "a running job shows its holder's last sign of life");
}

async fn what_is_claimed_is_what_the_row_says(g: &Ground) {
    let job = NewJob {
        priority: -7,
        run_at: Some(NOW - 5),
        max_attempts: 9,
        timeout: Some(Duration::from_secs(4).into()),
        backoff: Some(jobq::retry::Backoff::DOUBLING_TO_A_MINUTE),
        ..in_queue("mail")
    };
    let id = g.enqueue(job, NOW).await;
    let claimed = g.claim_this(id, NOW).await;
    let row = g.row(id).await;
    assert_eq!((claimed.id, claimed.lease, claimed.attempt), (row.id, row.lease, row.attempts));
    assert_eq!(
        (&*claimed.job_type, &*claimed.queue, &*claimed.payload),
        (&*row.job_type, &*row.queue, &*row.payload)
    );
    assert_eq!((claimed.priority, claimed.run_at), (row.priority, row.run_at));
    assert_eq!(
        (claimed.max_attempts, claimed.timeout, claimed.backoff),
        (row.max_attempts, row.timeout, row.backoff)
    );
}

async fn complete_stores_the_result(g: &Ground) {
    let job = g.running().await;
    let before = g.row(job.id).await;
    assert_eq!(g.complete(job.id, 1, NOW + 7).await, Settled::Applied);
    let after = JobRow {
        state: JobState::Completed,
        completed_at: Some(NOW + 7),
        updated_at: NOW + 7,
        heartbeat_at: None,
        result: Some(r#"{"sent":true}"#.into()),
        ..before
    };
    assert_eq!(g.row(job.id).await, after);
    assert_eq!(after.progress_percent(), 100);
}

async fn complete_without_a_result_stores_none(g: &Ground) {
    let job = g.running().await;
    let ended = Completion { id: job.id, lease: 1, result: None, ties: jobq::store::Ties::ALL };
    assert_eq!(g.store.complete(vec![ended], NOW).await.unwrap(), [Settled::Applied]);
    assert_eq!(g.row(job.id).await.result, None);
}

/// The row of a job that ran and failed or was rescued at `NOW + 7`.
async fn after_failing(g: &Ground, before: JobRow, next: Next, error: &str) -> JobRow {
    let (state, run_at, completed_at) = match next {
        Next::At(at) if at <= NOW + 7 => (JobState::Pending, at, None),
        Next::At(at) => (JobState::Scheduled, at, None),
        Next::AsBefore => (JobState::Pending, before.run_at, None),
        Next::Dead => (JobState::Dead, before.run_at, Some(NOW + 7)),
        Next::Cancelled => (JobState::Cancelled, before.run_at, Some(NOW + 7)),
    };
    let error = Some(error.to_owned());
    let after =
        JobRow { state, run_at, completed_at, updated_at: NOW + 7, heartbeat_at: None, error, ..before };
    assert_eq!(g.row(after.id).await, after);
    after
}

async fn failing(g: &Ground, next: Next) {
    let job = g.running().await;
    let before = g.row(job.id).await;
    let ended = Failure { outcome: AttemptOutcome::TimedOut, ..failure(job.id, 1, next) };
    assert_eq!(g.store.fail(vec![ended], NOW + 7).await.unwrap(), [Settled::Applied]);
    let row = after_failing(g, before, next, "no such host").await;
    assert_eq!(row.attempts, 1, "a failed attempt counts");
}

/// What went wrong before is in the history; a job that is done shows no error.
async fn complete_takes_the_error_of_earlier_attempts_away(g: &Ground) {
    let id = g.pending().await;
    let job = g.claim_this(id, NOW).await;
    g.fail(id, job.lease, Next::At(NOW), NOW).await;
    assert_eq!(g.row(id).await.error.as_deref(), Some("no such host"));
    let job = g.claim_this(id, NOW).await;
    g.complete(id, job.lease, NOW).await;
    assert_eq!(g.row(id).await.error, None);
    let history = g.store.attempts(id).await.unwrap();
    assert_eq!(history[0].error.as_deref(), Some("no such host"));
}

async fn fail_with_a_time_that_has_come_is_pending(g: &Ground) {
    failing(g, Next::At(NOW + 7)).await;
}

async fn fail_with_a_later_time_is_scheduled(g: &Ground) {
    failing(g, Next::At(NOW + 8)).await;
}

async fn fail_without_a_next_time_is_dead(g: &Ground) {
    failing(g, Next::Dead).await;
}

/// The limit holds in the store too, whoever miscounts above it; a snooze gives its attempt back and so has one left.
async fn a_time_without_an_attempt_left_is_dead(g: &Ground) {
    let once = || NewJob { max_attempts: 1, ..work() };
    for (rescued, at) in [(false, NOW), (false, NOW + 50), (true, NOW), (true, NOW + 50)] {
        let id = g.enqueue(once(), NOW).await;
        let lease = g.claim_this(id, NOW).await.lease;
        let settled = match rescued {
            true => g.rescue(id, lease, Next::At(at), NOW + 7).await,
            false => g.fail(id, lease, Next::At(at), NOW + 7).await,
        };
        let row = g.row(id).await;
        assert_eq!((settled, row.state, row.run_at), (Settled::Applied, JobState::Dead, NOW));
        assert_eq!(row.completed_at, Some(NOW + 7));
    }
    let id = g.enqueue(once(), NOW).await;
    let lease = g.claim_this(id, NOW).await.lease;
    g.snooze(id, lease, NOW + 50, NOW + 7).await;
    assert_eq!(g.row(id).await.state, JobState::Scheduled);
}

async fn fail_taken_back_by_its_handler_is_cancelled(g: &Ground) {
    failing(g, Next::Cancelled).await;
}

async fn snoozing(g: &Ground, run_at: i64, state: JobState) {
    let job = g.running().await;
    let before = g.row(job.id).await;
    assert_eq!(g.snooze(job.id, 1, run_at, NOW + 7).await, Settled::Applied);
    let after = JobRow { state, run_at, attempts: 0, updated_at: NOW + 7, heartbeat_at: None, ..before };
    assert_eq!(g.row(job.id).await, after);
}

async fn snooze_gives_the_attempt_back_and_waits(g: &Ground) {
    snoozing(g, NOW + 8, JobState::Scheduled).await;
}

async fn snooze_until_a_time_that_has_come_is_pending(g: &Ground) {
    snoozing(g, NOW + 7, JobState::Pending).await;
}

async fn release_gives_the_attempt_back_and_keeps_the_place(g: &Ground) {
    let job = g.running().await;
    let later = g.pending().await;
    let before = g.row(job.id).await;
    assert_eq!(g.release(job.id, 1, NOW + 7).await, Settled::Applied);
    let after =
        JobRow { state: JobState::Pending, attempts: 0, updated_at: NOW + 7, heartbeat_at: None, ..before };
    assert_eq!(g.row(job.id).await, after);
    assert_eq!(ids(&g.claim(2, NOW + 8).await), [job.id, later]);
}

async fn rescuing(g: &Ground, next: Next) {
    let job = g.running().await;
    let before = g.row(job.id).await;
    assert_eq!(g.rescue(job.id, 1, next, NOW + 7).await, Settled::Applied);
    let row = after_failing(g, before, next, "the worker was lost").await;
    assert_eq!(row.attempts, 1, "a lost worker costs an attempt");
}

async fn rescue_counts_the_attempt(g: &Ground) {
    rescuing(g, Next::At(NOW + 7)).await;
    rescuing(g, Next::At(NOW + 8)).await;
}

async fn rescue_as_before_keeps_the_place(g: &Ground) {
    let job = g.running().await;
    let later = g.pending().await;
    let before = g.row(job.id).await;
    assert_eq!(g.rescue(job.id, 1, Next::AsBefore, NOW + 7).await, Settled::Applied);
    after_failing(g, before, Next::AsBefore, "the worker was lost").await;
    assert_eq!(ids(&g.claim(2, NOW + 8).await), [job.id, later]);
}

/// Case 009: a job at its limit is not started again after a stall.
async fn rescue_without_a_next_time_is_dead(g: &Ground) {
    rescuing(g, Next::Dead).await;
    assert_eq!(g.claim(10, FAR).await, []);
}

async fn cancel_ends_the_job(g: &Ground) {
    for job in [work(), due_at(NOW + 10)] {
        let id = g.enqueue(job, NOW).await;
        let before = g.row(id).await;
        assert_eq!(g.cancel(id, NOW + 7).await, Acted::Done);
        let after =
            JobRow { state: JobState::Cancelled, completed_at: Some(NOW + 7), updated_at: NOW + 7, ..before };
        assert_eq!(g.row(id).await, after);
    }
    assert_eq!(g.store.promote(10, NOW + 10).await.unwrap(), 0);
    assert_eq!(g.claim(10, NOW + 10).await, []);
}

async fn retry_begins_anew_and_keeps_lease_and_error(g: &Ground) {
    let (id, _) = g.job_in(JobState::Dead, work()).await;
    let before = g.row(id).await;
    assert_eq!(g.retry(id, NOW + 7).await, Acted::Done);
    let after = JobRow {
        state: JobState::Pending,
        attempts: 0,
        run_at: NOW + 7,
        completed_at: None,
        updated_at: NOW + 7,
        ..before
    };
    assert_eq!(g.row(id).await, after);
    assert_eq!((after.lease, after.error.as_deref()), (1, Some("no such host")));
}

async fn retry_of_a_completed_job_forgets_its_result(g: &Ground) {
    let (id, _) = g.job_in(JobState::Completed, work()).await;
    assert_eq!(g.retry(id, NOW + 7).await, Acted::Done);
    let row = g.row(id).await;
    assert_eq!((row.state, row.result, row.completed_at), (JobState::Pending, None, None));
}

async fn run_now_makes_a_scheduled_job_due(g: &Ground) {
    let id = g.enqueue(due_at(FAR), NOW).await;
    let before = g.row(id).await;
    assert_eq!(g.run_now(id, NOW + 7).await, Acted::Done);
    let after = JobRow { state: JobState::Pending, run_at: NOW + 7, updated_at: NOW + 7, ..before };
    assert_eq!(g.row(id).await, after);
    g.claim_this(id, NOW + 7).await;
}

async fn delete_leaves_nothing(g: &Ground) {
    for state in [JobState::Completed, JobState::Dead, JobState::Cancelled] {
        let (id, _) = g.job_in(state, work()).await;
        assert_eq!(g.delete(id, NOW + 7).await, Acted::Done);
        assert_eq!(g.store.get(id).await.unwrap(), None);
        assert_eq!(g.attempts(id).await, []);
        assert_eq!(g.delete(id, NOW + 8).await, Acted::NotFound);
        assert_ne!(g.pending().await, id, "an id is never given twice");
        g.claim(10, NOW + 9).await;
    }
}

/// Case 032.
async fn the_creation_time_never_changes(g: &Ground) {
    let id = g.pending().await;
    for step in 1..=2 {
        let job = g.claim_this(id, NOW + step * 10).await;
        g.fail(id, job.lease, Next::At(NOW + step * 10 + 5), NOW + step * 10 + 5).await;
    }
    let job = g.claim_this(id, NOW + 100).await;
    g.complete(id, job.lease, NOW + 101).await;
    g.retry(id, NOW + 102).await;
    assert_eq!(g.row(id).await.created_at, NOW);
}

async fn an_empty_batch_is_fine(g: &Ground) {
    let s = &g.store;
    assert_eq!(s.enqueue(vec![], NOW).await.unwrap(), []);
    assert_eq!(s.complete(vec![], NOW).await.unwrap(), []);
    assert_eq!(s.fail(vec![], NOW).await.unwrap(), []);
    assert_eq!(s.snooze(vec![], NOW).await.unwrap(), []);
    assert_eq!(s.release(vec![], NOW).await.unwrap(), []);
    assert_eq!(s.rescue(vec![], NOW).await.unwrap(), []);
    assert_eq!(s.cancel(vec![], NOW).await.unwrap(), []);
    assert_eq!(s.retry(vec![], NOW).await.unwrap(), []);
    assert_eq!(s.run_now(vec![], NOW).await.unwrap(), []);
    assert_eq!(s.delete(vec![], NOW).await.unwrap(), []);
    assert_eq!(s.running(vec![]).await.unwrap(), []);
    s.bury(vec![], NOW).await.unwrap();
}
