//! An every-second schedule under kills: each tick has one job, and none is left out while a worker lives.

use super::*;
use jobq::{
    schedule::{CatchUp, Overlap},
    store::{NewSchedule, Source},
};
use std::collections::BTreeMap;

/// Processes whose zones have nothing to do with what is stored.
const ZONES: [&str; 3] = ["UTC", "Asia/Kathmandu", "America/St_Johns"];

impl Scene {
    /// A child with a worker, in a process of this zone.
    fn worker_in(&self, zone: &str) -> Child {
        let args = [self.path.to_str().unwrap(), self.dir.path().to_str().unwrap(), "2", "1000"];
        let mut command = Child::command("work", &args);
        command.env("TZ", zone);
        let mut child = Child::spawn(command);
        child.expect("runs");
        child
    }

    /// Lays the schedule; its first tick.
    async fn every_second(&self, catch_up: CatchUp) -> Millis {
        let now = SystemClock.now();
        let next_run = now / 1000 * 1000 + 2000;
        let schedule = NewSchedule {
            id: "second".into(),
            job_type: "note".into(),
            payload: r#"{"n":1}"#.into(),
            version: 1,
            cron_expr: "* * * * * *".into(),
            tz: "Australia/Lord_Howe".into(),
            catch_up,
            overlap: Overlap::Allow,
            source: Source::Dynamic,
            options: r#"{"max_attempts":100}"#.into(),
            next_run,
            enabled: None,
        };
        assert!(self.store.put_schedule(schedule, now).await.unwrap());
        next_run
    }
}

/// How many jobs each second has that is in the rows of jobs.
async fn jobs_of_seconds(scene: &Scene) -> BTreeMap<Millis, usize> {
    let mut pages = scene.queue().pages(JobFilter::default().job_type("note").limit(1000));
    let mut seconds = BTreeMap::new();
    while let Some(page) = pages.next().await.unwrap() {
        for job in page {
            assert_eq!(job.run_at % 1000, 0, "a tick is a whole second: {job:?}");
            *seconds.entry(job.run_at).or_insert(0) += 1;
        }
    }
    seconds
}

#[tokio::test]
async fn each_second_has_one_job_while_one_process_after_the_other_is_killed() {
    let scene = Scene::new().await;
    let kills = if campaign() { 200 } else { 12 };
    // However late the next one looks: nothing is collapsed.
    let first = scene.every_second(CatchUp::All(1000)).await;
    let mut workers: Vec<_> = ZONES.map(|zone| scene.worker_in(zone)).into();
    for kill in 0..kills {
        tokio::time::sleep(Duration::from_millis(fastrand::u64(300..900))).await;
        workers[kill % 3].kill();
        workers[kill % 3] = scene.worker_in(ZONES[kill % 3]);
    }
    let told = SystemClock.now() / 1000 * 1000;
    let patience = Instant::now() + Duration::from_secs(30);
    let row = loop {
        let row = scene.store.schedules(Some("second".into())).await.unwrap().remove(0);
        if row.last_run >= Some(told) {
            break row;
        }
        assert!(Instant::now() < patience, "{row:?}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    };
    scene.store.disable_schedule("second".into(), told).await.unwrap();
    workers.iter().for_each(|worker| worker.signal(Signal::SIGTERM));
    drop(workers);

    let seconds = jobs_of_seconds(&scene).await;
    let expected: BTreeMap<_, _> = (first..=row.last_run.unwrap().max(*seconds.last_key_value().unwrap().0))
        .step_by(1000)
        .map(|at| (at, 1))
        .collect();
    println!("{} ticks, {kills} kills", seconds.len());
    assert_eq!(seconds, expected);
    assert!(
        seconds.len() as Millis > (told - first) / 1000 && told > first,
        "one for each second of the kills"
    );
    let bystander = scene.store.get(scene.bystander.id).await.unwrap().unwrap();
    assert_eq!(bystander, scene.bystander);
}

#[tokio::test]
async fn a_process_that_was_stopped_over_ticks_makes_one_within_seconds_of_going_on() {
    let scene = Scene::new().await;
    let worker = scene.worker_in("UTC");
    scene.every_second(CatchUp::Once).await;
    let last = async || scene.store.schedules(Some("second".into())).await.unwrap()[0].last_run;
    let until = async |at: Millis| {
        let patience = Instant::now() + Duration::from_secs(30);
        while last().await < Some(at) {
            assert!(Instant::now() < patience, "no tick since {at}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    until(1).await;
    scene.freeze(&worker).await;
    let stopped = last().await.unwrap();
    tokio::time::sleep(Duration::from_secs(13)).await;
    let resumed = SystemClock.now() / 1000 * 1000;
    worker.signal(Signal::SIGCONT);
    until(resumed).await;
    let seconds = jobs_of_seconds(&scene).await;
    assert!(seconds.values().all(|jobs| *jobs == 1), "{seconds:?}");
    let meanwhile = seconds.range(stopped + 1000..resumed).count();
    assert!(meanwhile <= 1, "{meanwhile} made up for: {seconds:?}");
}
