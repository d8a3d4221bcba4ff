//! Jobs of workers that are no longer there.

use super::ground::*;
use jobq::{
    AttemptOutcome, Backoff, JobId, JobState, WorkerId,
    prelude::*,
    store::{Claim, ClaimSet, Claimed, Life, NewWorker, Store},
};
use std::{sync::Arc, time::Duration};

/// A worker of another process, which claims and is then never heard of.
async fn stranger(g: &Ground, life: Life) -> WorkerId {
    let new = NewWorker { beat: secs(5), queues: "all".into() };
    let id = g.memory.register(new, g.queue.clock().now()).await.unwrap();
    g.memory.set_life(id, life);
    id
}

async fn claims(g: &Ground, worker: WorkerId) -> Vec<Claimed> {
    let set = ClaimSet { job_types: vec!["ground:gated".into(), "ground:says".into()], queues: None };
    let claim = Claim { worker, set: Arc::new(set), limit: 100, standing: false };
    g.memory.claim(claim, g.queue.clock().now()).await.unwrap()
}

async fn outcomes(g: &Ground, id: JobId) -> Vec<AttemptOutcome> {
    g.attempts(id).await.iter().map(|attempt| attempt.outcome).collect()
}

#[tokio::test]
async fn jobs_of_a_killed_worker_run_again_within_5_s_and_the_attempt_counts() {
    let g = ground();
    let bystander = g.bystander().await;
    let id = g.says("fine").await;
    let lost = stranger(&g, Life::Alive).await;
    claims(&g, lost).await;
    let worker = g.start(2).await;
    g.pass(mins(20)).await;
    assert_eq!(
        g.row(id).await.worker,
        Some(lost),
        "a living worker keeps its job, although it does not beat"
    );
    g.memory.kill(lost);
    g.pass(secs(5)).await;
    let row = g.row(id).await;
    assert_eq!((row.state, row.attempts, row.worker), (JobState::Completed, 2, Some(worker.id())));
    let history = g.attempts(id).await;
    let error = history[0].error.clone().unwrap();
    assert!(history[0].outcome == AttemptOutcome::Lost && error.contains("worker lost"), "{error}");
    assert_eq!(g.workers().await, [worker.id()], "the lost one is buried");
    g.untouched(bystander).await;
}

#[tokio::test]
async fn jobs_of_a_killed_worker_run_again_before_all_that_came_after_them() {
    let g = ground();
    let first = g.gated(1).await;
    let lost = stranger(&g, Life::Gone).await;
    assert_eq!(claims(&g, lost).await.len(), 1);
    g.pass(secs(1)).await;
    for n in 2..9 {
        g.gated(n).await;
    }
    g.pass(secs(1)).await;
    (1..9).for_each(|n| g.stage.open(n));
    g.worker().jobs((gated,)).concurrency(1).drain().await.unwrap();
    assert_eq!(g.stage.entered(), [1, 2, 3, 4, 5, 6, 7, 8]);
    assert_eq!(g.row(first).await.attempts, 2);
}

#[tokio::test]
async fn jobs_of_a_worker_elsewhere_are_rescued_after_the_time_out_without_a_beat() {
    let g = ground();
    let id = g.says("fine").await;
    let elsewhere = stranger(&g, Life::Unknown).await;
    claims(&g, elsewhere).await;
    let _worker = g.start(2).await;
    g.pass(secs(299)).await;
    assert_eq!(g.row(id).await.worker, Some(elsewhere));
    g.memory.beat(elsewhere, 0);
    g.pass(secs(299)).await;
    assert_eq!(g.row(id).await.worker, Some(elsewhere), "a beat begins the time-out anew");
    g.pass(secs(5)).await;
    assert_eq!(g.state(id).await, JobState::Completed);
}

#[tokio::test]
async fn no_step_of_the_wall_clock_robs_a_worker() {
    let g = ground();
    let id = g.gated(1).await;
    let elsewhere = stranger(&g, Life::Unknown).await;
    claims(&g, elsewhere).await;
    let _worker = g.start(2).await;
    for step in [3_600_000, -7_200_000, 86_400_000 * 365, -86_400_000 * 365] {
        g.clock.step_wall(step);
        g.pass(secs(30)).await;
        g.memory.beat(elsewhere, 0);
    }
    assert_eq!((g.row(id).await.worker, g.row(id).await.lease), (Some(elsewhere), 1));
}

#[tokio::test]
async fn only_the_lost_one_is_rescued_and_a_slow_healthy_job_is_not() {
    let g = ground();
    let worker = g.worker().jobs((gated,)).concurrency(2).rescue_after(secs(10)).start().await.unwrap();
    let slow = g.gated(1).await;
    g.stage.until_entered(1).await;
    g.stage.open(2);
    worker.pause();
    rest().await;
    let lost = g.gated(2).await;
    let gone = stranger(&g, Life::Unknown).await;
    assert_eq!(claims(&g, gone).await.len(), 1);
    worker.resume();
    g.pass(secs(100)).await;
    assert_eq!(
        (g.state(lost).await, outcomes(&g, lost).await[0]),
        (JobState::Completed, AttemptOutcome::Lost)
    );
    assert_eq!((g.state(slow).await, g.row(slow).await.lease), (JobState::Running, 1));
}

#[tokio::test]
async fn a_custom_backoff_holds_after_a_lost_worker_too() {
    let g = ground();
    let id = says.enqueue("fine".into()).backoff(Backoff::fixed(secs(7))).on(&g.queue).await.unwrap().id();
    let lost = stranger(&g, Life::Gone).await;
    claims(&g, lost).await;
    let _worker = g.start(2).await;
    g.pass_until("it is rescued", async || g.state(id).await != JobState::Running).await;
    let row = g.row(id).await;
    let ended_at = g.attempts(id).await[0].ended_at.unwrap();
    assert_eq!((row.state, row.attempts, row.run_at - ended_at), (JobState::Scheduled, 1, 7000));
}

/// The wait that the type itself has, in its attribute or by its own function, holds after each kind of failure too.
#[tokio::test]
async fn the_types_own_backoff_holds_after_error_panic_time_out_and_a_lost_worker() {
    for how in ["fails", "panics", "never ends", "is lost"] {
        let g = ground();
        let bystander = g.bystander().await;
        let ids = [
            sevens.enqueue(how.into()).timeout(secs(2)).on(&g.queue).await.unwrap().id(),
            sevens_by_function.enqueue(how.into()).timeout(secs(2)).on(&g.queue).await.unwrap().id(),
        ];
        // The rescuer's own set does not have the type; it is linked all the same.
        let worker = match how {
            "is lost" => {
                let types = ["ground:sevens", "ground:sevens_by_function"].map(String::from).into();
                let lost = stranger(&g, Life::Gone).await;
                let set = Arc::new(ClaimSet { job_types: types, queues: None });
                let claim = Claim { worker: lost, set, limit: 9, standing: false };
                assert_eq!(g.memory.claim(claim, g.queue.clock().now()).await.unwrap().len(), 2);
                g.start(2).await
            }
            _ => g.worker().jobs((sevens, sevens_by_function)).concurrency(2).start().await.unwrap(),
        };
        for id in ids {
            g.pass_until("it has failed", async || g.state(id).await == JobState::Scheduled).await;
            let (row, first) = (g.row(id).await, g.attempts(id).await.remove(0));
            assert_eq!((row.run_at - first.ended_at.unwrap(), row.attempts), (7000, 1), "{how}");
        }
        drop(worker);
        g.untouched(bystander).await;
    }
}

#[job(type = "ground:sevens", backoff = fixed("7s"))]
async fn sevens(how: String) -> Result<(), JobError> {
    ends(&how).await
}

#[job(type = "ground:sevens_by_function", backoff = seven)]
async fn sevens_by_function(how: String) -> Result<(), JobError> {
    ends(&how).await
}

fn seven(_attempt: u32, _error: &JobError) -> Duration {
    secs(7)
}

async fn ends(how: &str) -> Result<(), JobError> {
    match how {
        "fails" => Err(JobError::new("no luck")),
        "panics" => panic!("out of luck"),
        _ => std::future::pending().await,
    }
}

#[tokio::test]
async fn a_job_that_kills_every_worker_is_dead_after_exactly_its_limit() {
    let g = ground();
    let id = g.says("fine").await;
    for start in 1..=3 {
        let lost = stranger(&g, Life::Gone).await;
        assert_eq!(claims(&g, lost).await.len(), 1, "start {start}");
        g.worker().jobs((gated,)).drain().await.unwrap();
    }
    let row = g.row(id).await;
    assert_eq!((row.state, row.attempts, row.lease), (JobState::Dead, 3, 3));
    assert!(row.error.unwrap().contains("worker lost"));
    assert_eq!(outcomes(&g, id).await, [AttemptOutcome::Lost; 3]);
    let last = stranger(&g, Life::Gone).await;
    assert_eq!(claims(&g, last).await, [], "a fourth start never happens");
}

#[tokio::test]
async fn a_drain_rescues_first() {
    let g = ground();
    let id = g.says("fine").await;
    let lost = stranger(&g, Life::Gone).await;
    claims(&g, lost).await;
    at_once("the drain", g.worker().jobs((says,)).drain()).await.unwrap();
    assert_eq!((g.state(id).await, g.row(id).await.attempts), (JobState::Completed, 2));
}

#[tokio::test]
async fn of_many_rescuers_one_rescues_each_job_and_counts_once() {
    let g = ground();
    let mut ids = Vec::new();
    for n in 0..20 {
        ids.push(g.gated(n).await);
    }
    let lost = stranger(&g, Life::Alive).await;
    assert_eq!(claims(&g, lost).await.len(), 20);
    let mut workers = Vec::new();
    for _ in 0..8 {
        workers.push(g.start(5).await);
    }
    g.memory.kill(lost);
    g.pass(secs(3)).await;
    for id in ids {
        let row = g.row(id).await;
        assert_eq!((row.state, row.attempts, row.lease), (JobState::Running, 2, 2));
    }
    assert_eq!(g.workers().await.len(), 8);
}

#[tokio::test]
async fn time_outs_of_any_length_have_no_part_in_the_rescue() {
    let g = ground();
    let quick = g.worker().jobs((gated,)).concurrency(4).rescue_after(secs(10)).timeout(Timeout::Never);
    let holder = quick.start().await.unwrap();
    let ids = [
        g.gated(1).await,
        gated.enqueue(2).timeout(secs(100)).on(&g.queue).await.unwrap().id(),
        gated.enqueue(3).timeout(Timeout::Never).on(&g.queue).await.unwrap().id(),
    ];
    g.stage.until_entered(3).await;
    let _rescuer = g.worker().jobs((says,)).rescue_after(secs(10)).start().await.unwrap();
    g.pass(secs(50)).await;
    for id in ids {
        assert_eq!((g.state(id).await, g.row(id).await.lease), (JobState::Running, 1));
    }
    assert_eq!(holder.stats().running, 3);
}

#[tokio::test]
async fn a_worker_that_was_taken_for_lost_signs_in_anew_stops_what_it_lost_and_works_on() {
    let g = ground();
    let worker = g.worker().jobs((gated,)).concurrency(1).start().await.unwrap();
    let (old, id) = (worker.id(), g.gated(1).await);
    g.stage.until_entered(1).await;
    g.pass(secs(2)).await;
    worker.pause();
    g.memory.set_life(old, Life::Gone);
    let rescuer = g.worker().jobs((says,)).concurrency(1).start().await.unwrap();
    g.pass(secs(3)).await;
    assert_ne!(worker.id(), old);
    let now = g.workers().await;
    assert!(now.len() == 2 && now.contains(&worker.id()) && now.contains(&rescuer.id()), "{now:?}");
    assert_eq!(g.stage.told(), 1, "the handler that lost its job was told");
    worker.resume();
    g.stage.open(1);
    g.until_state(id, JobState::Completed).await;
    let row = g.row(id).await;
    assert_eq!((row.worker, row.attempts), (Some(worker.id()), 2));
    at_once("the stop", worker.stop()).await.unwrap();
    assert_eq!(g.workers().await, [rescuer.id()]);
}

#[tokio::test]
async fn a_job_robbed_just_before_it_returns_has_one_final_state_however_often() {
    let g = ground();
    let (first, second) = (g.start(1).await, g.start(1).await);
    for n in 0..500 {
        let id = g.gated(n).await;
        g.stage.until_entered(2 * n as usize + 1).await;
        g.rob(id, jobq::store::Next::At(0)).await;
        g.stage.until_entered(2 * n as usize + 2).await;
        g.stage.open(n);
        g.until_state(id, JobState::Completed).await;
        until("both are idle", async || first.stats().running + second.stats().running == 0).await;
        let history = g.attempts(id).await;
        let ends: Vec<_> = history.iter().map(|one| (one.outcome, one.late.is_some())).collect();
        assert_eq!(ends, [(AttemptOutcome::Lost, true), (AttemptOutcome::Completed, false)]);
    }
    let (one, other) = (first.stats(), second.stats());
    assert_eq!((one.completed + other.completed, one.late + other.late), (500, 500));
    g.pass(Duration::from_secs(1)).await;
}
