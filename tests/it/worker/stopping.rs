//! How a worker stops.

use super::ground::*;
use jobq::{AttemptOutcome, JobState, WorkerHandle, prelude::*};
use std::{sync::Arc, time::Duration};

const GRACE: Duration = Duration::from_secs(10);

async fn start(g: &Ground, concurrency: usize) -> Arc<WorkerHandle> {
    let worker = g.worker().jobs((gated, says, stubborn)).concurrency(concurrency).grace(GRACE);
    Arc::new(worker.start().await.unwrap())
}

/// Begins a graceful stop; the task ends when the worker has.
async fn stop(worker: &Arc<WorkerHandle>) -> tokio::task::JoinHandle<()> {
    let worker = worker.clone();
    let stopping = tokio::spawn(async move { worker.stop().await.unwrap() });
    rest().await;
    stopping
}

#[tokio::test]
async fn an_idle_worker_stops_without_any_time_passing() {
    let g = ground();
    let bystander = g.bystander().await;
    let worker = start(&g, 4).await;
    rest().await;
    at_once("the stop", worker.stop()).await.unwrap();
    assert_eq!(g.workers().await, []);
    let late = g.gated(1).await;
    rest().await;
    assert_eq!(g.state(late).await, JobState::Pending);
    g.untouched(bystander).await;
}

#[tokio::test]
async fn a_stop_lets_a_running_job_finish_and_nobody_else_starts_it() {
    let g = ground();
    let (first, second) = (start(&g, 1).await, start(&g, 1).await);
    let id = g.gated(1).await;
    g.stage.until_entered(1).await;
    let holder = g.row(id).await.worker.unwrap();
    let (stopping, other) = if first.id() == holder { (first, second) } else { (second, first) };
    let stopped = stop(&stopping).await;
    g.pass(secs(5)).await;
    assert_eq!((g.stage.entered(), g.stage.told()), (vec![1], 0));
    g.stage.open(1);
    stopped.await.unwrap();
    let row = g.row(id).await;
    assert_eq!((row.state, row.lease, row.worker), (JobState::Completed, 1, Some(holder)));
    assert_eq!((stopping.stats().completed, other.stats().completed), (1, 0));
    assert_eq!(g.workers().await, [other.id()], "it beats on until its end, and then signs out");
}

#[tokio::test]
async fn a_stopping_worker_claims_no_more() {
    let g = ground();
    let worker = start(&g, 2).await;
    g.gated(1).await;
    g.stage.until_entered(1).await;
    let stopped = stop(&worker).await;
    let waiting = g.gated(2).await;
    g.pass(secs(2)).await;
    g.stage.open(1);
    stopped.await.unwrap();
    assert_eq!((g.stage.entered(), g.row(waiting).await.lease), (vec![1], 0));
}

#[tokio::test]
async fn the_cancel_token_fires_at_the_end_of_the_grace_and_not_before() {
    let g = ground();
    let worker = start(&g, 1).await;
    g.gated(1).await;
    g.stage.until_entered(1).await;
    let _stopped = stop(&worker).await;
    g.pass(GRACE - Duration::from_millis(50)).await;
    assert_eq!(g.stage.told(), 0);
    g.pass(Duration::from_millis(50)).await;
    assert_eq!(g.stage.told(), 1);
}

#[tokio::test]
async fn a_handler_that_ends_well_after_its_cancel_has_its_result_stored() {
    let g = ground();
    let worker = start(&g, 1).await;
    let id = g.gated(1).await;
    g.stage.until_entered(1).await;
    let stopped = stop(&worker).await;
    g.pass(GRACE).await;
    g.stage.open(1);
    stopped.await.unwrap();
    assert_eq!(g.state(id).await, JobState::Completed);
}

#[tokio::test]
async fn a_handler_that_gives_up_when_cancelled_costs_no_attempt() {
    let g = ground();
    let worker = g.worker().jobs((gives_up,)).grace(GRACE).start().await.unwrap();
    let worker = Arc::new(worker);
    let id = gives_up.enqueue(1).on(&g.queue).await.unwrap().id();
    g.stage.until_entered(1).await;
    let stopped = stop(&worker).await;
    g.pass(GRACE).await;
    stopped.await.unwrap();
    let row = g.row(id).await;
    assert_eq!((row.state, row.attempts), (JobState::Pending, 0));
}

#[job(type = "ground:gives_up")]
async fn gives_up(ctx: &JobContext, #[data] stage: &Stage, n: u32) -> Result<(), String> {
    let _on = stage.enter(n);
    ctx.cancelled().await;
    Err("told to stop".into())
}

#[tokio::test]
async fn handlers_that_ignore_everything_are_let_go_within_2_s_of_the_grace_and_their_jobs_are_claimable_at_once()
 {
    let g = ground();
    let bystander = g.bystander().await;
    let worker = start(&g, 2).await;
    let ids = [g.gated(1).await, stubborn.enqueue(2).on(&g.queue).await.unwrap().id()];
    g.stage.until_entered(2).await;
    let stopped = stop(&worker).await;
    g.pass(GRACE).await;
    assert!(!stopped.is_finished());
    g.pass(secs(2)).await;
    at_once("the stop", stopped).await.unwrap();
    for id in ids {
        let row = g.row(id).await;
        assert_eq!((row.state, row.attempts), (JobState::Pending, 0));
        assert_eq!(g.attempts(id).await[0].outcome, AttemptOutcome::Released);
    }
    assert_eq!(worker.stats().released, 2);
    assert_eq!(g.workers().await, []);
    let next = start(&g, 2).await;
    g.stage.until_entered(4).await;
    (1..=2).for_each(|n| g.stage.open(n));
    until("both are done", async || next.stats().completed == 2).await;
    g.untouched(bystander).await;
}

#[tokio::test]
async fn a_blocking_job_past_its_time_out_counts_as_timed_out_when_the_worker_stops() {
    let g = ground();
    let worker = start(&g, 1).await;
    let id = stubborn.enqueue(1).timeout(secs(1)).on(&g.queue).await.unwrap().id();
    g.stage.until_entered(1).await;
    g.pass(secs(2)).await;
    let stopped = stop(&worker).await;
    g.pass(GRACE + secs(2)).await;
    at_once("the stop", stopped).await.unwrap();
    assert_eq!((g.row(id).await.attempts, g.attempts(id).await[0].outcome), (1, AttemptOutcome::TimedOut));
    g.stage.open(1);
}

#[tokio::test]
async fn a_second_stop_hurries_the_first_to_an_end_within_2_s() {
    let g = ground();
    let worker = start(&g, 1).await;
    let id = g.gated(1).await;
    g.stage.until_entered(1).await;
    let stopped = stop(&worker).await;
    g.pass(secs(1)).await;
    let again = worker.clone();
    let hurried = tokio::spawn(async move { again.stop_now().await.unwrap() });
    g.pass(Duration::from_millis(1950)).await;
    at_once("both stops", async { (stopped.await.unwrap(), hurried.await.unwrap()) }).await;
    assert_eq!((g.stage.told(), g.state(id).await), (1, JobState::Pending));
}

#[tokio::test]
async fn a_hurry_while_handlers_are_being_cancelled_still_ends_in_time() {
    let g = ground();
    let worker = start(&g, 1).await;
    g.gated(1).await;
    g.stage.until_entered(1).await;
    let stopped = stop(&worker).await;
    g.pass(GRACE + Duration::from_millis(100)).await;
    let hurried = worker.stop_now();
    let (hurried, ()) = tokio::join!(hurried, g.pass(Duration::from_millis(450)));
    hurried.unwrap();
    stopped.await.unwrap();
}

#[tokio::test]
async fn stopping_twice_in_parallel_and_after_the_end_is_one_stop() {
    let g = ground();
    let worker = start(&g, 2).await;
    g.gated(1).await;
    g.stage.until_entered(1).await;
    let stops: Vec<_> = [stop(&worker).await, stop(&worker).await, stop(&worker).await].into();
    worker.pause();
    worker.resume();
    g.stage.open(1);
    for stopped in stops {
        at_once("a stop", stopped).await.unwrap();
    }
    at_once("one more", worker.stop()).await.unwrap();
    at_once("and now", worker.stop_now()).await.unwrap();
    assert!(at_once("waiting", worker.wait_for_active(secs(1))).await);
    assert_eq!(worker.stats().completed, 1);
}

#[tokio::test]
async fn a_stop_right_after_the_start_leaves_a_job_done_or_untouched() {
    for yields in 0..40 {
        let g = ground();
        g.stage.open(1);
        let id = g.gated(1).await;
        let worker = start(&g, 2).await;
        for _ in 0..yields {
            tokio::task::yield_now().await;
        }
        at_once("the stop", worker.stop()).await.unwrap();
        let row = g.row(id).await;
        let (done, untouched) = ((JobState::Completed, 1), (JobState::Pending, 0));
        assert!([done, untouched].contains(&(row.state, row.attempts)), "{row:?}");
        assert_eq!(g.stage.entered().len(), row.attempts as usize);
    }
}

#[tokio::test]
async fn a_paused_worker_stops() {
    let g = ground();
    let worker = start(&g, 2).await;
    worker.pause();
    rest().await;
    at_once("the stop", worker.stop()).await.unwrap();
}

#[tokio::test]
async fn a_handler_may_stop_its_own_worker() {
    for job in ["in a task", "on a thread"] {
        let g = ground();
        let me: Me = Arc::default();
        let worker = g.worker().data(me.clone()).jobs((stops_here, stops_on_a_thread)).start().await.unwrap();
        let worker = Arc::new(worker);
        me.set(worker.clone()).ok();
        let id = match job {
            "in a task" => stops_here.enqueue(()).on(&g.queue).await.unwrap().id(),
            _ => stops_on_a_thread.enqueue(()).on(&g.queue).await.unwrap().id(),
        };
        at_once("the worker", worker.ended()).await.unwrap();
        assert_eq!(g.state(id).await, JobState::Completed, "{job}");
    }
}

type Me = Arc<std::sync::OnceLock<Arc<WorkerHandle>>>;

#[job(type = "ground:stops_here")]
async fn stops_here(#[data] me: &Me) -> Result<(), JobError> {
    Ok(me.wait().stop().await?)
}

#[job(type = "ground:stops_on_a_thread", blocking)]
async fn stops_on_a_thread(#[data] me: &Me) -> Result<(), JobError> {
    Ok(me.wait().stop_now().await?)
}

#[tokio::test]
async fn dropping_the_handle_stops_the_worker_and_gives_its_jobs_back() {
    let g = ground();
    let worker = g.start(2).await;
    let id = g.gated(1).await;
    g.stage.until_entered(1).await;
    drop(worker);
    g.until_state(id, JobState::Pending).await;
    until("it has signed out", async || g.workers().await.is_empty()).await;
    assert_eq!((g.stage.left(), g.row(id).await.attempts), (1, 0));
}

#[test]
fn a_worker_whose_runtime_is_gone_is_found_with_its_jobs() {
    let g = ground();
    let runtime = || tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let first = runtime();
    let (id, worker) = first.block_on(async {
        let (worker, id) = (g.start(1).await, g.gated(1).await);
        g.stage.until_entered(1).await;
        (id, worker)
    });
    drop(first);
    runtime().block_on(async {
        at_once("a stop without a runtime", worker.stop()).await.unwrap_err();
        g.stage.open(1);
        g.worker().jobs((gated,)).drain().await.unwrap();
        assert_eq!((g.state(id).await, g.row(id).await.attempts), (JobState::Completed, 2));
    });
}

#[tokio::test]
async fn dropping_a_start_that_has_not_ended_leaves_no_worker() {
    let g = ground();
    g.rig.hang("register");
    let starting = tokio::spawn(g.worker().jobs((gated,)).start());
    rest().await;
    starting.abort();
    rest().await;
    g.rig.heal();
    let id = g.gated(1).await;
    rest().await;
    assert_eq!((g.workers().await, g.state(id).await), (vec![], JobState::Pending));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whatever_two_hundred_jobs_are_doing_at_a_stop_each_result_is_stored_or_the_job_given_back() {
    for round in 0..20 {
        let g = ground();
        let worker = g.start(200).await;
        g.queue.enqueue_all((0..400).map(|_| Says { what: "fine".into() })).await.unwrap();
        let some = round * 10;
        until("some have ended", async || worker.stats().completed >= some).await;
        worker.stop().await.unwrap();
        let counts = g.queue.counts().await.unwrap();
        let of =
            |state| counts.iter().filter(|count| count.state == state).map(|count| count.count).sum::<u64>();
        let (completed, pending) = (of(JobState::Completed), of(JobState::Pending));
        assert_eq!((completed + pending, of(JobState::Running)), (400, 0));
        assert_eq!(completed, worker.stats().completed);
        assert_eq!(g.stage.entered().len() as u64, completed, "no result of a handler that ended is lost");
    }
}

#[tokio::test]
async fn a_stop_while_the_store_is_out_of_reach_ends_in_time_and_names_the_jobs() {
    let g = ground();
    let log = log();
    let worker = start(&g, 3).await;
    let (done, running) = (g.says("fine").await, g.gated(1).await);
    g.until_state(done, JobState::Completed).await;
    for method in ["complete", "release", "claim", "running", "workers", "due", "promote"] {
        g.rig.hang(method);
    }
    let ended = g.says("fine").await;
    g.stage.until_entered(3).await;
    let stopped = stop(&worker).await;
    g.pass(GRACE + secs(2)).await;
    at_once("the stop", stopped).await.unwrap();
    let text = log.text();
    let line = text.lines().find(|line| line.contains("could not be stored")).expect("the log says so");
    assert!(line.contains(&running.to_string()) && line.contains(&ended.to_string()), "{line}");
    assert!(!line.contains(&done.to_string()), "{line}");
    g.rig.heal();
    g.until_state(ended, JobState::Completed).await;
    g.until_state(running, JobState::Pending).await;
}

#[tokio::test]
async fn results_that_wait_for_a_locked_store_are_stored_before_the_worker_ends() {
    let g = ground();
    let worker = start(&g, 20).await;
    g.rig.fail("complete", busy());
    for n in 0..20 {
        g.stage.open(n);
        g.gated(n).await;
    }
    g.stage.until_entered(20).await;
    rest().await;
    assert_eq!(worker.stats().completed, 0);
    let stopped = stop(&worker).await;
    g.pass(secs(5)).await;
    assert!(!stopped.is_finished());
    g.rig.heal();
    g.pass(Duration::from_millis(500)).await;
    at_once("the stop", stopped).await.unwrap();
    assert_eq!((worker.stats().completed, g.stage.entered().len()), (20, 20));
}
