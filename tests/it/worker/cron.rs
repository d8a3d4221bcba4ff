//! Schedules at work: each tick once and at its second, whatever workers, clocks and other schedules do.

use super::ground::*;
use jobq::{
    Clock, JobId, JobState, Schedule, ScheduleError, ScheduleRow,
    prelude::*,
    schedule::{CatchUp, Overlap},
    store::{NewSchedule, Source, Store},
};
use std::{collections::BTreeSet, time::Duration};

/// 2026-01-01T00:00:00Z, where the ground's clock begins.
const START: i64 = 1_767_225_600_000;

/// Its own attribute says when it runs. So rarely that no other test meets it.
#[job(
    type = "cron:yearly",
    cron = "30 2 1 7 *",
    tz = "Europe/Warsaw",
    catch_up = once("6h"),
    overlap = skip,
    queue = "night",
    label = "The year's turn"
)]
async fn yearly(#[data] stage: &Stage) {
    stage.enter(1);
}

/// One that a file may have a schedule of from a time when its attribute said so.
#[job(type = "cron:former", aliases = ["cron:older"])]
async fn former() {}

fn says_fine() -> Says {
    Says { what: "fine".into() }
}

fn every_five_seconds() -> Schedule {
    Schedule::new("five", "*/5 * * * * *", says_fine())
}

impl Ground {
    async fn schedule(&self, schedule: Schedule) -> ScheduleRow {
        self.queue.schedule(schedule).await.unwrap()
    }

    async fn named(&self, name: &str) -> ScheduleRow {
        self.queue.find_schedule(name).await.unwrap().expect(name)
    }

    /// The instants of a schedule's ticks, in seconds since the start, first to latest.
    async fn ticks(&self, name: &str) -> Vec<f64> {
        let ticks = self.queue.schedule_ticks(name).await.unwrap();
        ticks.iter().rev().map(|tick| (tick.at - START) as f64 / 1000.0).collect()
    }

    /// How many jobs there are, however they stand.
    async fn jobs(&self) -> usize {
        self.queue.list(JobFilter::default().limit(1000)).await.unwrap().len()
    }
}

// ---- ticks -----------------------------------------------------------------------------------------------------

#[tokio::test]
async fn each_tick_has_its_job_at_its_second() {
    let g = ground();
    let bystander = g.bystander().await;
    let worker = g.worker().jobs(says).start().await.unwrap();
    g.schedule(every_five_seconds()).await;
    g.pass(secs(17)).await;
    assert_eq!(g.ticks("five").await, [5.0, 10.0, 15.0]);
    for tick in g.queue.schedule_ticks("five").await.unwrap() {
        let id = tick.job.unwrap();
        g.until_state(id, JobState::Completed).await;
        let job = g.row(id).await;
        assert_eq!((job.run_at, job.payload.as_str()), (tick.at, r#"{"what":"fine"}"#));
        assert!(job.created_at - tick.at <= 50, "made {} ms after its time", job.created_at - tick.at);
    }
    let row = g.named("five").await;
    assert_eq!((row.last_run, row.next_run), (Some(START + 15_000), START + 20_000));
    worker.stop().await.unwrap();
    g.untouched(bystander).await;
}

#[tokio::test]
async fn many_workers_make_each_tick_once() {
    let g = ground();
    let mut workers = Vec::new();
    for _ in 0..5 {
        workers.push(g.worker().jobs(says).start().await.unwrap());
    }
    g.schedule(Schedule::new("second", "* * * * * *", says_fine())).await;
    g.pass(secs(20)).await;
    assert_eq!(g.ticks("second").await, (1..=20).map(f64::from).collect::<Vec<_>>());
    assert_eq!(g.jobs().await, 20);
    for worker in workers {
        worker.stop().await.unwrap();
    }
}

#[tokio::test]
async fn a_busy_workers_late_look_makes_every_tick_and_exact_seconds() {
    let g = ground();
    let worker = g.worker().jobs(says).start().await.unwrap();
    g.schedule(Schedule::new("second", "* * * * * *", says_fine()).catch_up(CatchUp::Skip)).await;
    g.pass(Duration::from_millis(3_200)).await;
    g.rig.hang("due_schedules");
    g.pass(Duration::from_millis(4_500)).await;
    assert_eq!(g.ticks("second").await.len(), 3);
    g.rig.heal();
    g.pass(Duration::from_millis(400)).await;
    assert_eq!(g.ticks("second").await, (1..=8).map(f64::from).collect::<Vec<_>>());
    worker.stop().await.unwrap();
}

#[tokio::test]
async fn a_store_that_refuses_for_a_while_costs_no_tick() {
    let g = ground();
    let worker = g.worker().jobs(says).start().await.unwrap();
    g.schedule(every_five_seconds()).await;
    g.pass(secs(4)).await;
    g.rig.fail("tick", busy());
    g.pass(secs(4)).await;
    assert_eq!(g.ticks("five").await, [0.0; 0]);
    g.rig.heal();
    g.pass(secs(5)).await;
    assert_eq!(g.ticks("five").await, [5.0, 10.0]);
    assert_eq!(g.named("five").await.error, None, "the store's trouble is not the schedule's");
    worker.stop().await.unwrap();
}

#[tokio::test]
async fn ticks_go_on_after_the_sweep_that_makes_them_has_panicked() {
    let g = ground();
    let worker = g.worker().jobs(says).start().await.unwrap();
    g.schedule(every_five_seconds()).await;
    g.rig.panic("due_schedules");
    g.pass(secs(3)).await;
    g.rig.heal();
    g.pass(secs(8)).await;
    assert_eq!(g.ticks("five").await, [5.0, 10.0]);
    worker.stop().await.unwrap();
}

#[tokio::test]
async fn a_worker_ticks_for_the_jobs_that_it_knows_only() {
    let g = ground();
    let bystander = g.bystander().await;
    let worker = g.worker().jobs(gated).start().await.unwrap();
    g.schedule(every_five_seconds()).await;
    g.pass(secs(11)).await;
    assert_eq!(g.ticks("five").await, [0.0; 0]);
    let other = g.worker().jobs(says).start().await.unwrap();
    g.pass(secs(5)).await;
    assert_eq!(g.ticks("five").await, [10.0, 15.0], "one for those that were missed");
    worker.stop().await.unwrap();
    other.stop().await.unwrap();
    g.untouched(bystander).await;
}

#[tokio::test]
async fn a_drain_makes_the_ticks_that_are_due() {
    let g = ground();
    g.schedule(Schedule::new("hourly", "@hourly", says_fine())).await;
    let drain = async || g.worker().jobs(says).drain().await.unwrap().completed;
    assert_eq!(drain().await, 0);
    g.clock.advance(hours(1));
    assert_eq!((drain().await, drain().await), (1, 0));
    g.clock.advance(mins(150));
    assert_eq!(drain().await, 1);
    assert_eq!(g.ticks("hourly").await, [3600.0, 3.0 * 3600.0]);
}

#[tokio::test]
async fn one_schedule_in_trouble_is_shown_and_harms_no_other() {
    let g = ground();
    // Ten seconds before clocks in Warsaw jump over half past two.
    let change = "2026-03-29T00:59:50Z".parse::<chrono::DateTime<chrono::Utc>>().unwrap();
    g.clock.step_wall(change.timestamp_millis() - START);
    for n in 0..8 {
        g.schedule(Schedule::new(format!("well {n}"), "0 1 * * *", says_fine())).await;
    }
    g.schedule(Schedule::new("in the gap", "30 2 * * *", says_fine()).tz("Europe/Warsaw")).await;
    let broken = |id: &str, zone: &str, payload: &str| NewSchedule {
        id: id.into(),
        job_type: Says::TYPE.into(),
        payload: payload.into(),
        version: 1,
        cron_expr: "* * * * * *".into(),
        tz: zone.into(),
        catch_up: CatchUp::Once,
        overlap: Overlap::Allow,
        source: Source::Dynamic,
        options: "{}".into(),
        next_run: START,
        enabled: None,
    };
    g.memory.put_schedule(broken("a", "Mars/Olympus", r#"{"what":"fine"}"#), START).await.unwrap();
    g.memory.put_schedule(broken("b", "UTC", r#"{"hat":"fine"}"#), START).await.unwrap();
    let log = log();
    let worker = g.worker().jobs(says).start().await.unwrap();
    g.pass(secs(15)).await;
    for name in (0..8).map(|n| format!("well {n}")).chain(["in the gap".into()]) {
        let ticks = g.queue.schedule_ticks(&name).await.unwrap();
        assert_eq!(ticks.len(), 1, "{name}");
        assert_eq!(ticks[0].at, change.timestamp_millis() + 10_000, "{name}");
    }
    assert_eq!(g.jobs().await, 9);
    let error = async |name| g.named(name).await.error.unwrap_or_default();
    assert!(error("a").await.starts_with("there is no time zone `Mars/Olympus`"), "{}", error("a").await);
    assert!(error("b").await.starts_with("the payload does not fit"), "{}", error("b").await);
    assert_eq!(log.text().matches("a schedule can't tick").count(), 2, "told once");
    worker.stop().await.unwrap();
}

// ---- missed ticks ----------------------------------------------------------------------------------------------

#[tokio::test]
async fn a_tick_of_the_time_of_a_restart_is_made_soon_after_it_with_its_own_time() {
    let g = ground();
    g.clock.advance(hours(23));
    g.schedule(Schedule::new("nightly", "@daily", says_fine())).await;
    let worker = g.worker().jobs(says).start().await.unwrap();
    g.pass(secs(1)).await;
    worker.stop().await.unwrap();
    g.clock.advance(hours(1) + secs(29));
    let worker = g.worker().jobs(says).start().await.unwrap();
    g.pass(secs(1)).await;
    assert_eq!(g.ticks("nightly").await, [24.0 * 3600.0]);
    // Later than an hour it is too late.
    worker.stop().await.unwrap();
    g.clock.advance(hours(25) + mins(1));
    let worker = g.worker().jobs(says).start().await.unwrap();
    g.pass(secs(1)).await;
    assert_eq!(g.ticks("nightly").await.len(), 1);
    assert_eq!(g.named("nightly").await.next_run, START + 72 * 3_600_000);
    worker.stop().await.unwrap();
}

#[tokio::test]
async fn each_policy_makes_up_what_it_says() {
    let g = ground();
    for (name, policy) in [
        ("once", CatchUp::Once),
        ("within", CatchUp::OnceWithin(mins(20))),
        ("all", CatchUp::All(3)),
        ("skip", CatchUp::Skip),
    ] {
        g.schedule(Schedule::new(name, "@hourly", says_fine()).catch_up(policy)).await;
    }
    g.clock.advance(hours(5) + mins(30));
    let worker = g.worker().jobs(says).start().await.unwrap();
    g.pass(secs(1)).await;
    let hours = async |name| g.ticks(name).await.into_iter().map(|tick| tick / 3600.0).collect::<Vec<_>>();
    assert_eq!(hours("once").await, [5.0]);
    assert_eq!(hours("within").await, [0.0; 0]);
    assert_eq!(hours("all").await, [3.0, 4.0, 5.0]);
    assert_eq!(hours("skip").await, [0.0; 0]);
    g.pass_until("the next hour ticks for all", async || hours("skip").await == [6.0]).await;
    assert_eq!(hours("within").await, [6.0]);
    worker.stop().await.unwrap();
}

#[tokio::test]
async fn a_worker_that_was_stopped_over_ticks_makes_one_as_soon_as_it_goes_on() {
    let g = ground();
    let worker = g.worker().jobs(says).start().await.unwrap();
    g.schedule(every_five_seconds()).await;
    g.pass(secs(2)).await;
    g.clock.advance(secs(20));
    rest().await;
    assert_eq!(g.ticks("five").await, [20.0]);
    g.pass(secs(4)).await;
    assert_eq!(g.ticks("five").await, [20.0, 25.0]);
    worker.stop().await.unwrap();
}

#[tokio::test]
async fn a_clock_set_ahead_makes_one_tick_and_one_set_back_doubles_none_and_silences_none() {
    let g = ground();
    let worker = g.worker().jobs(says).start().await.unwrap();
    g.schedule(every_five_seconds()).await;
    g.schedule(Schedule::new("fixed", "30 0 * * *", says_fine())).await;
    g.pass(secs(11)).await;
    g.clock.step_wall(3_600_000);
    g.pass(secs(8)).await;
    // It was 00:00:11, and is 01:00:11: what half past twelve missed is made, once.
    assert_eq!(g.ticks("five").await, [5.0, 10.0, 3610.0, 3615.0]);
    assert_eq!(g.ticks("fixed").await, [1800.0]);

    g.clock.step_wall(-3_600_000);
    g.pass(secs(20)).await;
    let ticks = g.ticks("five").await;
    assert_eq!(ticks[4..], [3620.0, 3625.0, 3630.0, 3635.0], "the rhythm goes on at once");
    assert_eq!(ticks.iter().map(|tick| *tick as i64).collect::<BTreeSet<_>>().len(), ticks.len());
    // Each ran when it was made, not when the clock is there again.
    assert_eq!(g.queue.list(JobFilter::default().state(JobState::Scheduled)).await.unwrap().len(), 0);
    g.pass_until("half past twelve has come again", async || g.clock.now() > START + 1_801_000).await;
    assert_eq!(g.ticks("fixed").await, [1800.0], "at a time of the day, once");
    worker.stop().await.unwrap();
}

// ---- overlap ---------------------------------------------------------------------------------------------------

#[tokio::test]
async fn a_job_longer_than_its_period_is_never_there_twice_where_overlaps_are_skipped() {
    let g = ground();
    let worker = g.worker().jobs(gated).concurrency(4).start().await.unwrap();
    let long = |name: &str, n| Schedule::new(name, "*/5 * * * * *", Gated { n });
    g.schedule(long("skips", 1).overlap(Overlap::Skip)).await;
    g.schedule(long("allows", 2).overlap(Overlap::Allow)).await;
    g.pass(secs(16)).await;
    let row = g.named("skips").await;
    let first = row.last_job.unwrap();
    assert_eq!((row.skipped, g.state(first).await), (2, JobState::Running));
    assert_eq!(g.ticks("skips").await, [5.0, 10.0, 15.0]);
    assert_eq!(g.stage.entered().iter().filter(|n| **n == 1).count(), 1);
    assert_eq!(g.stage.entered().iter().filter(|n| **n == 2).count(), 3);
    let still = g.queue.run_schedule_now("skips").await;
    assert!(matches!(&still, Err(ScheduleError::StillLive { job, .. }) if *job == first), "{still:?}");

    g.stage.open(1);
    g.until_state(first, JobState::Completed).await;
    g.pass(secs(5)).await;
    let row = g.named("skips").await;
    assert_eq!((row.skipped, row.last_job == Some(first)), (2, false));
    g.stage.open(2);
    worker.stop().await.unwrap();
}

// ---- attributes ------------------------------------------------------------------------------------------------

#[tokio::test]
async fn the_schedule_of_an_attribute_is_laid_by_its_workers_and_ticks_by_its_zone() {
    let g = ground();
    let worker = g.worker().jobs(yearly).start().await.unwrap();
    until("it is laid", async || !g.queue.schedules().await.unwrap().is_empty()).await;
    let row = g.named("cron:yearly").await;
    assert_eq!((&*row.cron_expr, &*row.tz, &*row.catch_up), ("30 2 1 7 *", "Europe/Warsaw", "once(21600s)"));
    assert_eq!((row.overlap, row.source, &*row.payload), (Overlap::Skip, Source::Attribute, "{}"));
    assert_eq!(row.next_run_at().to_rfc3339(), "2026-07-01T00:30:00+00:00");
    worker.stop().await.unwrap();

    g.clock.step_wall(row.next_run - START + 3_600_000);
    assert_eq!(g.worker().jobs(yearly).drain().await.unwrap().completed, 1);
    let job = g.row(g.named("cron:yearly").await.last_job.unwrap()).await;
    assert_eq!((&*job.queue, job.label.as_deref()), ("night", Some("The year's turn")));
    assert_eq!(job.run_at, row.next_run);
}

#[tokio::test]
async fn a_persons_disable_outlives_restarts_and_an_attribute_that_is_gone_takes_its_schedule_along() {
    let g = ground();
    let drain = async || _ = g.worker().jobs((yearly, former)).drain().await.unwrap();
    drain().await;
    let laid = g.named("cron:yearly").await;
    g.queue.disable_schedule("cron:yearly").await.unwrap();
    let stale = |id: &str, job_type: &str, source| NewSchedule {
        id: id.into(),
        job_type: job_type.into(),
        payload: "{}".into(),
        version: 1,
        cron_expr: "@daily".into(),
        tz: "UTC".into(),
        catch_up: CatchUp::Once,
        overlap: Overlap::Allow,
        source,
        options: "{}".into(),
        next_run: START + 1,
        enabled: None,
    };
    for (id, job_type, source) in [
        ("cron:former", "cron:former", Source::Attribute),
        ("cron:older", "cron:older", Source::Attribute),
        ("cron:foreign", "cron:foreign", Source::Attribute),
        ("a person's", "cron:former", Source::Dynamic),
    ] {
        g.memory.put_schedule(stale(id, job_type, source), START).await.unwrap();
    }
    drain().await;
    let names: Vec<_> = g.queue.schedules().await.unwrap().into_iter().map(|row| row.id).collect();
    assert_eq!(names, ["a person's", "cron:foreign", "cron:yearly"]);
    let row = g.named("cron:yearly").await;
    assert!(!row.enabled);
    assert_eq!((row.created_at, row.next_run), (laid.created_at, laid.next_run));

    g.queue.enable_schedule("cron:yearly").await.unwrap();
    let refused = g.queue.schedule(Schedule::new("cron:yearly", "@daily", says_fine())).await;
    assert!(
        matches!(&refused, Err(ScheduleError::FromAttribute(name)) if name == "cron:yearly"),
        "{refused:?}"
    );
    assert!(g.named("cron:yearly").await.enabled);
}

// ---- what people do --------------------------------------------------------------------------------------------

#[tokio::test]
async fn a_schedule_is_changed_run_disabled_and_deleted_while_a_worker_runs() {
    let g = ground();
    let worker = g.worker().jobs(says).start().await.unwrap();
    g.schedule(every_five_seconds().priority(7).queue("often").label("often").max_attempts(1)).await;
    g.pass(secs(6)).await;
    let job = g.row(g.named("five").await.last_job.unwrap()).await;
    assert_eq!((job.priority, &*job.queue, job.max_attempts), (7, "often", 1));
    assert_eq!(job.label.as_deref(), Some("often"));

    let changed = Schedule::raw("five", "*/7 * * * * *", Says::TYPE, serde_json::json!({ "what": "else" }));
    let row = g.schedule(changed).await;
    assert_eq!((row.next_run, row.last_run), (START + 7000, Some(START + 5000)));
    g.pass(secs(5)).await;
    let job = g.row(g.named("five").await.last_job.unwrap()).await;
    assert_eq!((&*job.payload, job.priority, &*job.queue), (r#"{"what":"else"}"#, 0, "default"));
    assert_eq!(g.ticks("five").await, [5.0, 7.0]);

    let by_hand = g.queue.run_schedule_now("five").await.unwrap();
    g.until_state(by_hand, JobState::Completed).await;
    g.queue.disable_schedule("five").await.unwrap();
    g.pass(secs(20)).await;
    assert_eq!(g.ticks("five").await, [5.0, 7.0]);
    g.queue.enable_schedule("five").await.unwrap();
    g.pass(secs(10)).await;
    assert_eq!(g.ticks("five").await, [5.0, 7.0, 35.0], "what it did not tick is not made up");
    g.queue.delete_schedule("five").await.unwrap();
    g.pass(secs(10)).await;
    assert_eq!(g.queue.schedules().await.unwrap(), []);
    assert_eq!(g.jobs().await, 4);
    worker.stop().await.unwrap();
}

#[tokio::test]
async fn what_is_wrong_with_a_schedule_is_said_and_nothing_is_stored() {
    let g = ground();
    let refused = async |schedule: Schedule| g.queue.schedule(schedule).await.unwrap_err().to_string();
    for (schedule, said) in [
        (
            Schedule::new("s", "61 * * * *", says_fine()),
            "schedule `s`: minute `61`: `61` is no minute; write 0 to 59",
        ),
        (
            Schedule::new("s", "@daily", says_fine()).tz("Warsaw"),
            "schedule `s`: there is no time zone `Warsaw`; did you mean",
        ),
        (Schedule::new("s", "0 0 30 2 *", says_fine()), "schedule `s`: `0 0 30 2 *` never comes"),
        (Schedule::new("", "@daily", says_fine()), "\"\" can't be the name of a schedule"),
        (Schedule::new("x".repeat(65), "@daily", says_fine()), "\"xxx"),
        (Schedule::new("s", "@daily", says_fine()).max_attempts(0), ""),
        (Schedule::new("s", "@daily", says_fine()).queue(" "), ""),
        (Schedule::raw("s", "@daily", "no:such", serde_json::json!({})), ""),
        (Schedule::raw("s", "@daily", Says::TYPE, serde_json::json!({ "hat": 1 })), ""),
    ] {
        let why = refused(schedule).await;
        assert!(why.starts_with(said) && !why.is_empty(), "{why}");
    }
    assert_eq!(g.queue.schedules().await.unwrap(), []);
    for gone in [
        g.queue.enable_schedule("s").await,
        g.queue.disable_schedule("s").await,
        g.queue.delete_schedule("s").await,
        g.queue.run_schedule_now("s").await.map(|_: JobId| ()),
    ] {
        assert!(matches!(gone, Err(ScheduleError::NotFound(name)) if name == "s"));
    }
    assert_eq!(g.queue.schedule_ticks("s").await.unwrap(), []);
}
