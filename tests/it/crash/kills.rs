//! SIGKILL at any moment: no acknowledged job is lost, none is done by nobody, none is counted wrong.

use super::*;
use crate::Ids;
use jobq::{
    AttemptOutcome,
    store::{Life, Link, NewFlow, Strand},
};
use serde_json::json;
use std::collections::BTreeMap;

#[tokio::test]
async fn a_killed_workers_job_runs_again_within_five_seconds() {
    let scene = Scene::new().await;
    let mut first = scene.worker(1);
    let id = scene.one("held", r#"{"n":1}"#, 5).await;
    within(PATIENCE, "it runs", async || scene.journals().count("start") == 1).await;
    let _second = scene.worker(1);
    first.kill();
    let took =
        within(Duration::from_secs(5), "it runs again", async || scene.journals().count("start") == 2).await;
    println!("runs again {took:?} after the kill");
    scene.open_gate(1, 2);
    within(PATIENCE, "done", async || scene.row(id).await.state == JobState::Completed).await;
    let row = scene.row(id).await;
    assert_eq!((row.attempts, row.lease, row.result.as_deref()), (2, 2, Some("1")));
    let attempts = scene.store.attempts(id).await.unwrap();
    assert_eq!(attempts[0].outcome, AttemptOutcome::Lost);
    let error = attempts[0].error.as_deref().unwrap();
    assert!(error.contains(&first.pid().to_string()) && error.contains("gone"), "{error}");
    scene.is_well().await;
}

/// What a step did before the kill is done, and what it gave is given to the next attempt.
#[tokio::test]
async fn a_step_that_was_recorded_before_a_kill_never_runs_again() {
    let scene = Scene::new().await;
    let mut first = scene.worker(1);
    let id = scene.one("steps", r#"{"n":1}"#, 5).await;
    within(PATIENCE, "one is recorded", async || scene.journals().count("recorded") == 1).await;
    first.kill();
    let _second = scene.worker(1);
    within(PATIENCE, "it runs again", async || scene.journals().count("recorded") == 2).await;
    scene.open_gate(1, 2);
    within(PATIENCE, "done", async || scene.row(id).await.state == JobState::Completed).await;
    let row = scene.row(id).await;
    assert_eq!((row.lease, row.result.as_deref()), (2, Some("[2,3]")));
    let journals = scene.journals();
    assert_eq!((journals.count("start"), journals.count("one"), journals.count("two")), (2, 1, 1));
    let steps = scene.store.steps(id).await.unwrap();
    assert_eq!(
        steps.iter().map(|step| (&*step.name, step.lease)).collect::<Vec<_>>(),
        [("one", 1), ("two", 2)]
    );
    scene.is_well().await;
}

/// A supervisor starts a new worker whenever one is gone. The job that kills them is dead after exactly its limit; the
/// hundred that shared a process with it all finish.
#[tokio::test]
async fn a_job_that_aborts_its_process_is_dead_after_its_limit_and_the_innocent_finish() {
    let scene = Scene::new().await;
    let ended = async || scene.count(JobState::Completed).await + scene.count(JobState::Dead).await;
    let note = |n: usize| NewJob::new("note", format!(r#"{{"n":{n}}}"#));
    let mut jobs: Vec<NewJob> = (0..100).map(note).collect();
    jobs.insert(2, NewJob::new("aborts", "{}"));
    let ids = scene.store.enqueue(jobs, SystemClock.now()).await.unwrap().ids();
    let (mut killed, began) = (BTreeMap::new(), Instant::now());
    let mut worker = scene.worker(4);
    while ended().await < 101 {
        assert!(began.elapsed() < PATIENCE, "{:?}", scene.store.counts().await);
        if worker.has_ended() {
            killed.insert(worker.pid(), SystemClock.now());
            worker = scene.worker(4);
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let poison = scene.row(ids[2]).await;
    let journals = scene.journals();
    assert_eq!((poison.state, journals.starts(poison.id).len()), (JobState::Dead, 3));
    assert!(poison.error.unwrap().starts_with("worker lost"));
    let attempts = scene.store.attempts(poison.id).await.unwrap();
    assert!(attempts.iter().all(|attempt| attempt.outcome == AttemptOutcome::Lost));
    assert_eq!((attempts.len(), killed.len()), (3, 3));
    assert_eq!(scene.count(JobState::Completed).await, 100, "the innocent finish");
    journals.check(&scene, &killed).await;
}

/// Workers are killed and started again at random while they work through many jobs.
#[tokio::test]
async fn workers_killed_at_random_lose_no_job_and_miscount_none() {
    let (scene, mut random) = (Scene::new().await, random());
    let (jobs, kills) = (rounds(400, 20_000), rounds(12, 500));
    let payloads: Vec<_> = (0..jobs).map(|_| format!(r#"{{"millis":{}}}"#, random.u64(0..40))).collect();
    let ids = scene.enqueue("slow", payloads).await;
    let mut workers: Vec<Child> = (0..3).map(|_| scene.worker(4)).collect();
    let mut killed = BTreeMap::new();
    for _ in 0..kills {
        pause(&mut random, 10..200).await;
        let victim = random.usize(0..workers.len());
        killed.insert(workers[victim].pid(), SystemClock.now());
        workers[victim].kill();
        workers[victim] = scene.worker(4);
    }
    within(PATIENCE * 5, "all done", async || scene.count(JobState::Completed).await == jobs as u64).await;
    let journals = scene.journals();
    journals.check(&scene, &killed).await;
    let mut extra = 0;
    for id in ids {
        let row = scene.row(id).await;
        extra += u64::from(row.attempts) - 1;
        let history = scene.store.attempts(id).await.unwrap();
        assert_eq!(history.len(), row.attempts as usize);
        let (last, lost) = history.split_last().unwrap();
        assert_eq!(last.outcome, AttemptOutcome::Completed);
        assert!(lost.iter().all(|attempt| attempt.outcome == AttemptOutcome::Lost), "{lost:?}");
    }
    let effects = journals.count("effect");
    println!("{jobs} jobs, {kills} kills, {extra} attempts lost, {} effects twice", effects - jobs);
    // What runs and what waits to be stored are together twice the slots at most.
    assert!(extra <= kills as u64 * 8, "{extra} attempts lost to {kills} kills of 4 slots");
    assert!(effects >= jobs);
}

/// Killed inside of enqueue, claim and settle transactions: what was answered stands, what was not is whole or absent.
#[tokio::test]
async fn what_was_answered_before_a_kill_stands() {
    let (scene, mut random) = (Scene::new().await, random());
    for _ in 0..rounds(15, 500) {
        let mut child =
            Child::start("churn", &[scene.path.to_str().unwrap(), scene.dir.path().to_str().unwrap()]);
        child.expect("churns");
        pause(&mut random, 1..60).await;
        child.kill();
        let gone = scene.store.workers().await.unwrap();
        assert!(gone.iter().filter(|row| row.pid == child.pid()).all(|row| row.life == Life::Gone));
    }
    let journals = scene.journals();
    println!("{} enqueued, {} completed", journals.count("enqueued"), journals.count("completed"));
    assert!(journals.count("completed") > 0);
    // What the dead have left is drained by one that lives.
    let mut child =
        Child::start("churn", &[scene.path.to_str().unwrap(), scene.dir.path().to_str().unwrap()]);
    child.expect("churns");
    child.kill();
    let workers: Vec<_> = scene.store.workers().await.unwrap().iter().map(|row| row.id).collect();
    let left = scene.store.running(workers).await.unwrap();
    let now = SystemClock.now();
    let lost = left.iter().map(|job| jobq::store::Rescue {
        id: job.id,
        lease: job.lease,
        error: "worker lost".into(),
        next: jobq::store::Next::At(now),
        ties: jobq::store::Ties::ALL,
        on_dead: None,
    });
    scene.store.rescue(lost.collect(), now).await.unwrap();
    let pending: Vec<_> = scene
        .rows()
        .await
        .into_iter()
        .filter(|row| row.state == JobState::Pending)
        .map(|row| row.id)
        .collect();
    scene
        .store
        .cancel(pending.into_iter().filter(|id| *id != scene.bystander.id).collect(), now)
        .await
        .unwrap();
    assert_eq!(scene.count(JobState::Running).await, 0);
    scene.journals().check(&scene, &BTreeMap::new()).await;
}

/// The application's row and its job are there together or not at all, wherever the kill falls.
#[tokio::test]
async fn rows_and_jobs_of_one_transaction_are_equal_after_every_kill() {
    let (scene, mut random) = (Scene::new().await, random());
    let db = scene.raw();
    db.execute_batch("CREATE TABLE users (id INTEGER PRIMARY KEY)").unwrap();
    let mut committed = 0;
    for round in 0..rounds(15, 1000) {
        let mut child = Child::start("users", &[&scene.path]);
        child.expect("begins");
        pause(&mut random, 1..40).await;
        child.kill();
        while let Some(line) = child.line() {
            committed = line.strip_prefix("committed ").map_or(committed, |user| user.parse().unwrap());
        }
        let alone: (i64, i64, i64) = db
            .query_row(
                "SELECT (SELECT count(*) FROM users WHERE id NOT IN (SELECT payload FROM jobs)),
                    (SELECT count(*) FROM jobs WHERE id > 1 AND payload NOT IN (SELECT id FROM users)),
                    (SELECT coalesce(max(id), 0) FROM users)",
                [],
                |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)),
            )
            .unwrap();
        assert_eq!((alone.0, alone.1), (0, 0), "round {round}");
        assert!(alone.2 >= committed, "user {committed} was committed and is lost");
    }
    println!("{committed} users");
    assert!(committed > 0);
    scene.is_well().await;
}

/// The effect and the completion of a job are one, wherever the kill falls.
#[tokio::test]
async fn effects_that_commit_with_their_jobs_completion_happen_exactly_once() {
    let (scene, mut random) = (Scene::new().await, random());
    let db = scene.raw();
    db.execute_batch("CREATE TABLE payments (job TEXT NOT NULL)").unwrap();
    // Payments, jobs that were paid for, and jobs that are completed or held to it by a promise.
    let count = || -> [i64; 3] {
        let sql = "SELECT (SELECT count(*) FROM payments), (SELECT count(DISTINCT job) FROM payments),
                (SELECT count(*) FROM jobs j WHERE state = 3 OR (state = 2 AND EXISTS
                    (SELECT 1 FROM jobq_promises p WHERE p.job = j.id AND p.lease = j.lease)))";
        db.query_row(sql, [], |row| Ok([row.get(0)?, row.get(1)?, row.get(2)?])).unwrap()
    };
    let start = |scene: &Scene| {
        let folder = scene.dir.path().to_str().unwrap();
        let mut child = Child::start("drain", &[scene.path.to_str().unwrap(), folder, "8"]);
        child.expect("ready");
        child.say("go");
        child
    };
    let (mut enqueued, mut unsettled) = (0, 0);
    for round in 0..rounds(25, 600) {
        scene.enqueue("pay", (enqueued..enqueued + 10).map(|n| format!(r#"{{"n":{n}}}"#))).await;
        enqueued += 10;
        let mut child = start(&scene);
        pause(&mut random, 5..60).await;
        child.kill();
        let [payments, paid, completed] = count();
        assert_eq!((payments, payments), (paid, completed), "round {round}");
        let promises = db.query_row("SELECT count(*) FROM jobq_promises", [], |row| row.get::<_, i64>(0));
        unsettled += promises.unwrap();
    }
    // Jobs that were lost more than once are due again within some seconds.
    within(PATIENCE * 5, "all jobs are paid for and completed", async || {
        start(&scene).expect_within("drained", PATIENCE * 5);
        scene.count(JobState::Completed).await == enqueued as u64
    })
    .await;
    println!(
        "{enqueued} jobs; {unsettled} times a kill fell between a commit and what the worker does after it"
    );
    assert_eq!(count(), [enqueued; 3]);
    scene.is_well().await;
}

/// Each link is laid in the transaction that ends the one before: wherever the kill falls, none is missing and none is
/// there twice.
#[tokio::test]
async fn flows_go_on_over_kills_with_no_link_missing_and_none_twice() {
    const HOPS: usize = 8;
    let (scene, mut random) = (Scene::new().await, random());
    let link = |job_type: &str| {
        let link = json!({ "job_type": job_type, "queue": "default", "priority": 0, "max_attempts": 50, "version": 1 });
        serde_json::from_value::<Link>(link).unwrap()
    };
    let chain = |n: usize| {
        let first = NewJob { max_attempts: 50, ..NewJob::new("hop", format!(r#"{{"n":{n}}}"#)) };
        Strand::Job(Box::new(first), vec![link("hop"); HOPS - 1])
    };
    let (mut flows, chains) = (Vec::new(), rounds(10, 60));
    for _ in 0..rounds(4, 40) {
        let flow = NewFlow { strands: (0..chains).map(chain).collect(), follow: vec![link("sum_up")] };
        flows.push(scene.store.enqueue_flow(flow, SystemClock.now()).await.unwrap().id);
    }
    let mut worker = scene.worker(4);
    for _ in 0..rounds(12, 300) {
        pause(&mut random, 5..60).await;
        worker.kill();
        worker = scene.worker(4);
    }
    within(PATIENCE * 10, "all have ended", async || {
        for flow in &flows {
            let row = scene.store.flow(*flow).await.unwrap().unwrap();
            if row.joined_at.is_none() || row.live > 0 {
                return false;
            }
        }
        true
    })
    .await;
    for flow in flows {
        let row = scene.store.flow(flow).await.unwrap().unwrap();
        assert_eq!((row.outcome.succeeded, row.dead), (chains as u64, 0));
        let jobs =
            scene.store.list(JobFilter { limit: 1000, ..JobFilter::default().flow(flow) }).await.unwrap();
        assert_eq!(jobs.len(), chains * HOPS + 1);
        let last = jobs
            .iter()
            .filter(|job| job.result.as_deref() == Some(&*chains.to_string()) && job.job_type == "sum_up");
        assert_eq!(last.count(), 1);
    }
    scene.is_well().await;
}

#[tokio::test]
async fn a_killed_bulk_enqueue_leaves_whole_chunks() {
    let (scene, mut random) = (Scene::new().await, random());
    let mut landings = Vec::new();
    for _ in 0..rounds(6, 100) {
        let before = scene.count(JobState::Pending).await;
        let mut child = Child::start("bulk", &[scene.path.to_str().unwrap(), "40000"]);
        child.expect("begins");
        pause(&mut random, 1..1200).await;
        child.kill();
        let landed = scene.count(JobState::Pending).await - before;
        assert_eq!(landed % 10_000, 0, "{landed} rows landed");
        landings.push(landed);
    }
    println!("landed of 40,000 each: {landings:?}");
    scene.is_well().await;
}

/// Killed while it lays or updates the tables: the next open finishes, and nothing is dirty.
#[tokio::test]
async fn a_killed_open_is_finished_by_the_next() {
    let mut random = random();
    for round in 0..rounds(12, 200) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("app.db");
        if round % 2 == 1 {
            crate::lay_old_file(&path, 0).await;
        }
        let mut child = Child::start("open", &[&path]);
        child.expect("ready");
        child.say("go");
        pause(&mut random, 0..25).await;
        child.kill();
        let store = SqliteStore::open(SqliteOptions::new(&path)).await.unwrap();
        store.enqueue(vec![NewJob::new("a", "1")], 1).await.unwrap();
        let db = rusqlite::Connection::open(&path).unwrap();
        let laid: (i64, String) = db
            .query_row(
                "SELECT count(*), (SELECT * FROM pragma_integrity_check) FROM jobq_migrations",
                [],
                |row| Ok((row.get(0)?, row.get(1)?)),
            )
            .unwrap();
        assert_eq!(laid, (crate::migrations(), "ok".into()));
    }
}
