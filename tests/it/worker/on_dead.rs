//! Whom a worker tells of dead jobs: each death once, whatever it came by.

use super::ground::*;
use jobq::{
    JobFilter, JobId, JobRow, JobState, WorkerId,
    job::{DeadJob, NewJob},
    prelude::*,
    store::{Claim, ClaimSet, Life, NewWorker, Next, Store},
};
use serde_json::json;
use std::sync::Arc;

#[job(type = "on_dead:fragile", max_attempts = 2, backoff = fixed("1s"), timeout = "5s", on_dead = tell)]
async fn fragile(how: String) -> Result<(), JobError> {
    match &*how {
        "fails" => Err(JobError::new("no luck")),
        "dead" => Err(JobError::dead("never again")),
        "cancel" => Err(JobError::cancel("not wanted")),
        "panics" => panic!("out of luck"),
        "never ends" => std::future::pending().await,
        _ => Ok(()),
    }
}

#[job(type = "on_dead:tell", queue = "ops", priority = 7, label = "{dead}")]
async fn tell(dead: DeadJob) {
    drop(dead);
}

async fn told(g: &Ground) -> Vec<(JobRow, DeadJob)> {
    let rows = g.memory.list(JobFilter::default().job_type(Tell::TYPE)).await.unwrap();
    let told = |row: JobRow| {
        let payload: serde_json::Value = serde_json::from_str(&row.payload).unwrap();
        (row, serde_json::from_value(payload["dead"].clone()).unwrap())
    };
    rows.into_iter().rev().map(told).collect()
}

async fn fragile_job(g: &Ground, how: &str) -> JobId {
    fragile.enqueue(how.into()).on(&g.queue).await.unwrap().id()
}

#[tokio::test]
async fn every_kind_of_death_is_told_of_once() {
    let kinds = [
        ("fails", 2, "no luck"),
        ("panics", 2, "panicked: out of luck"),
        ("never ends", 2, "timed out after 5s"),
        ("dead", 1, "never again"),
    ];
    for (how, attempts, error) in kinds {
        let g = ground();
        let bystander = g.bystander().await;
        let id = fragile_job(&g, how).await;
        let worker = g.worker().jobs((fragile,)).start().await.unwrap();
        g.pass_until("it is dead", async || g.state(id).await == JobState::Dead).await;
        g.pass(secs(30)).await;
        let mut told = told(&g).await;
        assert_eq!(told.len(), 1, "{how}");
        let (row, dead) = told.remove(0);
        let expected = DeadJob {
            id,
            job_type: Fragile::TYPE.into(),
            queue: "default".into(),
            payload: Some(json!({ "how": how })),
            error: error.into(),
            attempts,
        };
        assert_eq!(dead, expected);
        assert_eq!((&*row.queue, row.priority, row.max_attempts), ("ops", 7, 3), "its own type's options");
        assert!(
            row.label.unwrap().starts_with(&format!("on_dead:fragile {id} is dead after {attempts} attempt"))
        );
        drop(worker);
        g.untouched(bystander).await;
    }
}

#[tokio::test]
async fn an_undecodable_payload_is_told_of_as_it_is() {
    let g = ground();
    for payload in [r#"{"why":1}"#, "no JSON"] {
        let new = NewJob { max_attempts: 1, ..NewJob::new(Fragile::TYPE, payload) };
        g.memory.enqueue(vec![new], g.queue.clock().now()).await.unwrap();
    }
    g.worker().jobs((fragile,)).drain().await.unwrap();
    let told: Vec<_> = told(&g).await.into_iter().map(|(_, dead)| dead.payload).collect();
    assert!(told.contains(&Some(json!({ "why": 1 }))) && told.contains(&None), "{told:?}");
}

#[tokio::test]
async fn what_ends_otherwise_is_not_told_of() {
    let g = ground();
    let ids = [fragile_job(&g, "cancel").await, fragile_job(&g, "fine").await];
    g.worker().jobs((fragile,)).drain().await.unwrap();
    assert_eq!(g.state(ids[0]).await, JobState::Cancelled);
    assert_eq!(g.state(ids[1]).await, JobState::Completed);
    assert_eq!(told(&g).await, []);
}

#[tokio::test]
async fn a_job_that_a_person_runs_again_and_that_dies_again_is_told_of_again() {
    let g = ground();
    let id = fragile_job(&g, "dead").await;
    for deaths in 1..4 {
        g.worker().jobs((fragile,)).drain().await.unwrap();
        assert_eq!((g.state(id).await, told(&g).await.len()), (JobState::Dead, deaths));
        g.queue.retry(id).await.unwrap();
    }
}

async fn lose(g: &Ground, types: &[&str]) -> WorkerId {
    let new = NewWorker { beat: secs(5), queues: "all".into() };
    let lost = g.memory.register(new, g.queue.clock().now()).await.unwrap();
    g.memory.set_life(lost, Life::Gone);
    let set = ClaimSet { job_types: types.iter().map(|name| name.to_string()).collect(), queues: None };
    let claim = Claim { worker: lost, set: Arc::new(set), limit: 100, standing: false };
    assert_eq!(g.memory.claim(claim, g.queue.clock().now()).await.unwrap().len(), 1);
    lost
}

#[tokio::test]
async fn the_last_attempt_of_a_lost_worker_is_told_of_by_its_rescuer() {
    let g = ground();
    let id = fragile.enqueue("fine".into()).max_attempts(1).on(&g.queue).await.unwrap().id();
    lose(&g, &[Fragile::TYPE]).await;
    // The rescuer's own set does not have the type; it is linked all the same.
    let _rescuer = g.start(1).await;
    g.pass(secs(5)).await;
    assert_eq!(g.state(id).await, JobState::Dead);
    let told = told(&g).await;
    assert_eq!(told.len(), 1);
    let dead = &told[0].1;
    assert_eq!((dead.id, dead.attempts, &dead.payload), (id, 1, &Some(json!({ "how": "fine" }))));
    assert!(dead.error.contains("worker lost"), "{}", dead.error);
}

/// Who is to be told of it, only a program knows that has the type linked.
#[tokio::test]
async fn the_last_attempt_of_a_type_that_is_not_linked_is_left_to_a_program_that_has_it() {
    let g = ground();
    let new = |max_attempts| NewJob { max_attempts, ..NewJob::new("on_dead:elsewhere", "{}") };
    let mut ids = Vec::new();
    for max_attempts in [1, 2] {
        let enqueued = g.memory.enqueue(vec![new(max_attempts)], g.queue.clock().now()).await.unwrap();
        ids.push(enqueued[0].id);
        lose(&g, &["on_dead:elsewhere"]).await;
    }
    let _rescuer = g.start(1).await;
    g.pass(secs(30)).await;
    assert_eq!(g.state(ids[0]).await, JobState::Running, "shown as held by a worker that is gone");
    assert_eq!(g.state(ids[1]).await, JobState::Pending, "another attempt is everybody's");
}

#[tokio::test]
async fn a_payload_that_leaves_no_room_is_left_out() {
    let g = ground();
    let how = "x".repeat(16 << 20);
    let new =
        NewJob { max_attempts: 1, ..NewJob::new(Fragile::TYPE, format!("{:?}", &how[..how.len() - 2])) };
    g.memory.enqueue(vec![new], g.queue.clock().now()).await.unwrap();
    g.worker().jobs((fragile,)).drain().await.unwrap();
    let told = told(&g).await;
    assert_eq!((told.len(), &told[0].1.payload), (1, &None));
}

#[tokio::test]
async fn an_end_that_the_store_does_not_take_kills_the_job_and_is_told_of() {
    let g = ground();
    let id = fragile_job(&g, "fine").await;
    g.rig.fail("complete", jobq::StoreError::Invalid("not this".into()));
    g.worker().jobs((fragile,)).drain().await.unwrap();
    assert_eq!((g.state(id).await, told(&g).await.len()), (JobState::Dead, 1));
}

#[tokio::test]
async fn a_robbed_job_is_told_of_by_nobody_but_its_next_holder() {
    let g = ground();
    let id = fragile_job(&g, "never ends").await;
    let worker = g.worker().jobs((fragile,)).concurrency(1).start().await.unwrap();
    until("it runs", async || g.state(id).await == JobState::Running).await;
    g.rob(id, Next::Cancelled).await;
    g.pass(secs(10)).await;
    drop(worker);
    assert_eq!(told(&g).await, []);
}
