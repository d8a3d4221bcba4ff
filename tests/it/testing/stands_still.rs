//! What would wait for a clock that stands still: waits for jobs, and cancels of running ones.

use jobq::{WaitError, job::JobId, prelude::*, testing::*};

const SHORT: std::time::Duration = std::time::Duration::from_millis(60);

#[job(type = "still:child")]
async fn child() -> Result<u32, JobError> {
    Ok(3)
}

#[job(type = "still:parent", max_attempts = 1)]
async fn parent() -> Result<u32, JobError> {
    Ok(child.enqueue(()).await?.wait().timeout(secs(30)).await? + 1)
}

#[job(type = "still:patient")]
async fn patient(ctx: &JobContext) -> Result<(), JobError> {
    ctx.cancelled().await;
    Err(JobError::cancel("it was told"))
}

async fn until_it_runs(queue: &TestQueue, id: JobId) {
    while queue.get(id).await.unwrap().unwrap().state != JobState::Running {
        tokio::task::yield_now().await;
    }
}

#[jobq::test]
async fn a_wait_for_what_nobody_runs_ends_and_says_why(queue: TestQueue) {
    let queue = queue.patience(SHORT);
    let handle = child.enqueue(()).await.unwrap();
    for wait in [handle.wait(), handle.wait().timeout(secs(5))] {
        let error = wait.await.unwrap_err();
        assert!(matches!(error, WaitError::StoodStill { id, after } if id == handle.id() && after == SHORT));
        assert!(error.to_string().contains("`drain()` before the wait"), "{error}");
    }
    let (waited, drained) = tokio::join!(handle.wait().into_future(), queue.drain().into_future());
    assert_eq!((waited.unwrap(), drained.completed()), (3, 1));
}

#[jobq::test]
async fn a_timeout_by_the_clock_of_the_test_comes_when_it_is_advanced(queue: TestQueue) {
    let handle = child.enqueue(()).await.unwrap();
    let advance = async {
        while queue.clock().sleepers() == 0 {
            tokio::task::yield_now().await;
        }
        queue.advance(secs(5));
    };
    let (waited, ()) = tokio::join!(handle.wait().timeout(secs(5)).into_future(), advance);
    assert!(matches!(waited, Err(WaitError::TimedOut { .. })), "{waited:?}");
}

#[jobq::test]
async fn a_handler_that_waits_for_a_job_in_a_serial_drain_is_told_why_it_stands_still(queue: TestQueue) {
    let queue = queue.patience(SHORT);
    parent.enqueue(()).await.unwrap();
    let drained = queue.drain().await;
    assert!(drained.failed()[0].error().unwrap().contains("`drain().concurrency(2).jobs("), "{drained}");
    assert_eq!(drained.completed(), 1, "the child");

    let queue = queue.patience(secs(10));
    parent.enqueue(()).await.unwrap();
    queue.drain().concurrency(2).jobs((parent, child)).await.assert_ok();
}

#[jobq::test]
async fn a_running_job_is_told_of_its_cancel_although_the_clock_stands_still(queue: TestQueue) {
    let bystander = patient.enqueue(()).await.unwrap().id();
    let id = patient.enqueue(()).await.unwrap().id();
    let cancel = async {
        for id in [bystander, id] {
            until_it_runs(&queue, id).await;
        }
        queue.cancel(id).await.unwrap();
        while queue.get(id).await.unwrap().unwrap().state != JobState::Cancelled {
            tokio::task::yield_now().await;
        }
        assert_eq!(queue.get(bystander).await.unwrap().unwrap().state, JobState::Running);
        queue.cancel(bystander).await.unwrap();
    };
    let (drained, ()) = tokio::join!(queue.drain().concurrency(2).into_future(), cancel);
    let told = drained.runs().iter().map(|run| run.error());
    assert_eq!(told.collect::<Vec<_>>(), [Some("it was told"); 2], "{drained}");
}
