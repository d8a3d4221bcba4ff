//! What a worker does while its store is in trouble: waits, says so, goes on; never loses a result, never runs twice.

use super::ground::*;
use jobq::{JobState, StoreError, prelude::*, store::Next};
use std::time::Duration;

#[tokio::test]
async fn a_store_that_can_not_be_claimed_from_for_minutes_is_waited_for_and_the_log_stays_short() {
    let g = ground();
    let log = log();
    let worker = g.start(2).await;
    rest().await;
    for method in ["claim", "due", "promote", "workers", "running", "prune"] {
        g.rig.fail(method, busy());
    }
    // Takes the claim that stood before the trouble, so that the next one meets it.
    let first = g.says("fine").await;
    g.until_state(first, JobState::Completed).await;
    let waiting = g.says("fine").await;
    g.pass(mins(5)).await;
    assert_eq!(g.state(waiting).await, JobState::Pending);
    let lines = log.lines_with("WARN");
    assert!((5..=60).contains(&lines), "{lines} warnings in five minutes:\n{}", log.text());
    g.rig.heal();
    g.pass(secs(8)).await;
    g.until_state(waiting, JobState::Completed).await;
    assert_eq!(worker.stats().completed, 2);
}

#[tokio::test]
async fn a_claim_that_panics_is_made_again_and_the_log_says_why() {
    for drains in [false, true] {
        let g = ground();
        let log = log();
        let bystander = g.bystander().await;
        let id = g.says("fine").await;
        g.rig.panic("claim");
        let worker = g.worker().jobs((says,));
        let working = match drains {
            true => tokio::spawn(async { worker.drain().await.map(|stats| stats.completed) }),
            false => tokio::spawn(async {
                let worker = worker.start().await?;
                worker.ended().await.map(|()| worker.stats().completed)
            }),
        };
        g.pass(secs(60)).await;
        assert_eq!(g.state(id).await, JobState::Pending);
        assert!((2..=11).contains(&log.lines_with("panicked: claim panics for the test")), "{}", log.text());
        g.rig.heal();
        g.pass(secs(10)).await;
        assert_eq!((g.state(id).await, g.row(id).await.lease), (JobState::Completed, 1));
        if drains {
            assert_eq!(at_once("the drain", working).await.unwrap().unwrap(), 1);
        }
        g.untouched(bystander).await;
    }
}

#[tokio::test]
async fn results_are_kept_until_the_store_takes_them_and_no_handler_runs_again() {
    for method in ["complete", "fail", "snooze"] {
        let g = ground();
        let log = log();
        let bystander = g.bystander().await;
        let worker = g.start(2).await;
        g.rig.fail(method, StoreError::Backend(std::sync::Arc::new(std::io::Error::other("disk full"))));
        let what = match method {
            "complete" => "fine",
            "fail" => "dead",
            _ => "snooze",
        };
        let id = g.says(what).await;
        g.pass(secs(40)).await;
        assert_eq!((g.state(id).await, worker.stats().unsettled), (JobState::Running, 1), "{method}");
        assert!(log.lines_with("disk full") > 0, "{method}: {}", log.text());
        g.rig.heal();
        g.rig.panic(method);
        g.pass(secs(10)).await;
        assert_eq!((g.state(id).await, worker.stats().unsettled), (JobState::Running, 1), "{method} panics");
        g.rig.heal();
        g.pass(secs(8)).await;
        let row = g.row(id).await;
        assert_ne!(row.state, JobState::Running, "{method}");
        assert_eq!((row.lease, g.stage.entered().len(), worker.stats().unsettled), (1, 1, 0));
        g.untouched(bystander).await;
    }
}

#[tokio::test]
async fn a_store_that_takes_no_results_is_not_run_ahead_of() {
    let g = ground();
    let worker = g.start(5).await;
    g.rig.fail("complete", busy());
    for n in 0..100 {
        g.stage.open(n);
        g.gated(n).await;
    }
    g.pass(mins(1)).await;
    assert!(g.stage.entered().len() <= 10, "{} of 100 were run for 5 slots", g.stage.entered().len());
    g.rig.heal();
    g.pass(secs(10)).await;
    until("all are stored", async || worker.stats().completed == 100).await;
    assert_eq!(g.stage.entered().len(), 100);
}

#[tokio::test]
async fn one_end_that_the_store_never_takes_does_not_hold_up_the_others() {
    let g = ground();
    let worker = g.start(5).await;
    g.rig.fail("complete", StoreError::Invalid("a value that no store takes".into()));
    let refused = g.says("fine").await;
    let failing = g.says("dead").await;
    g.until_state(refused, JobState::Dead).await;
    g.until_state(failing, JobState::Dead).await;
    assert!(g.row(refused).await.error.unwrap().contains("could not be stored"));
    g.rig.heal();
    let next = g.says("fine").await;
    g.until_state(next, JobState::Completed).await;
    assert_eq!(worker.stats().failed, 2);
}

#[tokio::test]
async fn a_handler_that_needs_no_store_ends_in_time_while_the_sweeps_hang() {
    let g = ground();
    let worker = g.start(2).await;
    let id = g.gated(1).await;
    g.stage.until_entered(1).await;
    for method in ["workers", "running", "due", "promote", "prune"] {
        g.rig.hang(method);
    }
    g.pass(secs(30)).await;
    g.stage.open(1);
    g.until_state(id, JobState::Completed).await;
    let next = g.says("fine").await;
    g.until_state(next, JobState::Completed).await;
    assert_eq!(worker.stats().completed, 2);
}

#[tokio::test]
async fn a_sweep_that_panics_runs_again_and_the_others_never_stop() {
    let g = ground();
    let log = log();
    let _worker = g.start(2).await;
    g.rig.panic("due");
    g.pass(secs(30)).await;
    assert!(log.lines_with("panicked: due panics for the test") > 0, "{}", log.text());
    let lost = g.worker().jobs((says,)).start().await.unwrap();
    let id = lost.id();
    g.memory.kill(id);
    drop(lost);
    g.pass(secs(3)).await;
    assert!(!g.workers().await.contains(&id), "the rescue sweep has gone on");
    g.rig.heal();
    let due = says.enqueue("fine".into()).delay(secs(1)).on(&g.queue).await.unwrap().id();
    g.pass(secs(10)).await;
    g.until_state(due, JobState::Completed).await;
}

/// What each sweep is for is done within 10 s of the last panic: promotion, rescue, the lease check, prune.
#[tokio::test]
async fn each_sweep_is_at_work_again_within_ten_seconds_of_its_last_panic() {
    for method in ["due", "promote", "workers", "running", "rescue", "bury"] {
        let g = ground();
        let bystander = g.bystander().await;
        let worker = g.start(3).await;
        let robbed = g.gated(1).await;
        g.stage.until_entered(1).await;
        g.rig.panic(method);
        let due = says.enqueue("fine".into()).delay(secs(1)).on(&g.queue).await.unwrap().id();
        let lost = g.worker().jobs((stubborn,)).start().await.unwrap();
        g.memory.kill(lost.id());
        g.rob(robbed, Next::At(i64::MAX)).await;
        g.pass(secs(30)).await;
        g.rig.heal();
        g.pass(secs(10)).await;
        assert_eq!((g.state(due).await, g.stage.told()), (JobState::Completed, 1), "{method}");
        let now = g.workers().await;
        assert!(now.contains(&worker.id()), "{method}: {now:?}");
        g.untouched(bystander).await;
    }
    let g = ground();
    let old = g.says("fine").await;
    let _worker = g.start(1).await;
    g.until_state(old, JobState::Completed).await;
    g.clock.advance(jobq::days(8));
    g.rig.panic("prune");
    g.pass(mins(12)).await;
    assert_eq!(g.state(old).await, JobState::Completed);
    g.rig.heal();
    g.pass(mins(12)).await;
    assert_eq!(g.queue.get(old).await.unwrap(), None, "prune");
}

#[tokio::test]
async fn a_store_that_is_gone_for_good_ends_the_worker_with_its_error_and_its_jobs_finish() {
    let g = ground();
    let worker = g.start(2).await;
    let running = g.gated(1).await;
    g.stage.until_entered(1).await;
    rest().await;
    g.rig.fail("claim", StoreError::Closed);
    let last = g.says("fine").await;
    g.until_state(last, JobState::Completed).await;
    rest().await;
    g.stage.open(1);
    let ended = at_once("the worker", worker.ended()).await;
    assert_eq!(ended.unwrap_err().to_string(), StoreError::Closed.to_string());
    assert_eq!(g.state(running).await, JobState::Completed);
    assert!(worker.stop().await.is_err(), "a stop tells why it had ended already");
}

#[tokio::test]
async fn a_start_waits_for_a_busy_store_and_says_so() {
    let g = ground();
    let log = log();
    g.rig.fail("register", busy());
    let starting = tokio::spawn(g.worker().jobs((says,)).start());
    g.pass(secs(10)).await;
    assert!(!starting.is_finished() && log.lines_with("waits for the store") > 0);
    g.rig.heal();
    g.pass(secs(8)).await;
    let worker = at_once("the start", starting).await.unwrap().unwrap();
    assert_eq!(g.workers().await, [worker.id()]);
}

#[tokio::test]
async fn a_standing_claim_that_the_store_forgot_is_made_again_at_the_next_poll() {
    let g = ground();
    g.rig.forget_the_next_claim();
    let worker = g.start(2).await;
    until("a claim stands and is forgotten", async || g.rig.has_forgotten()).await;
    let id = g.says("fine").await;
    rest().await;
    assert_eq!(g.state(id).await, JobState::Pending, "no claim was served");
    g.pass(secs(1)).await;
    g.until_state(id, JobState::Completed).await;
    assert_eq!(worker.stats().completed, 1);
}

#[tokio::test]
async fn a_result_that_comes_too_late_is_refused_counted_and_kept_beside_the_attempt() {
    let g = ground();
    let worker = g.start(1).await;
    let id = g.gated(1).await;
    g.stage.until_entered(1).await;
    g.rob(id, Next::At(i64::MAX)).await;
    g.stage.open(1);
    until("the result is refused", async || worker.stats().late == 1).await;
    let row = g.row(id).await;
    assert_eq!((row.state, row.result, worker.stats().completed), (JobState::Scheduled, None, 0));
    let late = g.attempts(id).await[0].late.clone().expect("what was late is kept");
    assert_eq!(late.text.as_deref(), Some("1"));
    let next = g.says("fine").await;
    g.until_state(next, JobState::Completed).await;
}

#[tokio::test]
async fn a_result_of_a_job_that_is_no_longer_there_is_counted_and_its_batch_mates_complete() {
    let g = ground();
    let worker = g.start(3).await;
    let ids = [g.gated(1).await, g.gated(2).await, g.gated(3).await];
    g.stage.until_entered(3).await;
    g.rob(ids[1], Next::Dead).await;
    g.queue.delete(ids[1]).await.unwrap();
    (1..=3).for_each(|n| g.stage.open(n));
    until("all are over", async || worker.stats().completed == 2 && worker.stats().gone == 1).await;
    assert_eq!(g.queue.get(ids[1]).await.unwrap(), None);
}

#[tokio::test]
async fn handlers_whose_lease_is_lost_are_told_within_a_second_and_the_others_run_on() {
    let g = ground();
    let worker = g.start(50).await;
    let mut ids = Vec::new();
    for n in 0..50 {
        ids.push(g.gated(n).await);
    }
    g.stage.until_entered(50).await;
    g.pass(secs(5)).await;
    assert_eq!((g.stage.told(), g.stage.left()), (0, 0));
    g.rob(ids[7], Next::Dead).await;
    g.queue.delete(ids[7]).await.unwrap();
    g.rob(ids[8], Next::At(i64::MAX)).await;
    g.pass(secs(1)).await;
    assert_eq!((g.stage.told(), g.stage.left()), (2, 2), "told, and then dropped");
    g.pass(mins(10)).await;
    assert_eq!((g.stage.left(), worker.stats().running), (2, 48));
    (0..50).for_each(|n| g.stage.open(n));
    until("the others complete", async || worker.stats().completed == 48).await;
    assert_eq!((worker.stats().late, worker.stats().gone), (0, 0), "a dropped handler has nothing to report");
}

#[tokio::test]
async fn a_blocking_job_whose_lease_is_lost_is_told_and_its_result_is_refused() {
    let g = ground();
    let worker = g.start(1).await;
    let id = stubborn.enqueue(1).on(&g.queue).await.unwrap().id();
    g.stage.until_entered(1).await;
    g.pass(secs(2)).await;
    g.rob(id, Next::At(i64::MAX)).await;
    g.pass(secs(1)).await;
    until("it is told", async || g.stage.told() == 1).await;
    assert_eq!(worker.stats().running, 1, "it keeps its slot until it returns");
    g.stage.open(1);
    until("its result is refused", async || worker.stats().late == 1).await;
    assert_eq!(g.state(id).await, JobState::Scheduled);
}

#[tokio::test]
async fn nothing_is_asked_of_the_store_while_no_job_is_older_than_a_second() {
    let g = ground();
    let _worker = g.start(2).await;
    g.rig.panic("running");
    let log = log();
    for _ in 0..100 {
        let id = g.says("fine").await;
        g.until_state(id, JobState::Completed).await;
        g.pass(Duration::from_millis(100)).await;
    }
    assert_eq!(log.lines_with("panics"), 0);
}
