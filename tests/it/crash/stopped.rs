//! SIGSTOP and SIGCONT: processes that stand still for longer than a rescue waits.
//!
//! On one host a stopped process still holds its lock, so the kernel says that it lives, and nobody robs it: it goes on
//! where it stood. Only its beats count where the lock says nothing, as on another machine; a row that claims another
//! boot makes that so here.

use super::*;
use Signal::SIGCONT;
use jobq::{AttemptOutcome, store::Life};
use std::collections::BTreeMap;

/// The rescue time-out of the child's worker.
const RESCUE: Duration = Duration::from_secs(2);

async fn started(scene: &Scene, count: usize) {
    within(PATIENCE, "they run", async || scene.journals().count("start") >= count).await;
}

#[tokio::test]
async fn a_stopped_process_of_this_host_is_not_robbed_and_goes_on() {
    let scene = Scene::new().await;
    let id = scene.one("held", r#"{"n":1}"#, 5).await;
    let stopped = scene.worker(1);
    started(&scene, 1).await;
    let _other = scene.worker(4);
    scene.freeze(&stopped).await;
    // The other one is at work for longer than the rescue time-out, and leaves this job alone.
    tokio::time::sleep(RESCUE + Duration::from_secs(1)).await;
    let notes = scene.enqueue("note", (0..20).map(|n| format!(r#"{{"n":{n}}}"#))).await;
    within(PATIENCE, "the others are done", async || scene.count(JobState::Completed).await == 20).await;
    assert_eq!(scene.row(id).await.lease, 1);
    let row = scene.store.workers().await.unwrap().into_iter().find(|row| row.pid == stopped.pid()).unwrap();
    assert_eq!(row.life, Life::Alive);
    scene.open_gate(1, 1);
    stopped.signal(SIGCONT);
    within(PATIENCE, "done", async || scene.row(id).await.state == JobState::Completed).await;
    assert_eq!(scene.row(id).await.attempts, 1);
    assert_eq!(notes.len(), 20);
    scene.journals().check(&scene, &BTreeMap::new()).await;
}

/// The zombie: taken for lost by its beats, its jobs run elsewhere, then it wakes. Its result is refused and kept as
/// late, its other handler is told to stop, the successor's runs and results stand, and it works on.
#[tokio::test]
async fn a_zombies_late_result_is_refused_and_recorded_and_its_handler_is_told() {
    let scene = Scene::new().await;
    let late = scene.one("held", r#"{"n":1}"#, 5).await;
    let told = scene.one("held", r#"{"n":2}"#, 5).await;
    let zombie = scene.worker(2);
    started(&scene, 2).await;
    let elsewhere = "UPDATE jobq_workers SET boot = 'another machine'";
    scene.raw().execute(elsewhere, []).unwrap();
    scene.freeze(&zombie).await;
    let successor = scene.worker(2);
    started(&scene, 4).await;
    // The successor's handlers hold; the zombie's first one ends as soon as it wakes.
    assert_eq!((scene.row(late).await.lease, scene.row(told).await.lease), (2, 2));
    let runs = |pid| scene.journals().of("start").filter(|line| line.pid == pid).count();
    assert_eq!((runs(zombie.pid()), runs(successor.pid())), (2, 2));
    scene.open_gate(1, 1);
    zombie.signal(SIGCONT);
    let mine = |word: &str| scene.journals().of(word).any(|line| line.pid == zombie.pid());
    let took = within(Duration::from_secs(5), "told", async || mine("told")).await;
    println!("told {took:?} after it woke");
    within(PATIENCE, "recorded", async || scene.store.attempts(late).await.unwrap()[0].late.is_some()).await;
    let attempts = scene.store.attempts(late).await.unwrap();
    let report = attempts[0].late.as_ref().unwrap();
    assert_eq!((attempts[0].outcome, report.outcome), (AttemptOutcome::Lost, AttemptOutcome::Completed));
    assert_eq!(report.text.as_deref(), Some("1"));
    for id in [late, told] {
        let row = scene.row(id).await;
        assert_eq!(
            (row.state, row.lease, row.result),
            (JobState::Running, 2, None),
            "the successor's run stands"
        );
    }
    scene.open_gate(1, 2);
    scene.open_gate(2, 2);
    for (id, n) in [(late, "1"), (told, "2")] {
        within(PATIENCE, "done", async || scene.row(id).await.state == JobState::Completed).await;
        let row = scene.row(id).await;
        assert_eq!((row.attempts, row.lease, row.result.as_deref()), (2, 2, Some(n)));
    }
    // The zombie works on: only it knows this queue's jobs once the other one is gone.
    drop(successor);
    let after = scene.one("note", r#"{"n":3}"#, 5).await;
    within(PATIENCE, "it works on", async || scene.row(after).await.state == JobState::Completed).await;
    assert_eq!(scene.journals().starts(after)[0].pid, zombie.pid());
    scene.is_well().await;
}

/// Each time the zombie wakes just before its handler returns: one final state, however often.
#[tokio::test]
async fn a_zombie_that_wakes_as_its_handler_returns_leaves_one_final_state() {
    let (scene, mut random) = (Scene::new().await, random());
    let zombie = scene.worker(8);
    signed_in(&scene, &zombie).await;
    let other = scene.worker(8);
    scene.raw().execute("UPDATE jobq_workers SET boot = 'another machine'", []).unwrap();
    for _ in 0..rounds(2, 42) {
        let millis = (0..12).map(|_| format!(r#"{{"millis":{}}}"#, random.u64(2900..3600)));
        scene.enqueue("slow", millis.collect::<Vec<_>>()).await;
        pause(&mut random, 300..600).await;
        scene.freeze(&zombie).await;
        tokio::time::sleep(RESCUE + Duration::from_millis(700)).await;
        zombie.signal(SIGCONT);
        within(PATIENCE, "all done", async || scene.count(JobState::Running).await == 0).await;
    }
    within(PATIENCE, "all done", async || {
        scene.count(JobState::Pending).await + scene.count(JobState::Running).await == 0
    })
    .await;
    drop((zombie, other));
    for row in scene.rows().await.into_iter().filter(|row| row.id != scene.bystander.id) {
        assert_eq!(row.state, JobState::Completed);
        let history = scene.store.attempts(row.id).await.unwrap();
        let completed = history.iter().filter(|attempt| attempt.outcome == AttemptOutcome::Completed);
        assert_eq!(completed.count(), 1, "{history:?}");
    }
    scene.is_well().await;
}

async fn signed_in(scene: &Scene, child: &Child) {
    let there = async || scene.store.workers().await.unwrap().iter().any(|row| row.pid == child.pid());
    within(PATIENCE, "signed in", there).await;
}

/// The machine sleeps: all processes stand still together and wake together, whatever the kernel says of them.
#[tokio::test]
async fn after_a_suspend_of_all_nobody_removes_anybody_and_each_job_ends_once() {
    let scene = Scene::new().await;
    let ids = scene.enqueue("slow", (0..6).map(|_| r#"{"millis":1500}"#.to_owned())).await;
    let workers = [scene.worker(3), scene.worker(3)];
    started(&scene, 6).await;
    scene.raw().execute("UPDATE jobq_workers SET boot = 'another machine'", []).unwrap();
    for worker in &workers {
        scene.freeze(worker).await;
    }
    tokio::time::sleep(RESCUE * 3).await;
    workers.iter().for_each(|worker| worker.signal(SIGCONT));
    within(PATIENCE, "done", async || scene.count(JobState::Completed).await == 6).await;
    for id in ids {
        let row = scene.row(id).await;
        assert_eq!(
            (row.state, row.attempts),
            (JobState::Completed, 1),
            "nobody was judged by the time asleep"
        );
    }
    let there = scene.store.workers().await.unwrap();
    for worker in &workers {
        assert!(there.iter().any(|row| row.pid == worker.pid()), "still signed in");
    }
    scene.journals().check(&scene, &BTreeMap::new()).await;
}
