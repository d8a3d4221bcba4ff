//! Schedules: a tick is made once, moves its schedule on and brings its job in one commit; and what people do to them.

use super::{ground::*, on_every_store};
use jobq::{
    job::{JobId, MAX_PAYLOAD, NewJob, OnConflict, UniqueKey, Until},
    schedule::{CatchUp, Overlap},
    state::JobState,
    store::{
        Claim, Completion, DueSchedules, NewSchedule, ScheduleRow, Source, StoreError, TICKS_KEPT, Tick,
        TickRow, Ticked, Ties, Turn,
    },
    time::Millis,
};
use std::time::Duration;

on_every_store![
    a_schedule_is_read_back_whole,
    a_schedule_that_cannot_be_one_is_refused,
    a_tick_moves_the_schedule_on_and_brings_its_job,
    a_tick_is_made_once_whoever_makes_it,
    no_tick_is_made_before_one_that_was,
    a_missed_tick_moves_the_schedule_on_and_brings_nothing,
    a_job_that_no_store_takes_moves_no_schedule_on,
    a_tick_is_skipped_and_counted_while_an_earlier_job_is_live,
    a_tick_beside_a_live_job_is_allowed_where_the_schedule_says_so,
    a_run_by_hand_moves_nothing_on_and_counts_as_the_latest_job,
    a_tick_whose_unique_job_is_there_has_that_one,
    the_latest_ticks_are_kept_and_outlive_their_jobs,
    due_schedules_come_by_their_tick_and_the_next_one_is_told,
    a_changed_schedule_keeps_its_tick_unless_its_pattern_or_zone_changed,
    a_disabled_schedule_does_not_tick_and_stays_disabled_when_it_is_put_again,
    a_schedule_of_another_source_is_not_taken_over,
    a_deleted_schedule_is_gone_and_its_jobs_stay,
    what_is_wrong_with_a_schedule_is_shown_until_it_ticks,
    the_job_of_a_tick_answers_a_standing_claim,
];

const MINUTE: Millis = 60_000;

fn schedule(id: &str) -> NewSchedule {
    NewSchedule {
        id: id.into(),
        job_type: WORK.into(),
        payload: "1".into(),
        version: 7,
        cron_expr: "* * * * *".into(),
        tz: "UTC".into(),
        catch_up: CatchUp::Once,
        overlap: Overlap::Allow,
        source: Source::Dynamic,
        options: "{}".into(),
        next_run: NOW + MINUTE,
        enabled: None,
    }
}

async fn put(g: &Ground, schedule: NewSchedule) -> bool {
    g.store.put_schedule(schedule, NOW).await.unwrap()
}

/// Lays the schedule of the law, and one that must stay as it is.
async fn lay(g: &Ground, new: NewSchedule) -> ScheduleRow {
    let id = new.id.clone();
    assert!(put(g, new).await);
    assert!(put(g, NewSchedule { next_run: FAR, ..schedule("bystander") }).await);
    row(g, &id).await
}

async fn row(g: &Ground, id: &str) -> ScheduleRow {
    g.store.schedules(Some(id.into())).await.unwrap().remove(0)
}

fn tick(due: Millis, at: Millis, next: Millis) -> Tick {
    let job = Some(NewJob { run_at: Some(at), ..work() });
    Tick { schedule: "s".into(), turn: Some(Turn { due, at, next }), job, overlap: Overlap::Allow }
}

/// The tick that the schedule of the law waits for, a minute before the next.
async fn tick_now(g: &Ground, overlap: Overlap) -> Ticked {
    let due = row(g, "s").await.next_run;
    g.store.tick(Tick { overlap, ..tick(due, due, due + MINUTE) }, due + 7).await.unwrap()
}

fn enqueued(ticked: Ticked) -> JobId {
    match ticked {
        Ticked::Enqueued(id) => id,
        other => panic!("{other:?}"),
    }
}

async fn a_schedule_is_read_back_whole(g: &Ground) {
    let new = NewSchedule {
        id: "nächtlich".into(),
        payload: r#"{"z":1,"a":[1.50]}"#.into(),
        version: 7,
        cron_expr: "0 30 2 * * MON-FRI".into(),
        tz: "Europe/Warsaw".into(),
        catch_up: CatchUp::OnceWithin(Duration::from_secs(7200)),
        overlap: Overlap::Skip,
        source: Source::Attribute,
        options: r#"{"queue":"mail"}"#.into(),
        enabled: Some(false),
        ..schedule("s")
    };
    let row = lay(g, new).await;
    let expected = ScheduleRow {
        id: "nächtlich".into(),
        job_type: WORK.into(),
        payload: r#"{"z":1,"a":[1.50]}"#.into(),
        version: 7,
        cron_expr: "0 30 2 * * MON-FRI".into(),
        tz: "Europe/Warsaw".into(),
        catch_up: "once(7200s)".into(),
        overlap: Overlap::Skip,
        source: Source::Attribute,
        options: r#"{"queue":"mail"}"#.into(),
        last_run: None,
        next_run: NOW + MINUTE,
        enabled: false,
        last_job: None,
        skipped: 0,
        error: None,
        created_at: NOW,
        updated_at: NOW,
    };
    assert_eq!(row, expected);
    let names: Vec<_> = g.store.schedules(None).await.unwrap().into_iter().map(|row| row.id).collect();
    assert_eq!(names, ["bystander", "nächtlich"]);
    assert_eq!(g.store.schedules(Some("other".into())).await.unwrap(), []);
}

async fn a_schedule_that_cannot_be_one_is_refused(g: &Ground) {
    for wrong in [
        schedule(""),
        schedule(&"x".repeat(65)),
        schedule("a\0b"),
        NewSchedule { job_type: String::new(), ..schedule("s") },
        NewSchedule { payload: "1".repeat(MAX_PAYLOAD + 1), ..schedule("s") },
    ] {
        let refused = g.store.put_schedule(wrong, NOW).await;
        assert!(matches!(refused, Err(StoreError::Invalid(_))), "{refused:?}");
    }
    assert_eq!(g.store.schedules(None).await.unwrap(), []);
}

async fn a_tick_moves_the_schedule_on_and_brings_its_job(g: &Ground) {
    let before = lay(g, schedule("s")).await;
    let bystander = row(g, "bystander").await;
    let (due, next) = (NOW + MINUTE, NOW + 2 * MINUTE);
    let job = enqueued(g.store.tick(tick(due, due, next), due + 7).await.unwrap());
    let after = row(g, "s").await;
    let expected = ScheduleRow {
        last_run: Some(due),
        next_run: next,
        last_job: Some(job),
        updated_at: due + 7,
        ..before
    };
    assert_eq!(after, expected);
    let job = g.row(job).await;
    assert_eq!((job.state, job.run_at, job.created_at), (JobState::Pending, due, due + 7));
    assert_eq!(g.store.ticks("s".into()).await.unwrap(), [TickRow { at: due, job: Some(job.id) }]);
    assert_eq!(row(g, "bystander").await, bystander);
}

async fn a_tick_is_made_once_whoever_makes_it(g: &Ground) {
    lay(g, schedule("s")).await;
    let due = NOW + MINUTE;
    let ticks: Vec<_> = (0..20).map(|_| g.store.tick(tick(due, due, due + MINUTE), due)).collect();
    let mut made = Vec::new();
    for answer in ticks {
        made.push(answer.await.unwrap());
    }
    let not_due = made.iter().filter(|ticked| **ticked == Ticked::NotDue).count();
    assert_eq!(not_due, 19, "{made:?}");
    assert_eq!(g.claim(100, due).await.len(), 1);
    let unknown = Tick { schedule: "unknown".into(), ..tick(due, due, due + MINUTE) };
    assert_eq!(g.store.tick(unknown, due).await.unwrap(), Ticked::NotDue);
}

async fn no_tick_is_made_before_one_that_was(g: &Ground) {
    lay(g, schedule("s")).await;
    let later = NOW + 60 * MINUTE;
    enqueued(g.store.tick(tick(NOW + MINUTE, later, later + MINUTE), later).await.unwrap());
    // The clock went back, and the pattern was changed: the schedule waits for an hour that was ticked already.
    assert!(
        put(g, NewSchedule { cron_expr: "*/2 * * * *".into(), next_run: NOW + MINUTE, ..schedule("s") })
            .await
    );
    for at in [NOW + MINUTE, later - 1, later] {
        let ticked = g.store.tick(tick(NOW + MINUTE, at, at + MINUTE), NOW).await.unwrap();
        assert_eq!(ticked, Ticked::NotDue);
    }
    let (row, after) = (row(g, "s").await, later + MINUTE);
    assert_eq!((row.last_run, row.next_run), (Some(later), NOW + MINUTE));
    enqueued(g.store.tick(tick(NOW + MINUTE, after, after + MINUTE), after).await.unwrap());
    assert_eq!(g.claim(100, after).await.len(), 2);
}

async fn a_missed_tick_moves_the_schedule_on_and_brings_nothing(g: &Ground) {
    let before = lay(g, schedule("s")).await;
    let (due, next) = (NOW + MINUTE, NOW + 9 * MINUTE);
    let missed = Tick { job: None, ..tick(due, due, next) };
    assert_eq!(g.store.tick(missed.clone(), next).await.unwrap(), Ticked::Passed);
    assert_eq!(row(g, "s").await, ScheduleRow { next_run: next, updated_at: next, ..before });
    assert_eq!(g.store.tick(missed, next).await.unwrap(), Ticked::NotDue);
    assert_eq!(g.store.ticks("s".into()).await.unwrap(), []);
    assert_eq!(g.claim(100, next).await, []);
}

async fn a_job_that_no_store_takes_moves_no_schedule_on(g: &Ground) {
    let before = lay(g, schedule("s")).await;
    let wrong = NewJob { max_attempts: 0, ..work() };
    let ticked = g.store.tick(Tick { job: Some(wrong), ..tick(NOW + MINUTE, NOW + MINUTE, FAR) }, NOW).await;
    assert!(matches!(ticked, Err(StoreError::Invalid(_))), "{ticked:?}");
    assert_eq!(row(g, "s").await, before);
}

async fn a_tick_is_skipped_and_counted_while_an_earlier_job_is_live(g: &Ground) {
    lay(g, schedule("s")).await;
    let first = enqueued(tick_now(g, Overlap::Skip).await);
    assert_eq!(tick_now(g, Overlap::Skip).await, Ticked::Overlapped(first), "it is pending");
    let claimed = g.claim_this(first, NOW + 2 * MINUTE).await;
    assert_eq!(tick_now(g, Overlap::Skip).await, Ticked::Overlapped(first), "it is running");
    let after = row(g, "s").await;
    assert_eq!((after.skipped, after.last_job), (2, Some(first)));
    assert_eq!((after.last_run, after.next_run), (Some(NOW + 3 * MINUTE), NOW + 4 * MINUTE));
    let skipped = [3, 2].map(|n| TickRow { at: NOW + n * MINUTE, job: None });
    assert_eq!(g.store.ticks("s".into()).await.unwrap()[..2], skipped);

    let ended = Completion { id: first, lease: claimed.lease, result: None, ties: Ties::NONE };
    g.store.complete(vec![ended], NOW + 3 * MINUTE).await.unwrap();
    let second = enqueued(tick_now(g, Overlap::Skip).await);
    assert_ne!(second, first);
    // Whatever ends it frees the next tick: here it is deleted.
    g.store.cancel(vec![second], NOW + 4 * MINUTE).await.unwrap();
    g.store.delete(vec![second], NOW + 4 * MINUTE).await.unwrap();
    enqueued(tick_now(g, Overlap::Skip).await);
    assert_eq!(row(g, "s").await.skipped, 2);
}

async fn a_tick_beside_a_live_job_is_allowed_where_the_schedule_says_so(g: &Ground) {
    lay(g, schedule("s")).await;
    let jobs = [tick_now(g, Overlap::Allow).await, tick_now(g, Overlap::Allow).await].map(enqueued);
    assert_eq!(ids(&g.claim(10, NOW + 9 * MINUTE).await), jobs);
    assert_eq!(row(g, "s").await.skipped, 0);
}

async fn a_run_by_hand_moves_nothing_on_and_counts_as_the_latest_job(g: &Ground) {
    let before = lay(g, schedule("s")).await;
    g.store.disable_schedule("s".into(), NOW).await.unwrap();
    let by_hand = |overlap| Tick { turn: None, overlap, ..tick(0, 0, 0) };
    let job = enqueued(g.store.tick(by_hand(Overlap::Skip), NOW + 5).await.unwrap());
    let after = row(g, "s").await;
    assert_eq!((after.last_job, after.last_run, after.next_run), (Some(job), None, before.next_run));
    assert_eq!(g.store.ticks("s".into()).await.unwrap(), [], "it is no tick");
    let again = g.store.tick(by_hand(Overlap::Skip), NOW + 6).await.unwrap();
    assert_eq!(
        (again, row(g, "s").await),
        (Ticked::Overlapped(job), ScheduleRow { updated_at: NOW + 5, ..after })
    );
    assert_ne!(enqueued(g.store.tick(by_hand(Overlap::Allow), NOW + 7).await.unwrap()), job);
    let unknown = Tick { schedule: "unknown".into(), ..by_hand(Overlap::Allow) };
    assert_eq!(g.store.tick(unknown, NOW).await.unwrap(), Ticked::NotDue);
}

async fn a_tick_whose_unique_job_is_there_has_that_one(g: &Ground) {
    lay(g, schedule("s")).await;
    for on_conflict in [OnConflict::Keep, OnConflict::Reject] {
        let unique = || {
            let (key, scope) = (format!("{on_conflict:?}"), WORK.to_owned());
            Some(Box::new(UniqueKey {
                key,
                scope,
                states: Until::Finished.states(),
                within: None,
                on_conflict,
            }))
        };
        let holder = g.enqueue(NewJob { unique: unique(), ..work() }, NOW).await;
        let due = row(g, "s").await.next_run;
        let job = Some(NewJob { unique: unique(), ..work() });
        let ticked = g.store.tick(Tick { job, ..tick(due, due, due + MINUTE) }, due).await.unwrap();
        assert_eq!(ticked, Ticked::Enqueued(holder));
        assert_eq!(row(g, "s").await.last_job, Some(holder));
    }
    assert_eq!(g.claim(10, FAR).await.len(), 2);
}

async fn the_latest_ticks_are_kept_and_outlive_their_jobs(g: &Ground) {
    lay(g, schedule("s")).await;
    let mut jobs = Vec::new();
    for _ in 0..TICKS_KEPT + 5 {
        jobs.push(enqueued(tick_now(g, Overlap::Allow).await));
    }
    g.store.cancel(jobs.clone(), FAR).await.unwrap();
    g.store.delete(jobs.clone(), FAR).await.unwrap();
    let ticks = g.store.ticks("s".into()).await.unwrap();
    let expected: Vec<_> = jobs.iter().enumerate().rev().take(TICKS_KEPT).collect();
    let expected =
        expected.into_iter().map(|(n, job)| TickRow { at: NOW + (n as i64 + 1) * MINUTE, job: Some(*job) });
    assert_eq!(ticks, expected.collect::<Vec<_>>());
}

async fn due_schedules_come_by_their_tick_and_the_next_one_is_told(g: &Ground) {
    assert_eq!(g.store.due_schedules(FAR).await.unwrap(), DueSchedules::default());
    for (id, at, enabled) in [("b", 2, true), ("a", 2, true), ("c", 1, true), ("d", 1, false), ("e", 3, true)]
    {
        put(g, NewSchedule { next_run: NOW + at, enabled: Some(enabled), ..schedule(id) }).await;
    }
    let due = g.store.due_schedules(NOW + 2).await.unwrap();
    let names: Vec<_> = due.due.iter().map(|row| &*row.id).collect();
    assert_eq!((names, due.next), (vec!["c", "a", "b"], Some(NOW + 3)));
    let none = g.store.due_schedules(NOW).await.unwrap();
    assert_eq!(none, DueSchedules { due: Vec::new(), next: Some(NOW + 1) });
    assert_eq!(g.store.due_schedules(NOW + 3).await.unwrap().next, None);
}

async fn a_changed_schedule_keeps_its_tick_unless_its_pattern_or_zone_changed(g: &Ground) {
    lay(g, schedule("s")).await;
    let job = enqueued(tick_now(g, Overlap::Allow).await);
    let other = NewSchedule {
        payload: "2".into(),
        version: 7,
        job_type: "other".into(),
        catch_up: CatchUp::Skip,
        options: r#"{"priority":3}"#.into(),
        next_run: FAR,
        ..schedule("s")
    };
    assert!(put(g, other.clone()).await);
    let row_now = row(g, "s").await;
    assert_eq!(
        (row_now.next_run, row_now.last_run, row_now.last_job),
        (NOW + 2 * MINUTE, Some(NOW + MINUTE), Some(job))
    );
    assert_eq!((&*row_now.payload, &*row_now.job_type, &*row_now.catch_up), ("2", "other", "skip"));
    assert_eq!((&*row_now.options, row_now.created_at), (r#"{"priority":3}"#, NOW));
    for changed in [
        NewSchedule { cron_expr: "@daily".into(), next_run: FAR + 1, ..other.clone() },
        NewSchedule {
            cron_expr: "@daily".into(),
            tz: "Asia/Tokyo".into(),
            next_run: FAR + 2,
            ..other.clone()
        },
    ] {
        let next = changed.next_run;
        assert!(put(g, changed).await);
        let row = row(g, "s").await;
        assert_eq!((row.next_run, row.last_run), (next, Some(NOW + MINUTE)), "the latest tick stays known");
    }
}

async fn a_disabled_schedule_does_not_tick_and_stays_disabled_when_it_is_put_again(g: &Ground) {
    lay(g, schedule("s")).await;
    let disable = async |id: &str| g.store.disable_schedule(id.into(), NOW + 5).await.unwrap();
    let enable = async |id: &str, next| g.store.enable_schedule(id.into(), next, NOW + 6).await.unwrap();
    assert!(disable("s").await && !disable("unknown").await && !enable("unknown", FAR).await);
    assert_eq!(tick_now(g, Overlap::Allow).await, Ticked::NotDue);
    assert_eq!(
        g.store.due_schedules(NOW + MINUTE).await.unwrap(),
        DueSchedules { due: vec![], next: Some(FAR) }
    );
    assert!(put(g, schedule("s")).await);
    assert!(!row(g, "s").await.enabled, "a person's word outlives a restart");

    assert!(enable("s", NOW + 5 * MINUTE).await);
    let row_now = row(g, "s").await;
    assert_eq!(
        (row_now.enabled, row_now.next_run),
        (true, NOW + 5 * MINUTE),
        "what was not made meanwhile is not made up"
    );
    assert!(enable("s", FAR).await);
    assert_eq!(row(g, "s").await.next_run, NOW + 5 * MINUTE, "it waits for its tick already");
    assert!(put(g, NewSchedule { enabled: Some(false), ..schedule("s") }).await);
    assert!(!row(g, "s").await.enabled);
    assert!(put(g, NewSchedule { enabled: Some(true), next_run: NOW + 8 * MINUTE, ..schedule("s") }).await);
    let row_now = row(g, "s").await;
    assert_eq!((row_now.enabled, row_now.next_run), (true, NOW + 8 * MINUTE));
}

async fn a_schedule_of_another_source_is_not_taken_over(g: &Ground) {
    let before = lay(g, NewSchedule { source: Source::Attribute, ..schedule("s") }).await;
    assert!(!put(g, NewSchedule { cron_expr: "@daily".into(), ..schedule("s") }).await);
    assert_eq!(row(g, "s").await, before);
}

async fn a_deleted_schedule_is_gone_and_its_jobs_stay(g: &Ground) {
    lay(g, schedule("s")).await;
    let job = enqueued(tick_now(g, Overlap::Allow).await);
    let delete = async || g.store.delete_schedule("s".into(), NOW).await.unwrap();
    assert!(delete().await && !delete().await);
    assert_eq!(g.store.ticks("s".into()).await.unwrap(), []);
    assert_eq!(g.store.schedules(None).await.unwrap().len(), 1);
    assert_eq!(g.state(job).await, JobState::Pending);
    assert!(put(g, schedule("s")).await);
    let row = row(g, "s").await;
    assert_eq!((row.last_run, row.last_job, row.next_run), (None, None, NOW + MINUTE));
}

async fn what_is_wrong_with_a_schedule_is_shown_until_it_ticks(g: &Ground) {
    let before = lay(g, schedule("s")).await;
    let blame = async |why: &str, now| g.store.blame_schedule("s".into(), why.into(), now).await.unwrap();
    blame("no such zone", NOW + 5).await;
    let blamed = ScheduleRow { error: Some("no such zone".into()), updated_at: NOW + 5, ..before };
    assert_eq!(row(g, "s").await, blamed);
    blame("no such zone", NOW + 6).await;
    assert_eq!(row(g, "s").await, blamed, "told once");
    blame("another", NOW + 7).await;
    enqueued(tick_now(g, Overlap::Allow).await);
    assert_eq!(row(g, "s").await.error, None);
    for put_again in [false, true] {
        blame("again", NOW + 8).await;
        match put_again {
            true => drop(put(g, schedule("s")).await),
            false => drop(g.store.enable_schedule("s".into(), FAR, NOW).await.unwrap()),
        }
        assert_eq!(row(g, "s").await.error, None);
    }
}

async fn the_job_of_a_tick_answers_a_standing_claim(g: &Ground) {
    lay(g, schedule("s")).await;
    let claim = Claim { worker: g.worker, set: set(&[WORK], None), limit: 5, standing: true };
    let standing = g.store.claim(claim, NOW);
    let job = enqueued(tick_now(g, Overlap::Skip).await);
    assert_eq!(ids(&soon(standing).await.unwrap()), [job]);
}
