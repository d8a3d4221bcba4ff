//! Drains: retries, delays, pauses and leases by the clock, what is told, and what is refused.

use super::said;
use jobq::{EnqueueError, NoQueue, Worker, assert_enqueued, executor::Verdict, prelude::*, testing::*};
use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

#[job(type = "drained:fails", max_attempts = 3, backoff = exponential(base = "10s", factor = 2, max = "1h", jitter = 0.0))]
async fn fails(ctx: &JobContext, times: u32) -> Result<u32, String> {
    if ctx.attempt() <= times { Err(format!("no luck at {}", ctx.attempt())) } else { Ok(ctx.attempt()) }
}

#[job(type = "drained:parent")]
async fn parent(children: u32) -> Result<(), EnqueueError> {
    for _ in 0..children {
        counted.enqueue(()).await?;
    }
    Ok(())
}

#[derive(Clone, Default)]
struct Counter(Arc<AtomicUsize>);

#[job(type = "drained:counted")]
async fn counted(#[data] counter: &Counter) {
    counter.0.fetch_add(1, Ordering::SeqCst);
}

#[job(type = "drained:snoozes")]
async fn snoozes() -> Result<(), JobError> {
    Err(JobError::snooze(mins(1)))
}

#[job(type = "drained:panics", max_attempts = 1)]
async fn panics() {
    panic!("out of luck");
}

#[job(type = "drained:never")]
async fn never() {
    std::future::pending::<()>().await
}

#[jobq::test]
async fn retries_obey_the_clock(queue: TestQueue) {
    fails.enqueue(2).await.unwrap();
    assert_eq!(queue.drain().await.failed().len(), 1);
    queue.advance(secs(9));
    assert_eq!(queue.drain().await.runs().len(), 0, "one second is missing");
    queue.advance(secs(1));
    assert_eq!(queue.drain().await.failed()[0].error(), Some("no luck at 2"));
    assert_eq!(queue.advance_to_next().await, Some(secs(20)));
    let drained = queue.drain().await;
    drained.assert_ok();
    assert_eq!(drained.runs()[0].verdict, Verdict::Complete { result: Some("3".into()) });
    assert_eq!(queue.advance_to_next().await, None);
}

#[jobq::test]
async fn a_drain_tells_each_attempt_and_why_it_failed(queue: TestQueue) {
    let id = fails.enqueue(1).await.unwrap().id();
    let drained = queue.drain_until_idle().await;
    assert_eq!(
        drained.to_string(),
        format!(
            "  2026-01-01 00:00:00 UTC drained:fails {id}, attempt 1 of 3: failed: no luck at 1 (again at 2026-01-01 \
             00:00:10 UTC)\n  2026-01-01 00:00:10 UTC drained:fails {id}, attempt 2 of 3: completed with 2"
        )
    );
    assert_eq!((drained.completed(), drained.failed().len()), (1, 1));
    let text = said(async {
        drained.assert_ok();
    })
    .await;
    assert!(text.starts_with("1 of 2 attempts failed:\n  2026"), "{text}");

    panics.enqueue(()).await.unwrap();
    let drained = queue.drain().await;
    assert_eq!(drained.failed()[0].error(), Some("panicked: out of luck"));
    assert!(drained.to_string().ends_with("panicked: panicked: out of luck (dead)"), "{drained}");
    assert_eq!(queue.drain().await.to_string(), "nothing was due");
}

#[jobq::test]
async fn what_a_job_enqueues_is_run_too_each_in_the_queue_of_its_test(queue: TestQueue) {
    let counter = Counter::default();
    parent.enqueue(3).await.unwrap();
    queue.drain().data(counter.clone()).await.assert_ok();
    assert_eq!(counter.0.load(Ordering::SeqCst), 3);
}

#[jobq::test]
async fn data_that_is_lacking_is_named_when_a_job_needs_it_and_not_before(queue: TestQueue) {
    counted.enqueue(()).delay(hours(1)).await.unwrap();
    fails.enqueue(0).await.unwrap();
    assert_eq!(queue.drain().await.completed(), 1, "what is not due needs nothing");
    queue.advance(hours(1));
    let text = said(queue.drain().into_future()).await;
    assert!(text.contains("lacks data for its jobs, give it with `.data(value)`"), "{text}");
    assert!(text.contains("drains::Counter` for `drained:counted`"), "{text}");
    assert!(text.contains("in the drain at tests/it/testing/drains.rs:"), "{text}");
    assert_eq!(queue.drain().jobs(fails).await.runs().len(), 0, "who names jobs says which are to run");
}

#[jobq::test]
async fn time_passes_from_one_instant_to_the_next(queue: TestQueue) {
    fails.enqueue(2).await.unwrap();
    snoozes.enqueue(()).await.unwrap();
    let begun = queue.now();
    let drained = queue.run_for(mins(5)).await;
    let of = |job_type: &str| drained.runs().iter().filter(|run| run.job_type == job_type).count();
    assert_eq!((of("drained:fails"), of("drained:snoozes")), (3, 6));
    assert_eq!(queue.now() - begun, chrono::TimeDelta::minutes(5));
    let text = said(queue.drain_until_idle().into_future()).await;
    assert!(text.contains("is there still a job") || text.contains("for ever?"), "{text}");
}

#[jobq::test]
async fn a_pause_ends_by_the_clock(queue: TestQueue) {
    queue.pause_queue("default").lasting(hours(2)).await.unwrap();
    fails.enqueue(0).await.unwrap();
    assert_eq!(queue.drain().await.completed(), 0);
    assert_enqueued!(queue, Fails { times: 0 });
    assert_eq!(queue.run_for(hours(3)).await.completed(), 1);
}

#[jobq::test]
async fn a_lost_workers_job_runs_again(queue: TestQueue) {
    let id = never.enqueue(()).await.unwrap().id();
    let worker = Worker::new(&queue).jobs(never).start().await.unwrap();
    while queue.get(id).await.unwrap().unwrap().state != JobState::Running {
        tokio::task::yield_now().await;
    }
    drop(worker);
    let text = said(queue.drain().patience(std::time::Duration::from_millis(50)).into_future()).await;
    assert!(text.contains("50ms of real time") && text.contains(&format!("drained:never {id}")), "{text}");
    assert!(queue.get(id).await.unwrap().unwrap().lease >= 2, "it was given to another worker");
}

#[jobq::test(sqlite)]
async fn a_queue_in_a_file_is_drained_as_one_in_memory(queue: TestQueue) {
    let path = queue.path().unwrap();
    assert!(path.exists());
    fails.enqueue(2).await.unwrap();
    parent.enqueue(2).await.unwrap();
    let drained = queue.drain_until_idle().data(Counter::default()).await;
    assert_eq!((drained.completed(), drained.failed().len()), (4, 2));
    assert_eq!(queue.now(), "2026-01-01T00:00:30Z".parse::<chrono::DateTime<chrono::Utc>>().unwrap());
}

#[tokio::test]
async fn the_files_of_a_queue_are_gone_with_its_last_clone() {
    let queue = TestQueue::sqlite().await;
    let folder = queue.path().unwrap().parent().unwrap().to_owned();
    let clone = queue.clone();
    drop(queue);
    fails.enqueue(0).on(&clone).await.unwrap();
    assert!(folder.exists());
    drop(clone);
    assert!(!folder.exists());
}

#[jobq::test]
async fn the_clock_goes_to_an_instant_and_never_back(queue: TestQueue) {
    let at = "2026-03-29T01:00:00Z".parse().unwrap();
    queue.advance_to(at);
    assert_eq!(queue.now(), at);
    queue.advance_to("2026-01-01T00:00:00Z".parse().unwrap());
    assert_eq!(queue.now(), at);
}

#[jobq::test]
async fn a_task_outside_of_the_test_is_told_and_never_takes_another_queue() {
    let lost = tokio::spawn(async { fails.enqueue(0).await }).await.unwrap();
    assert!(matches!(lost, Err(EnqueueError::NoQueue(NoQueue::OutsideScope))), "{lost:?}");
    jobq::spawn(async { fails.enqueue(0).await }).await.unwrap().unwrap();
}

#[jobq::test]
#[should_panic(expected = "as a test does")]
async fn a_test_that_panics_fails() {
    panic!("as a test does");
}

#[jobq::test]
async fn a_test_may_return_a_result() -> Result<(), EnqueueError> {
    fails.enqueue(0).await?;
    Ok(())
}
