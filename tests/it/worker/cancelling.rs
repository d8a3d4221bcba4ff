//! The cancel of jobs that run, here and in another process: who is told, who is dropped, and that no slot is lost.

use super::ground::*;
use crate::child::Child;
use jobq::{
    Acted, AttemptOutcome, JobQueue, JobState, SqliteOptions, SqliteStore, SystemClock, WaitError,
    prelude::*, store::Next,
};
use std::{
    sync::Arc,
    time::{Duration, Instant},
};

/// Ends as it is told when `ctx.cancelled()` fires.
#[job(type = "cancelling:obeys", max_attempts = 5)]
async fn obeys(ctx: &JobContext, #[data] stage: &Stage, how: String) -> Result<String, JobError> {
    let _on = stage.enter(1);
    ctx.cancelled().await;
    match how.as_str() {
        "completes" => Ok(how),
        "fails" => Err(JobError::new("told to stop")),
        "snoozes" => Err(JobError::snooze(secs(1))),
        "panics" => panic!("told to stop"),
        _ => Err(JobError::dead("told to stop")),
    }
}

#[tokio::test]
async fn a_handler_that_ends_when_it_is_told_leaves_its_job_cancelled_unless_it_completes() {
    let g = ground();
    let bystander = g.bystander().await;
    let worker = g.worker().jobs((obeys, gated)).concurrency(2).start().await.unwrap();
    let other = g.gated(9).await;
    g.stage.until_entered(1).await;
    for (n, how) in ["completes", "fails", "snoozes", "panics", "is dead"].into_iter().enumerate() {
        let handle = obeys.enqueue(how.into()).on(&g.queue).await.unwrap();
        g.stage.until_entered(2 + n).await;
        assert_eq!(g.queue.cancel(&handle).await.unwrap(), Acted::Asked);
        // Told within a second, and long before the grace is over.
        g.pass(secs(1)).await;
        let state = if n == 0 { JobState::Completed } else { JobState::Cancelled };
        g.until_state(handle.id(), state).await;
        if n > 0 {
            let attempts = g.attempts(handle.id()).await;
            assert_eq!((attempts.len(), attempts[0].outcome), (1, AttemptOutcome::Cancelled), "{how}");
            let ended = at_once("the wait", handle.wait().into_future()).await;
            assert!(matches!(ended, Err(WaitError::Cancelled { .. })), "{ended:?}");
        }
    }
    assert_eq!(g.state(other).await, JobState::Running);
    g.stage.open(9);
    g.until_state(other, JobState::Completed).await;
    worker.stop().await.unwrap();
    g.untouched(bystander).await;
}

#[tokio::test]
async fn a_handler_that_does_not_listen_is_dropped_after_the_grace_and_its_slot_is_free() {
    let g = ground();
    let worker = g.worker().jobs((gated, says)).concurrency(1).cancel_grace(secs(3)).start().await.unwrap();
    let id = g.gated(1).await;
    g.stage.until_entered(1).await;
    let next = g.says("fine").await;
    g.queue.cancel(id).await.unwrap();
    g.pass(secs(1)).await;
    assert_eq!((g.stage.told(), g.stage.left(), g.state(id).await), (1, 0, JobState::Running));
    assert!(g.row(id).await.cancel_asked_at.is_some());
    g.pass(Duration::from_millis(1_800)).await;
    assert_eq!(g.stage.left(), 0, "the grace is not over");
    g.pass(Duration::from_millis(400)).await;
    g.until_state(id, JobState::Cancelled).await;
    assert_eq!(g.row(id).await.error.as_deref(), Some("cancelled while it ran"));
    g.until_state(next, JobState::Completed).await;
    assert_eq!(worker.stats().stuck, 0);
    worker.stop().await.unwrap();
}

#[tokio::test]
async fn a_blocking_body_is_told_and_keeps_its_slot_as_stuck_until_it_returns() {
    let g = ground();
    let worker = g.start(1).await;
    let id = stubborn.enqueue(1).on(&g.queue).await.unwrap().id();
    g.stage.until_entered(1).await;
    let next = g.says("fine").await;
    g.queue.cancel(id).await.unwrap();
    g.pass(secs(1)).await;
    until("it is told", async || g.stage.told() == 1).await;
    assert_eq!(worker.stats().stuck, 0);
    g.pass(secs(60)).await;
    let stats = worker.stats();
    assert_eq!((stats.running, stats.stuck), (1, 1));
    assert_eq!((g.state(id).await, g.state(next).await), (JobState::Running, JobState::Pending));
    g.stage.open(1);
    // It has done its work all the same.
    g.until_state(id, JobState::Completed).await;
    g.until_state(next, JobState::Completed).await;
    worker.stop().await.unwrap();
}

#[tokio::test]
async fn a_stop_in_the_grace_gives_nothing_back_that_was_cancelled() {
    let g = ground();
    let worker = g.start(1).await;
    let id = g.gated(1).await;
    g.stage.until_entered(1).await;
    g.queue.cancel(id).await.unwrap();
    g.pass(secs(1)).await;
    let stop = at_once("the stop", async { tokio::join!(worker.stop_now(), g.pass(secs(4))).0 });
    stop.await.unwrap();
    assert_eq!(g.state(id).await, JobState::Cancelled);
    assert_eq!(g.attempts(id).await[0].outcome, AttemptOutcome::Cancelled);
}

#[tokio::test]
async fn a_wish_that_its_worker_has_not_heard_of_is_honoured_by_whatever_ends_the_attempt() {
    let g = ground();
    let worker = g.worker().jobs((gated, obeys)).concurrency(2).start().await.unwrap();
    let (lost, failed) = (g.gated(1).await, obeys.enqueue("fails".into()).on(&g.queue).await.unwrap().id());
    g.stage.until_entered(2).await;
    g.rig.fail("cancels", busy());
    for id in [lost, failed] {
        assert_eq!(g.queue.cancel(id).await.unwrap(), Acted::Asked);
    }
    g.rob(lost, Next::At(0)).await;
    assert_eq!(g.state(lost).await, JobState::Cancelled, "a rescue does not run it again");
    assert_eq!(g.stage.told(), 0);
    // Told by the stop alone: its error gives the job back, and that is cancelled.
    let stop = at_once("the stop", async { tokio::join!(worker.stop_now(), g.pass(secs(4))).0 });
    stop.await.unwrap();
    assert_eq!(g.state(failed).await, JobState::Cancelled);
}

#[tokio::test]
async fn a_cancelled_job_that_a_person_retries_runs_undisturbed() {
    let g = ground();
    let worker = g.start(1).await;
    let id = g.gated(1).await;
    g.stage.until_entered(1).await;
    g.queue.cancel(id).await.unwrap();
    g.pass(secs(7)).await;
    g.until_state(id, JobState::Cancelled).await;
    g.queue.retry(id).await.unwrap();
    g.stage.until_entered(2).await;
    g.pass(secs(30)).await;
    assert_eq!((g.stage.told(), g.state(id).await), (1, JobState::Running));
    g.stage.open(1);
    g.until_state(id, JobState::Completed).await;
    worker.stop().await.unwrap();
}

#[tokio::test]
async fn a_worker_without_running_jobs_does_not_look_for_cancels() {
    let g = ground();
    let worker = g.start(2).await;
    let fine = g.says("fine").await;
    g.until_state(fine, JobState::Completed).await;
    g.pass(secs(10)).await;
    let before = g.rig.calls("cancels");
    g.pass(secs(60)).await;
    assert_eq!(g.rig.calls("cancels"), before);
    worker.stop().await.unwrap();
}

#[tokio::test]
async fn a_job_that_another_process_runs_is_told_within_a_second_or_dropped_after_the_grace() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("app.db");
    let store = SqliteStore::open(SqliteOptions::new(&path)).await.unwrap();
    let queue = JobQueue::with_store(Arc::new(store), Arc::new(SystemClock));
    let folder = dir.path().to_str().unwrap();
    let mut child = Child::start("work", &[path.to_str().unwrap(), folder, "2", "1000"]);
    child.expect("runs");
    let started = async |id| {
        until("it runs", async || queue.get(id).await.unwrap().unwrap().state == JobState::Running).await
    };
    // It says when it is told, and then fails.
    let told = queue.enqueue(super::results::HeldByTheChild { n: 1 }).await.unwrap();
    started(told.id()).await;
    let asked = Instant::now();
    assert_eq!(queue.cancel(&told).await.unwrap(), Acted::Asked);
    let ended = told.wait().timeout(secs(30)).await;
    println!("told and ended {:?} after it was asked", asked.elapsed());
    assert!(
        matches!(&ended, Err(WaitError::Cancelled { error: Some(error), .. }) if error == "told to stop"),
        "{ended:?}"
    );
    assert!(
        asked.elapsed() < secs(3),
        "within a second, on a machine that may be busy: {:?}",
        asked.elapsed()
    );
    // It never listens.
    let deaf = jobq::store::Store::enqueue(
        &**queue.store(),
        vec![jobq::job::NewJob::new("stubborn", "{}")],
        jobq::Clock::now(&SystemClock),
    );
    let deaf = deaf.await.unwrap()[0].id;
    started(deaf).await;
    assert_eq!(queue.cancel(deaf).await.unwrap(), Acted::Asked);
    until("it is cancelled", async || queue.get(deaf).await.unwrap().unwrap().state == JobState::Cancelled)
        .await;
    child.signal(nix::sys::signal::Signal::SIGTERM);
    assert!(child.wait(secs(30)).success());
}
