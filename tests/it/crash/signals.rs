//! Processes that are told to end: how long they take, and what becomes of their jobs.

use super::*;
use Signal::{SIGHUP, SIGINT, SIGTERM};

/// The grace of the child's worker.
const GRACE: Duration = Duration::from_secs(1);
/// A loaded machine may be this much slower than what is promised.
const SLACK: Duration = Duration::from_millis(500);

/// Sends the signal; how long the child took to end, and with which code.
fn ends_after(child: &mut Child, signal: Signal) -> (Duration, Option<i32>) {
    let began = Instant::now();
    child.signal(signal);
    let status = child.wait(PATIENCE);
    (began.elapsed(), status.code())
}

async fn running(scene: &Scene, count: u64) {
    within(PATIENCE, "they run", async || scene.journals().count("start") as u64 >= count).await;
}

/// The worker has signed in, and waits for work.
async fn signed_in(scene: &Scene, child: &Child) {
    let there = async || scene.store.workers().await.unwrap().iter().any(|row| row.pid == child.pid());
    within(PATIENCE, "signed in", there).await;
}

#[tokio::test]
async fn an_idle_worker_ends_in_under_a_second() {
    let scene = Scene::new().await;
    for signal in [SIGTERM, SIGINT, SIGHUP] {
        let mut child = scene.worker(2);
        signed_in(&scene, &child).await;
        let (took, code) = ends_after(&mut child, signal);
        assert!(took < Duration::from_secs(1), "{signal}: {took:?}");
        assert_eq!(code, Some(0), "{signal}");
        assert_eq!(child.expect("ended"), "Ok(())");
        let left = scene.store.workers().await.unwrap();
        assert!(left.iter().all(|row| row.pid != child.pid()), "it has signed out");
    }
    scene.is_well().await;
}

#[tokio::test]
async fn two_hundred_short_jobs_in_flight_all_finish() {
    let scene = Scene::new().await;
    let ids = scene.enqueue("slow", (0..200).map(|_| r#"{"millis":400}"#.to_owned())).await;
    let mut child = scene.worker(200);
    running(&scene, 200).await;
    let (took, code) = ends_after(&mut child, SIGTERM);
    assert!(took < GRACE + SLACK, "{took:?}");
    assert_eq!(code, Some(0));
    for id in ids {
        let row = scene.row(id).await;
        assert_eq!((row.state, row.attempts), (JobState::Completed, 1));
    }
    scene.is_well().await;
}

/// Case 061: told to end in the middle of a stream of short jobs, each of which writes when its handler has ended.
#[tokio::test]
async fn every_handler_that_ended_before_the_process_did_has_its_result_stored() {
    let scene = Scene::new().await;
    scene.enqueue("note", (0..20_000).map(|n| format!(r#"{{"n":{n}}}"#))).await;
    for signal in [SIGTERM, SIGINT, SIGHUP] {
        let before = scene.journals().count("end") as u64;
        let mut child = scene.worker(8);
        within(PATIENCE, "they run", async || scene.journals().count("end") as u64 >= before + 500).await;
        let (took, code) = ends_after(&mut child, signal);
        assert!(took < GRACE + Duration::from_secs(2) + SLACK, "{signal}: {took:?}");
        assert_eq!(code, Some(0), "{signal}");
        let ended = scene.journals().count("end") as u64;
        println!("{signal}: {ended} ended in {took:?}");
        assert!(ended < 20_000, "{signal}: nothing was left to be told apart");
        assert_eq!(scene.count(JobState::Completed).await, ended, "{signal}");
        assert_eq!(scene.count(JobState::Pending).await, 20_000 - ended, "{signal}: the rest is given back");
    }
    scene.is_well().await;
}

/// Nobody else starts it meanwhile, and it finishes once.
#[tokio::test]
async fn a_stopping_workers_job_is_left_to_it() {
    let scene = Scene::new().await;
    let id = scene.one("slow", r#"{"millis":800}"#, 3).await;
    let mut child = scene.worker(1);
    running(&scene, 1).await;
    let _other = scene.worker(4);
    let (_, code) = ends_after(&mut child, SIGTERM);
    assert_eq!(code, Some(0));
    let row = scene.row(id).await;
    assert_eq!((row.state, row.attempts), (JobState::Completed, 1));
    assert_eq!(scene.journals().count("start"), 1);
    scene.is_well().await;
}

/// Whatever the handler does, the process is gone within the grace and 2 s, and its job can be claimed at once.
#[tokio::test]
async fn handlers_that_ignore_the_end_do_not_keep_the_process() {
    let scene = Scene::new().await;
    for (job_type, code) in [("stubborn", 0), ("blocks", 0), ("spins", jobq::worker::EXIT_STUCK)] {
        let id = scene.one(job_type, "{}", 9).await;
        let before = scene.journals().count("start") as u64;
        let mut child = scene.worker(1);
        running(&scene, before + 1).await;
        let (took, got) = ends_after(&mut child, SIGTERM);
        println!("{job_type}: {took:?}");
        assert!(took >= GRACE && took < GRACE + Duration::from_secs(2) + SLACK, "{job_type}: {took:?}");
        assert_eq!(got, Some(code), "{job_type}");
        let row = scene.row(id).await;
        assert_eq!(
            (row.state, row.attempts),
            (JobState::Pending, 0),
            "{job_type}: given back, and not counted"
        );
        scene.store.cancel(vec![id], SystemClock.now()).await.unwrap();
    }
    scene.is_well().await;
}

#[tokio::test]
async fn a_second_signal_ends_it_within_two_seconds() {
    let scene = Scene::new().await;
    for (first, second) in [(SIGTERM, SIGTERM), (SIGINT, SIGTERM), (SIGHUP, SIGINT)] {
        let id = scene.one("stubborn", "{}", 9).await;
        let before = scene.journals().count("start") as u64;
        let args = [scene.path.to_str().unwrap(), scene.dir.path().to_str().unwrap(), "1", "60000"];
        let mut child = Child::start("work", &args);
        running(&scene, before + 1).await;
        child.signal(first);
        let (began, pressed, mut presses) = (Instant::now(), Duration::from_millis(100), 0);
        while !child.has_ended() {
            tokio::time::sleep(pressed).await;
            // Two signals of one kind are one for the kernel while the first is not yet taken: press again and again.
            // Of another kind one must do.
            if first == second || presses == 0 {
                child.signal(second);
                presses += 1;
            }
            assert!(began.elapsed() < PATIENCE);
        }
        let (took, code) = (began.elapsed() - pressed, child.wait(PATIENCE).code());
        assert!(took < Duration::from_secs(2) + SLACK, "{first} {second}: {took:?}");
        assert_eq!(code, Some(0), "{first} {second}");
        assert_eq!(scene.row(id).await.state, JobState::Pending, "{first} {second}");
        scene.store.cancel(vec![id], SystemClock.now()).await.unwrap();
    }
    scene.is_well().await;
}

/// A worker whose database is renamed away says so and ends, and its process fails.
#[tokio::test]
async fn a_worker_whose_database_moves_ends_within_five_seconds_and_fails() {
    let scene = Scene::new().await;
    let mut child = scene.worker(2);
    signed_in(&scene, &child).await;
    let moved = scene.dir.path().join("moved");
    fs::create_dir(&moved).unwrap();
    for part in ["app.db", "app.db-wal", "app.db-shm"] {
        fs::rename(scene.dir.path().join(part), moved.join(part)).unwrap();
    }
    let status = child.wait(Duration::from_secs(5));
    assert_eq!(status.code(), Some(1));
    let reason = child.expect("ended");
    assert!(reason.contains("Moved"), "{reason}");
}

/// The database is locked by somebody else all the while.
#[tokio::test]
async fn a_locked_database_does_not_keep_the_process() {
    let scene = Scene::new().await;
    let id = scene.one("stubborn", "{}", 9).await;
    let mut busy = scene.worker(1);
    running(&scene, 1).await;
    let db = scene.raw();
    db.execute_batch("BEGIN IMMEDIATE").unwrap();
    // One that runs a job, and one that can't even sign in.
    let mut starting = scene.worker(1);
    let (took, code) = ends_after(&mut starting, SIGTERM);
    assert!(took < Duration::from_secs(2) + SLACK, "while it starts: {took:?}");
    assert_eq!(code, Some(0));
    let (took, _) = ends_after(&mut busy, SIGTERM);
    assert!(took < GRACE + Duration::from_secs(2) + SLACK, "while it runs: {took:?}");
    db.execute_batch("COMMIT").unwrap();
    // Its release could not be stored: the job is rescued as of any lost worker.
    let _next = scene.worker(1);
    within(Duration::from_secs(5), "it runs again", async || scene.row(id).await.lease == 2).await;
    scene.is_well().await;
}
