//! Waiting for jobs: what is given, and why not; on the manual clock, and across processes on a file.

use super::ground::*;
use crate::child::Child;
use jobq::{
    Acted, JobQueue, JobState, SqliteOptions, SqliteStore, StoreError, SystemClock, WaitError,
    enqueue::JobHandle,
    job::NewJob,
    prelude::*,
    store::{Claim, ClaimSet, Completion, NewWorker, Retention, Store, Ties},
};
use serde::{Deserialize, Serialize};
use std::{sync::Arc, time::Duration};

#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Report {
    title: String,
    pages: Option<u32>,
}

#[job(payload = ReportOf, type = "results:report", aliases = ["results:old_report"])]
async fn report(title: String, pages: Option<u32>) -> Result<Report, JobError> {
    Ok(Report { title, pages })
}

#[job(type = "results:nothing")]
async fn nothing() {}

#[job(type = "results:perhaps")]
async fn perhaps(n: Option<u32>) -> Result<Option<u32>, JobError> {
    Ok(n)
}

/// Waits for a job that it enqueues, in the queue that it runs in.
#[job(type = "results:sum")]
async fn sum(upto: u32) -> Result<u32, JobError> {
    if upto == 0 {
        return Ok(0);
    }
    Ok(upto + sum.enqueue(upto - 1).await?.wait().await?)
}

async fn ended<J: Job>(what: &str, handle: &JobHandle<J>) -> Result<jobq::job::Output<J>, WaitError>
where
    jobq::job::Output<J>: jobq::job::Readable,
{
    at_once(what, handle.wait().into_future()).await
}

#[tokio::test]
async fn a_wait_gives_what_the_function_returned_before_while_and_after_it_runs() {
    let g = ground();
    let bystander = g.bystander().await;
    let handle = gated.enqueue(7).on(&g.queue).await.unwrap();
    let before = tokio::spawn(handle.wait().into_future());
    rest().await;
    let worker = g.worker().jobs((gated, report, nothing, perhaps)).start().await.unwrap();
    g.stage.until_entered(1).await;
    assert_eq!(g.queue.result::<Gated>(&handle).await.unwrap(), None, "not yet");
    let meanwhile = tokio::spawn(handle.wait().into_future());
    rest().await;
    assert!(!before.is_finished() && !meanwhile.is_finished());
    g.stage.open(7);
    assert_eq!(at_once("the first wait", before).await.unwrap().unwrap(), 7);
    assert_eq!(at_once("the second wait", meanwhile).await.unwrap().unwrap(), 7);
    assert_eq!(ended("a wait after the end", &handle).await.unwrap(), 7);
    assert_eq!(g.queue.result::<Gated>(&handle).await.unwrap(), Some(7));

    let titled = report.enqueue(("Sales".into(), None)).on(&g.queue).await.unwrap();
    let given = ended("a report", &titled).await.unwrap();
    assert_eq!(given, Report { title: "Sales".into(), pages: None });
    let () = ended("nothing", &nothing.enqueue(()).on(&g.queue).await.unwrap()).await.unwrap();
    for n in [None, Some(3)] {
        assert_eq!(ended("perhaps", &perhaps.enqueue(n).on(&g.queue).await.unwrap()).await.unwrap(), n);
    }
    worker.stop().await.unwrap();
    g.untouched(bystander).await;
}

#[tokio::test]
async fn a_dead_job_and_a_cancelled_one_are_errors_that_tell_why() {
    let g = ground();
    let worker = g.start(2).await;
    let says = async |what: &str| says.enqueue(what.to_owned()).on(&g.queue).await.unwrap();
    let dead = says("dead").await;
    let error = ended("the end", &dead).await.unwrap_err();
    assert!(
        matches!(&error, WaitError::Dead { id, error, attempts: 1 } if *id == dead.id() && error == "never again")
    );
    assert_eq!(error.to_string(), format!("job {} is dead after attempt 1: never again", dead.id()));
    let now = g.queue.result::<Says>(&dead).await.unwrap_err();
    assert_eq!(now.to_string(), error.to_string());

    let retried = says("fails").await;
    let wait = tokio::spawn(retried.wait().into_future());
    g.pass_until("it is out of attempts", async || wait.is_finished()).await;
    let error = wait.await.unwrap().unwrap_err();
    assert!(matches!(&error, WaitError::Dead { error, attempts: 3, .. } if error == "no luck"), "{error}");

    let by_itself = says("cancel").await;
    let error = ended("the end", &by_itself).await.unwrap_err();
    assert_eq!(error.to_string(), format!("job {} was cancelled: no longer wanted", by_itself.id()));
    let by_a_person = gated.enqueue(1).delay(mins(5)).on(&g.queue).await.unwrap();
    let wait = tokio::spawn(by_a_person.wait().into_future());
    rest().await;
    g.queue.cancel(&by_a_person).await.unwrap();
    let error = at_once("the end", wait).await.unwrap().unwrap_err();
    assert!(matches!(&error, WaitError::Cancelled { error: None, .. }), "{error}");
    assert_eq!(error.to_string(), format!("job {} was cancelled", by_a_person.id()));
    worker.stop().await.unwrap();
}

#[tokio::test]
async fn a_wait_that_is_over_in_time_leaves_the_job_as_it_is() {
    let g = ground();
    let worker = g.start(1).await;
    let handle = gated.enqueue(1).on(&g.queue).await.unwrap();
    g.stage.until_entered(1).await;
    let wait = tokio::spawn(handle.wait().timeout(secs(10)).into_future());
    g.pass(Duration::from_millis(9_950)).await;
    assert!(!wait.is_finished());
    g.pass(Duration::from_millis(100)).await;
    let error = at_once("the wait", wait).await.unwrap().unwrap_err();
    assert!(matches!(error, WaitError::TimedOut { after, .. } if after == secs(10)), "{error}");
    assert_eq!(g.state(handle.id()).await, JobState::Running);
    g.stage.open(1);
    let again = at_once("another wait", handle.wait().timeout(secs(10)).into_future()).await;
    assert_eq!(again.unwrap(), 1);
    worker.stop().await.unwrap();
}

#[tokio::test]
async fn a_job_that_is_deleted_pruned_or_never_was_is_gone() {
    let g = ground();
    let handle = gated.enqueue(1).on(&g.queue).await.unwrap();
    let wait = tokio::spawn(handle.wait().into_future());
    rest().await;
    g.queue.cancel(&handle).await.unwrap();
    assert_eq!(g.queue.delete_all([handle.id()]).await.unwrap(), [Acted::Done]);
    // The cancel may have been seen before the deletion.
    let error = at_once("the wait", wait).await.unwrap().unwrap_err();
    assert!(matches!(error, WaitError::Gone { .. } | WaitError::Cancelled { .. }), "{error}");
    assert!(matches!(ended("a later wait", &handle).await, Err(WaitError::Gone { .. })));

    let kept = nothing.enqueue(()).on(&g.queue).await.unwrap();
    g.worker().jobs(nothing).drain().await.unwrap();
    assert!(ended("the end", &kept).await.is_ok());
    let at_once_old = Retention { finished: Some(Duration::ZERO), dead: None };
    assert_eq!(g.memory.prune(at_once_old, jobq::Clock::now(&g.clock)).await.unwrap(), 1);
    assert!(matches!(ended("a wait for what was pruned", &kept).await, Err(WaitError::Gone { .. })));

    let elsewhere = ground().queue;
    let stranger = crate::laws::foreign(kept.id());
    assert!(matches!(elsewhere.job_handle::<Gated>(stranger).await, Err(WaitError::Gone { .. })));
    assert!(matches!(g.queue.result::<Gated>(stranger).await, Err(WaitError::Gone { .. })));
}

#[tokio::test]
async fn a_handle_of_a_stored_id_is_given_for_its_own_type_only() {
    let g = ground();
    let id = report.enqueue(("Costs".into(), Some(3))).on(&g.queue).await.unwrap().id();
    let payload = r#"{"title":"Old","pages":null}"#;
    let store = g.queue.store();
    let renamed = store.enqueue(vec![NewJob::new("results:old_report", payload)], 1).await.unwrap()[0];
    g.worker().jobs(report).drain().await.unwrap();
    let handle = g.queue.job_handle::<ReportOf>(id).await.unwrap();
    assert_eq!(ended("the end", &handle).await.unwrap().pages, Some(3));
    let old = g.queue.job_handle::<ReportOf>(renamed).await.unwrap();
    assert_eq!(ended("a job by its alias", &old).await.unwrap().title, "Old");

    let error = g.queue.job_handle::<Gated>(id).await.unwrap_err();
    assert_eq!(error.to_string(), format!("job {id} is of type `results:report`, not `ground:gated`"));
    assert!(matches!(g.queue.result::<Gated>(id).await, Err(WaitError::OtherType { .. })));
}

#[tokio::test]
async fn a_stored_result_of_another_build_is_an_error_that_says_so() {
    let g = ground();
    let handle = gated.enqueue(1).on(&g.queue).await.unwrap();
    let worker = NewWorker { beat: secs(1), queues: String::new() };
    let worker = g.memory.register(worker, 1).await.unwrap();
    let set = ClaimSet { job_types: vec!["ground:gated".into()], queues: None };
    let claim = Claim { worker, set: Arc::new(set), limit: 1, standing: false };
    let lease = g.memory.claim(claim, 1).await.unwrap()[0].lease;
    let result = Some(r#""seven""#.into());
    let end = Completion { id: handle.id(), lease, result, ties: Ties::NONE };
    g.memory.complete(vec![end], 1).await.unwrap();
    let error = ended("the end", &handle).await.unwrap_err();
    assert!(matches!(error, WaitError::Undecodable { .. }), "{error}");
    assert!(error.to_string().contains("is not what `ground:gated` of this build returns: invalid type"));
}

#[tokio::test]
async fn a_paused_job_is_waited_for_until_it_is_resumed_and_has_run() {
    let g = ground();
    g.queue.pause_type::<Says>().await.unwrap();
    let worker = g.start(1).await;
    let handle = says.enqueue("fine".into()).on(&g.queue).await.unwrap();
    let wait = tokio::spawn(handle.wait().into_future());
    g.pass(secs(60)).await;
    assert!(!wait.is_finished());
    g.queue.resume_type::<Says>().await.unwrap();
    assert_eq!(at_once("the wait", wait).await.unwrap().unwrap(), "fine");
    worker.stop().await.unwrap();
}

#[tokio::test]
async fn a_handler_waits_for_jobs_that_it_enqueues() {
    let g = ground();
    let worker = g.worker().jobs(sum).concurrency(5).start().await.unwrap();
    let handle = sum.enqueue(4).on(&g.queue).await.unwrap();
    assert_eq!(ended("four levels", &handle).await.unwrap(), 10);
    worker.stop().await.unwrap();
}

#[tokio::test]
async fn thousands_of_waits_cost_one_read_each_time_that_the_store_has_changed() {
    let g = ground();
    let ids = g.queue.enqueue_all((0..3000).map(|n| Gated { n })).await.unwrap();
    let mut waits = Vec::new();
    for id in &ids {
        let handle = g.queue.job_handle::<Gated>(*id).await.unwrap();
        waits.push(tokio::spawn(handle.wait().into_future()));
    }
    let handles = g.rig.calls("outcomes");
    until("they wait", async || g.rig.calls("outcomes") > handles).await;
    (0..3000).for_each(|n| g.stage.open(n));
    let worker = g.start(100).await;
    for (n, wait) in waits.into_iter().enumerate() {
        assert_eq!(at_once("a wait", wait).await.unwrap().unwrap(), n as u32);
    }
    let reads = g.rig.calls("outcomes") - handles;
    assert!(reads < 1500, "{reads} reads for 3,000 waits");
    worker.stop().await.unwrap();
}

#[tokio::test]
async fn trouble_of_the_store_is_waited_out_and_what_stays_ends_the_wait() {
    let g = ground();
    let worker = g.start(1).await;
    let handle = says.enqueue("fine".into()).on(&g.queue).await.unwrap();
    g.until_state(handle.id(), JobState::Completed).await;
    g.rig.fail("outcomes", busy());
    let wait = tokio::spawn(handle.wait().into_future());
    until("it was tried", async || g.rig.calls("outcomes") > 0).await;
    g.rig.heal();
    assert_eq!(at_once("the wait", wait).await.unwrap().unwrap(), "fine");

    g.rig.fail("outcomes", StoreError::Closed);
    let error = ended("a store that is closed", &handle).await.unwrap_err();
    assert!(matches!(error, WaitError::Store(StoreError::Closed)), "{error}");
    g.rig.panic("outcomes");
    let error = ended("a store that panics", &handle).await.unwrap_err();
    assert!(matches!(error, WaitError::Store(StoreError::Closed)), "{error}");
    g.rig.heal();
    assert_eq!(ended("a later wait", &handle).await.unwrap(), "fine");
    worker.stop().await.unwrap();
}

#[tokio::test]
async fn a_wait_that_was_dropped_or_is_over_keeps_no_store_open() {
    let g = ground();
    let store = Arc::downgrade(g.queue.store());
    let handle = gated.enqueue(1).on(&g.queue).await.unwrap();
    let wait = tokio::spawn(handle.wait().into_future());
    until("it is looked for", async || g.rig.calls("outcomes") > 0).await;
    wait.abort();
    g.queue.cancel(&handle).await.unwrap();
    assert!(ended("the end", &handle).await.is_err());
    drop((handle, g, wait.await));
    until("the store is closed", async || store.upgrade().is_none()).await;
}

/// The job of the child of this name, as its payload and output are.
#[job(type = "held")]
pub async fn held_by_the_child(n: u64) -> Result<u64, String> {
    unreachable!("{n} is run by the child")
}

#[tokio::test]
async fn a_job_that_another_process_runs_is_waited_for_without_a_poll_of_ones_own() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("app.db");
    let store = SqliteStore::open(SqliteOptions::new(&path)).await.unwrap();
    let queue = JobQueue::with_store(Arc::new(store), Arc::new(SystemClock));
    let folder = dir.path().to_str().unwrap();
    let mut child = Child::start("work", &[path.to_str().unwrap(), folder, "4", "1000"]);
    child.expect("runs");
    for n in 0..5 {
        let handle = held_by_the_child.enqueue(n).on(&queue).await.unwrap();
        let wait = tokio::spawn(handle.wait().timeout(secs(30)).into_future());
        until("it runs", async || queue.get(&handle).await.unwrap().unwrap().state == JobState::Running)
            .await;
        assert!(!wait.is_finished());
        std::fs::write(dir.path().join(format!("go-{n}-1")), "").unwrap();
        assert_eq!(wait.await.unwrap().unwrap(), n);
    }
    child.signal(nix::sys::signal::Signal::SIGTERM);
    assert!(child.wait(secs(30)).success());
}
