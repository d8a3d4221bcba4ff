//! Steps: recorded once by whoever holds the lease, kept for later attempts.

use super::{ground::*, on_every_store};
use jobq::{
    job::{JobId, Lease, MAX_NAME, MAX_RESULT},
    state::JobState,
    store::{NewStep, Next, Recorded, Retention, Step},
};
use std::time::Duration;

on_every_store![
    a_step_is_read_back_exactly,
    what_is_recorded_stays,
    who_does_not_hold_the_lease_records_nothing,
    a_job_that_does_not_run_records_nothing,
    steps_stay_for_later_attempts,
    a_retry_keeps_the_steps_of_a_job_that_failed_and_ends_those_of_a_completed_one,
    a_job_has_no_more_steps_than_it_may_have,
    a_step_that_no_store_takes_is_refused_with_a_reason,
    steps_go_with_their_job,
];

fn step(id: JobId, lease: Lease, name: &str, result: &str) -> NewStep {
    NewStep { id, lease, name: name.into(), result: result.into(), most: 1000 }
}

async fn record(g: &Ground, id: JobId, lease: Lease, name: &str) -> Recorded {
    g.store.record_step(step(id, lease, name, r#""done""#), NOW).await.unwrap()
}

async fn read(g: &Ground, id: JobId, name: &str) -> Option<String> {
    g.store.step(id, name.into()).await.unwrap()
}

async fn names(g: &Ground, id: JobId) -> Vec<String> {
    g.store.steps(id).await.unwrap().into_iter().map(|step| step.name).collect()
}

async fn a_step_is_read_back_exactly(g: &Ground) {
    let job = g.running().await;
    let results = [
        "null",
        "0",
        r#"{"a":[1,2.5,"\u0000 é"]}"#,
        " { \"spaces\" :  1 } ",
        &format!("\"{}\"", "x".repeat(100_000)),
    ];
    let before = g.row(job.id).await;
    for (n, result) in results.iter().enumerate() {
        let new = step(job.id, 1, &format!("käse {n}"), result);
        assert_eq!(g.store.record_step(new, NOW + n as i64).await.unwrap(), Recorded::Stored);
        assert_eq!(read(g, job.id, &format!("käse {n}")).await.as_deref(), Some(*result));
    }
    let all = g.store.steps(job.id).await.unwrap();
    let wanted: Vec<_> = (0..5).map(|n| Step { name: format!("käse {n}"), lease: 1, at: NOW + n }).collect();
    assert_eq!(all, wanted);
    assert_eq!(read(g, job.id, "Käse 0").await, None);
    assert_eq!(g.row(job.id).await, before, "it moves nothing");
    for stranger in [foreign(job.id), guessed(job.id)] {
        assert_eq!((read(g, stranger, "käse 0").await, names(g, stranger).await), (None, vec![]));
    }
}

async fn what_is_recorded_stays(g: &Ground) {
    let job = g.running().await;
    assert_eq!(record(g, job.id, 1, "charge").await, Recorded::Stored);
    let second = step(job.id, 1, "charge", "2");
    assert_eq!(g.store.record_step(second, NOW + 1).await.unwrap(), Recorded::Before);
    assert_eq!(read(g, job.id, "charge").await.as_deref(), Some(r#""done""#));
    assert_eq!(g.store.steps(job.id).await.unwrap()[0].at, NOW);
}

async fn who_does_not_hold_the_lease_records_nothing(g: &Ground) {
    let job = g.running().await;
    g.rescue(job.id, 1, Next::At(NOW), NOW).await;
    g.claim_this(job.id, NOW).await;
    for wrong in [1, 3, 0, -1, Lease::MAX, Lease::MIN] {
        assert_eq!(record(g, job.id, wrong, "charge").await, Recorded::LeaseLost, "lease {wrong}");
    }
    for stranger in [foreign(job.id), guessed(job.id)] {
        assert_eq!(record(g, stranger, 2, "charge").await, Recorded::LeaseLost);
    }
    assert_eq!(names(g, job.id).await, [""; 0]);
    assert_eq!(record(g, job.id, 2, "charge").await, Recorded::Stored);
}

async fn a_job_that_does_not_run_records_nothing(g: &Ground) {
    for state in JobState::ALL.into_iter().filter(|state| *state != JobState::Running) {
        let (id, lease) = g.job_in(state, due_at(if state == JobState::Scheduled { FAR } else { NOW })).await;
        assert_eq!(record(g, id, lease, "charge").await, Recorded::LeaseLost, "{state}");
        assert_eq!(names(g, id).await, [""; 0], "{state}");
        if state == JobState::Pending {
            g.cancel(id, NOW).await;
        }
    }
}

async fn steps_stay_for_later_attempts(g: &Ground) {
    let job = g.running().await;
    record(g, job.id, 1, "charge").await;
    g.fail(job.id, 1, Next::At(NOW), NOW).await;
    assert_eq!(names(g, job.id).await, ["charge"]);
    g.claim_this(job.id, NOW).await;
    assert_eq!(record(g, job.id, 2, "charge").await, Recorded::Before);
    assert_eq!(record(g, job.id, 2, "ship").await, Recorded::Stored);
    g.rescue(job.id, 2, Next::At(NOW), NOW).await;
    g.claim_this(job.id, NOW).await;
    g.release(job.id, 3, NOW).await;
    g.claim_this(job.id, NOW).await;
    g.complete(job.id, 4, NOW).await;
    let seen: Vec<_> =
        g.store.steps(job.id).await.unwrap().into_iter().map(|step| (step.name, step.lease)).collect();
    assert_eq!(seen, [("charge".to_owned(), 1), ("ship".to_owned(), 2)]);
}

async fn a_retry_keeps_the_steps_of_a_job_that_failed_and_ends_those_of_a_completed_one(g: &Ground) {
    for next in [Next::Dead, Next::Cancelled] {
        let job = g.running().await;
        record(g, job.id, 1, "charge").await;
        g.fail(job.id, 1, next, NOW).await;
        g.retry(job.id, NOW).await;
        assert_eq!(names(g, job.id).await, ["charge"], "{next:?}");
        g.claim_this(job.id, NOW).await;
        g.complete(job.id, 2, NOW).await;
        assert_eq!(names(g, job.id).await, ["charge"], "kept with the job");
        g.retry(job.id, NOW).await;
        assert_eq!((names(g, job.id).await, read(g, job.id, "charge").await), (vec![], None));
        // What can't be retried keeps them.
        g.claim_this(job.id, NOW).await;
        record(g, job.id, 3, "charge").await;
        g.retry(job.id, NOW).await;
        assert_eq!(names(g, job.id).await, ["charge"]);
        g.complete(job.id, 3, NOW).await;
    }
}

async fn a_job_has_no_more_steps_than_it_may_have(g: &Ground) {
    let job = g.running().await;
    let most = |name: &str| NewStep { most: 2, ..step(job.id, 1, name, "1") };
    for name in ["a", "b"] {
        assert_eq!(g.store.record_step(most(name), NOW).await.unwrap(), Recorded::Stored);
    }
    assert_eq!(g.store.record_step(most("c"), NOW).await.unwrap(), Recorded::Full);
    assert_eq!(g.store.record_step(most("a"), NOW).await.unwrap(), Recorded::Before);
    assert_eq!(names(g, job.id).await, ["a", "b"]);
}

async fn a_step_that_no_store_takes_is_refused_with_a_reason(g: &Ground) {
    let job = g.running().await;
    let long = "x".repeat(MAX_NAME + 1);
    for name in ["", "a\0b", &long] {
        let error = g.store.record_step(step(job.id, 1, name, "1"), NOW).await.unwrap_err();
        assert!(error.to_string().contains("its name is not 1 to 64 bytes of text"), "{error}");
    }
    let error =
        g.store.record_step(step(job.id, 1, "a", &"1".repeat(MAX_RESULT + 1)), NOW).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "step \"a\" can't be recorded: a result of 1048577 bytes; the most is 1048576"
    );
    assert_eq!(record(g, job.id, 1, &long[1..]).await, Recorded::Stored);
}

async fn steps_go_with_their_job(g: &Ground) {
    let mut ended = Vec::new();
    for _ in 0..2 {
        let job = g.running().await;
        record(g, job.id, 1, "charge").await;
        g.complete(job.id, 1, NOW).await;
        ended.push(job.id);
    }
    g.delete(ended[0], NOW).await;
    assert_eq!((names(g, ended[0]).await, read(g, ended[0], "charge").await), (vec![], None));
    let keep = Retention { finished: Some(Duration::ZERO), dead: None };
    assert_eq!(g.store.prune(keep, NOW + 1).await.unwrap(), 1);
    assert_eq!((names(g, ended[1]).await, read(g, ended[1], "charge").await), (vec![], None));
}
