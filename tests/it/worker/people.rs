//! What people do to jobs while workers run, from this process and from another one.

use super::ground::*;
use crate::child::Child;
use jobq::{
    JobId, JobQueue, JobState, Paused, QueueError, SqliteOptions, SqliteStore, StoreError, SystemClock,
    prelude::*,
};
use std::{sync::Arc, time::Duration};

// ---- pauses ----------------------------------------------------------------------------------------------------

#[tokio::test]
async fn a_pause_ends_at_its_time_without_a_poll() {
    let g = ground();
    let bystander = g.bystander().await;
    let worker = g.worker().jobs((says,)).poll_interval(hours(1)).start().await.unwrap();
    g.queue.pause_queue("default").lasting(secs(60)).await.unwrap();
    let id = g.says("fine").await;
    g.pass(Duration::from_millis(59_950)).await;
    assert_eq!(g.state(id).await, JobState::Pending);
    g.pass(Duration::from_millis(100)).await;
    g.until_state(id, JobState::Completed).await;
    assert_eq!(g.queue.pauses().await.unwrap(), []);
    worker.stop().await.unwrap();
    g.untouched(bystander).await;
}

#[tokio::test]
async fn what_runs_when_its_type_is_paused_runs_on_and_nothing_of_it_starts() {
    let g = ground();
    let worker = g.start(2).await;
    let running = g.gated(1).await;
    g.stage.until_entered(1).await;
    g.queue.pause_type::<Gated>().note("too hot").by("ada").await.unwrap();
    let (paused, other) = (g.gated(2).await, g.says("fine").await);
    g.until_state(other, JobState::Completed).await;
    g.stage.open(1);
    g.until_state(running, JobState::Completed).await;
    assert_eq!(g.state(paused).await, JobState::Pending);
    let pauses = g.queue.pauses().await.unwrap();
    assert_eq!((pauses[0].by.as_deref(), pauses[0].note.as_deref()), (Some("ada"), Some("too hot")));
    assert!(g.queue.resume(pauses[0].what.clone()).await.unwrap());
    g.stage.open(2);
    g.until_state(paused, JobState::Completed).await;
    worker.stop().await.unwrap();
}

#[tokio::test]
async fn a_drain_leaves_what_is_paused() {
    let g = ground();
    g.queue.pause_queue("mail").await.unwrap();
    let paused = says.enqueue("fine".into()).queue("mail").on(&g.queue).await.unwrap().id();
    let other = g.says("fine").await;
    assert_eq!(g.worker().jobs((says,)).drain().await.unwrap().completed, 1);
    assert_eq!((g.state(paused).await, g.state(other).await), (JobState::Pending, JobState::Completed));
}

#[tokio::test]
async fn a_pause_that_makes_no_sense_is_refused_with_a_reason() {
    let g = ground();
    let past = chrono::DateTime::from_timestamp_millis(jobq::Clock::now(&g.clock)).unwrap();
    let refused = [
        g.queue.pause_queue(" mail").await,
        g.queue.pause_queue("").await,
        g.queue.pause_job_type("").await,
        g.queue.pause_queue("mail").until(past).await,
        g.queue.pause_queue("mail").lasting(Duration::ZERO).await,
    ];
    for answer in refused {
        assert!(
            matches!(&answer, Err(QueueError::Settings(why)) if why.contains("can't be paused")),
            "{answer:?}"
        );
    }
    let long = g.queue.pause_queue("mail").note("x".repeat(2000)).await;
    assert!(matches!(long, Err(QueueError::Store(StoreError::Invalid(_)))), "{long:?}");
    assert_eq!(g.queue.pauses().await.unwrap(), []);
    assert!(!g.queue.resume_queue("mail").await.unwrap());
}

#[test]
fn a_pause_is_plain_json() {
    let pause = jobq::Pause {
        what: Paused::JobType("report".into()),
        paused_at: 0,
        ends_at: Some(1000),
        by: None,
        note: Some("n".into()),
    };
    let json = r#"{"kind":"job_type","name":"report","paused_at":"1970-01-01T00:00:00Z","ends_at":"1970-01-01T00:00:01Z","by":null,"note":"n"}"#;
    assert_eq!(serde_json::to_string(&pause).unwrap(), json);
}

// ---- from another process --------------------------------------------------------------------------------------

/// A file with a worker on it here, and another process that acts on its jobs as people do.
struct Shared {
    queue: JobQueue,
    stage: Stage,
    person: Child,
    _dir: tempfile::TempDir,
}

impl Shared {
    async fn lay() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("app.db");
        let store = SqliteStore::open(SqliteOptions::new(&path)).await.unwrap();
        let queue = JobQueue::with_store(Arc::new(store), Arc::new(SystemClock));
        let mut person = Child::start("act", &[path.to_str().unwrap()]);
        person.expect("ready");
        Self { queue, stage: Stage::default(), person, _dir: dir }
    }

    fn worker(&self) -> Worker {
        Worker::new(&self.queue).data(self.stage.clone()).jobs((gated, says, stubborn))
    }

    fn act(&mut self, what: &str) -> String {
        self.person.say(what);
        self.person.expect("did")
    }

    async fn says(&self, queue: &'static str) -> JobId {
        says.enqueue("fine".into()).queue(queue).on(&self.queue).await.unwrap().id()
    }

    async fn until_state(&self, id: JobId, state: JobState) {
        let now = async || self.queue.get(id).await.unwrap().unwrap().state;
        until(format!("{id} is {state}"), async || now().await == state).await;
    }
}

#[tokio::test]
async fn a_pause_made_by_another_process_holds_from_the_next_claim_on() {
    let mut shared = Shared::lay().await;
    let worker = shared.worker().poll_interval(hours(1)).start().await.unwrap();
    for _ in 0..5 {
        let before = shared.says("mail").await;
        shared.until_state(before, JobState::Completed).await;
        shared.act("pause mail");
        let paused = shared.says("mail").await;
        let other = shared.says("slow").await;
        shared.until_state(other, JobState::Completed).await;
        shared.until_state(paused, JobState::Pending).await;
        assert_eq!(shared.act("resume mail"), "true");
        shared.until_state(paused, JobState::Completed).await;
    }
    worker.stop().await.unwrap();
}

/// The process that paused is gone before the end.
#[tokio::test]
async fn a_pause_made_by_another_process_ends_at_its_time_without_a_poll() {
    let mut shared = Shared::lay().await;
    let worker = shared.worker().poll_interval(hours(1)).start().await.unwrap();
    shared.act("pause mail 300");
    shared.person.kill();
    let id = shared.says("mail").await;
    let end = shared.queue.store().pauses().await.unwrap()[0].ends_at.unwrap();
    shared.until_state(id, JobState::Completed).await;
    let row = shared.queue.get(id).await.unwrap().unwrap();
    assert!(row.started_at.unwrap() >= end, "{} and not before {end}", row.started_at.unwrap());
    worker.stop().await.unwrap();
}
