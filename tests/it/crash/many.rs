//! Many processes on one file.

use super::*;
use std::collections::BTreeMap;

#[tokio::test]
async fn eight_processes_open_an_empty_and_an_old_file_at_once() {
    for old in [false, true] {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("app.db");
        if old {
            crate::lay_old_file(&path, 1).await;
        }
        let mut children: Vec<Child> = (0..8).map(|_| Child::start("open", &[&path])).collect();
        children.iter_mut().for_each(|child| drop(child.expect("ready")));
        children.iter_mut().for_each(|child| child.say("go"));
        for child in &mut children {
            child.expect("opened");
            assert!(child.wait(PATIENCE).success());
        }
        let store = SqliteStore::open(SqliteOptions::new(&path)).await.unwrap();
        let rows = store.list(JobFilter::default()).await.unwrap();
        assert_eq!(rows.len(), 8 + usize::from(old));
        let db = rusqlite::Connection::open(&path).unwrap();
        let versions: i64 =
            db.query_row("SELECT count(*) FROM jobq_migrations", [], |row| row.get(0)).unwrap();
        assert_eq!(versions, crate::migrations());
    }
}

/// Each job is started exactly once, and all eight took part.
#[tokio::test]
async fn eight_processes_drain_ten_thousand_jobs_once_each() {
    let scene = Scene::new().await;
    let ids = scene.enqueue("note", (0..10_000).map(|n| format!(r#"{{"n":{n}}}"#))).await;
    let args = [scene.path.to_str().unwrap(), scene.dir.path().to_str().unwrap(), "4"];
    let mut children: Vec<Child> = (0..8).map(|_| Child::start("drain", &args)).collect();
    children.iter_mut().for_each(|child| drop(child.expect("ready")));
    children.iter_mut().for_each(|child| child.say("go"));
    let drained: Vec<u64> = children
        .iter_mut()
        .map(|child| child.expect_within("drained", PATIENCE * 3).parse().unwrap())
        .collect();
    println!("drained {drained:?}");
    assert_eq!(drained.iter().sum::<u64>(), 10_000);
    let journals = scene.journals();
    assert_eq!(journals.pids("start").len(), 8, "{drained:?}");
    assert_eq!(journals.count("start"), 10_000);
    let started: std::collections::BTreeSet<JobId> = journals.of("start").map(|line| line.id).collect();
    assert_eq!(started, ids.into_iter().collect());
    assert!(journals.0.iter().all(|line| (line.lease, line.attempt) == (1, 1)));
    journals.check(&scene, &BTreeMap::new()).await;
}

/// A limit holds over all processes, also while one after the other is killed, and what a killed one held is free again.
#[tokio::test]
async fn four_processes_never_run_more_at_once_than_a_limit_lets_and_kills_leave_no_slot_taken() {
    let scene = Scene::new().await;
    let jobs = rounds(300, 5000) as u64;
    let bystander = scene.one("slow", r#"{"millis":1}"#, 3).await;
    scene.enqueue("scarce", (0..jobs).map(|_| r#"{"millis":4}"#.to_owned())).await;
    let mut workers: Vec<Child> = (0..4).map(|_| scene.worker(4)).collect();
    for _ in 0..rounds(4, 60) {
        let before = scene.count(JobState::Completed).await;
        within(PATIENCE, "some end", async || scene.count(JobState::Completed).await > before + 5).await;
        let mut killed = std::mem::replace(&mut workers[0], scene.worker(4));
        killed.kill();
        workers.rotate_left(1);
    }
    within(PATIENCE * 5, "all end", async || scene.count(JobState::Completed).await == jobs + 1).await;
    let journals = scene.journals();
    assert_eq!(journals.count("over"), 0, "more than three ran at once");
    assert!(journals.pids("start").len() >= 4);
    assert_eq!(scene.row(bystander).await.state, JobState::Completed);
    let limits = scene.store.limits(0).await.unwrap();
    assert_eq!((limits.len(), limits[0].running), (1, 0));
    scene.is_well().await;
}
