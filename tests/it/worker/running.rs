//! How jobs run: what is claimed, in which order, how many at once, and how each kind of end is stored.

use super::ground::*;
use crate::Ids;
use jobq::{AttemptOutcome, Backoff, JobId, JobState, Timeout, job::NewJob, prelude::*, store::Store};
use std::sync::{Arc, Mutex};

#[tokio::test]
async fn a_job_runs_and_what_it_returned_is_stored() {
    let g = ground();
    let bystander = g.bystander().await;
    let worker = g.start(2).await;
    let id = g.gated(7).await;
    g.stage.until_entered(1).await;
    assert_eq!(g.state(id).await, JobState::Running);
    g.stage.open(7);
    g.until_state(id, JobState::Completed).await;
    let row = g.row(id).await;
    assert_eq!((row.result.as_deref(), row.attempts, row.worker), (Some("7"), 1, Some(worker.id())));
    assert_eq!(worker.stats().completed, 1);
    g.untouched(bystander).await;
}

// ---- what is claimed -------------------------------------------------------------------------------------------

#[tokio::test]
async fn only_the_jobs_of_its_own_set_are_claimed_and_the_others_stay_pending() {
    let g = ground();
    let bystander = g.bystander().await;
    let (theirs, ours) = (g.gated(1).await, g.says("fine").await);
    g.worker().jobs((says,)).drain().await.unwrap();
    assert_eq!((g.state(theirs).await, g.state(ours).await), (JobState::Pending, JobState::Completed));
    assert_eq!(g.row(theirs).await.attempts, 0);
    g.untouched(bystander).await;
}

#[tokio::test]
async fn only_its_own_queues_are_served() {
    let g = ground();
    let mail = says.enqueue("fine".into()).queue("mail").on(&g.queue).await.unwrap().id();
    let other = g.says("fine").await;
    g.worker().jobs((says,)).queues(["mail", "reports"]).drain().await.unwrap();
    assert_eq!((g.state(mail).await, g.state(other).await), (JobState::Completed, JobState::Pending));
}

#[tokio::test]
async fn a_row_written_under_an_old_name_of_a_job_is_run() {
    let g = ground();
    let old = NewJob::new("ground:old_name", "{}");
    let id = g.memory.enqueue(vec![old], 0).await.unwrap()[0].id;
    g.worker().jobs((renamed,)).drain().await.unwrap();
    assert_eq!(g.state(id).await, JobState::Completed);
}

#[job(type = "ground:new_name", aliases = ["ground:old_name"])]
async fn renamed() {}

#[tokio::test]
async fn jobs_start_by_priority_then_run_at_then_age() {
    let g = ground();
    let at = |seconds: i64| chrono::DateTime::from_timestamp(1_700_000_000 + seconds, 0).unwrap();
    for (n, priority, run_at) in [(1, 0, 5), (2, 0, 5), (3, 0, 4), (4, 9, 6), (5, -1, 0), (6, 9, 6)] {
        g.stage.open(n);
        gated.enqueue(n).priority(priority).run_at(at(run_at)).on(&g.queue).await.unwrap();
    }
    g.worker().jobs((gated,)).concurrency(1).drain().await.unwrap();
    assert_eq!(g.stage.entered(), [4, 6, 3, 1, 2, 5]);
}

#[tokio::test]
async fn jobs_of_one_instant_start_in_the_order_they_were_enqueued() {
    let g = ground();
    let all = (0..1000).map(|n| Gated { n });
    g.queue.enqueue_all(all).await.unwrap();
    (0..1000).for_each(|n| g.stage.open(n));
    g.worker().jobs((gated,)).concurrency(1).drain().await.unwrap();
    assert_eq!(g.stage.entered(), (0..1000).collect::<Vec<_>>());
}

#[tokio::test]
async fn there_are_never_more_jobs_at_once_than_slots_and_a_free_slot_is_filled() {
    let g = ground();
    let worker = g.start(3).await;
    for n in 1..=7 {
        g.gated(n).await;
    }
    g.stage.until_entered(3).await;
    rest().await;
    assert_eq!((g.stage.entered().len(), worker.stats().running), (3, 3));
    let pending = g.memory.counts().await.unwrap().into_iter().find(|count| count.state == JobState::Pending);
    assert_eq!(pending.map(|count| count.count), Some(4), "nothing is claimed before there is a slot for it");
    for n in 1..=7 {
        g.stage.open(n);
        g.stage.until_entered((n as usize + 3).min(7)).await;
    }
    until("all are settled", async || worker.stats().completed == 7).await;
    assert_eq!(g.stage.most(), 3);
}

#[tokio::test]
async fn a_thousand_slots_are_filled_from_one_standing_claim_after_the_other() {
    let g = ground();
    let worker = g.start(1000).await;
    for n in 0..1500 {
        g.gated(n).await;
    }
    g.stage.until_entered(1000).await;
    rest().await;
    assert_eq!(g.stage.most(), 1000);
    (0..1500).for_each(|n| g.stage.open(n));
    until("all are settled", async || worker.stats().completed == 1500).await;
    assert_eq!(g.stage.most(), 1000);
}

#[tokio::test]
async fn after_ten_thousand_jobs_a_worker_has_no_more_tasks_than_before() {
    let g = ground();
    let worker = g.start(100).await;
    rest().await;
    let tasks = || tokio::runtime::Handle::current().metrics().num_alive_tasks();
    let before = tasks();
    g.queue.enqueue_all((0..10_000).map(|_| Says { what: "fine".into() })).await.unwrap();
    until("all are settled", async || worker.stats().completed == 10_000).await;
    rest().await;
    assert_eq!(tasks(), before);
    let stats = worker.stats();
    assert_eq!((stats.running, stats.unsettled, stats.late), (0, 0, 0));
}

// ---- due in the future -----------------------------------------------------------------------------------------

#[tokio::test]
async fn a_scheduled_job_starts_when_it_is_due_and_not_before() {
    let g = ground();
    let bystander = g.bystander().await;
    let _worker = g.start(2).await;
    let id = gated.enqueue(1).delay(hours(1)).on(&g.queue).await.unwrap().id();
    g.pass(mins(59)).await;
    assert_eq!((g.state(id).await, g.stage.entered().len()), (JobState::Scheduled, 0));
    g.clock.advance(mins(1));
    g.stage.until_entered(1).await;
    g.untouched(bystander).await;
}

#[tokio::test]
async fn a_job_that_is_due_sooner_and_comes_later_wakes_a_sleeping_worker() {
    let g = ground();
    let _worker = g.start(2).await;
    gated.enqueue(1).delay(hours(1)).on(&g.queue).await.unwrap();
    rest().await;
    gated.enqueue(2).delay(std::time::Duration::from_millis(100)).on(&g.queue).await.unwrap();
    rest().await;
    g.pass(std::time::Duration::from_millis(100)).await;
    g.stage.until_entered(1).await;
    assert_eq!(g.stage.entered(), [2]);
}

#[tokio::test]
async fn a_wall_clock_that_is_set_forward_is_noticed_at_the_next_poll() {
    let g = ground();
    let _worker = g.start(2).await;
    gated.enqueue(1).delay(hours(1)).on(&g.queue).await.unwrap();
    g.pass(secs(2)).await;
    g.clock.step_wall(3_600_000);
    g.pass(std::time::Duration::from_millis(650)).await;
    g.stage.until_entered(1).await;
}

#[tokio::test]
async fn thousands_that_fall_due_together_are_all_promoted() {
    let g = ground();
    let worker = g.start(50).await;
    g.queue.enqueue_all((0..3500).map(|_| Says { what: "fine".into() })).delay(mins(1)).await.unwrap();
    rest().await;
    g.clock.advance(mins(1));
    until("all have run", async || worker.stats().completed == 3500).await;
}

// ---- how attempts end ------------------------------------------------------------------------------------------

/// Runs one attempt of what `says` is told.
async fn one_attempt(g: &Ground, what: &str) -> JobId {
    let id = g.says(what).await;
    g.worker().jobs((says,)).drain().await.unwrap();
    id
}

async fn latest(g: &Ground, id: JobId) -> (AttemptOutcome, String) {
    let attempt = g.attempts(id).await.pop().expect("an attempt");
    (attempt.outcome, attempt.error.unwrap_or_default())
}

#[tokio::test]
async fn errors_of_every_type_are_shown_in_the_row_and_in_the_history() {
    let g = ground();
    let bystander = g.bystander().await;
    for (what, text) in [
        ("fails", "no luck"),
        ("io error", "no such device"),
        ("panic", "panicked: out of luck"),
        ("unwritable", "an error that can't be written"),
        ("panic with a number", "panicked: a value that is not text"),
    ] {
        let id = one_attempt(&g, what).await;
        let row = g.row(id).await;
        assert_eq!((row.state, row.attempts), (JobState::Scheduled, 1), "{what}");
        let (outcome, error) = latest(&g, id).await;
        assert_eq!(outcome == AttemptOutcome::Panicked, text.starts_with("panicked"), "{what}: {outcome}");
        assert!(error.contains(text), "{what}: {error}");
        assert_eq!(row.error, Some(error), "{what}");
    }
    g.untouched(bystander).await;
}

#[tokio::test]
async fn a_panic_with_a_long_text_in_any_script_keeps_it() {
    let g = ground();
    let id = one_attempt(&g, "panic with a String").await;
    assert_eq!(latest(&g, id).await, (AttemptOutcome::Panicked, format!("panicked: {}", "ü".repeat(5000))));
}

#[tokio::test]
async fn an_attempt_ends_whatever_of_its_handler_panics_and_wherever() {
    let g = ground();
    let worker = g.worker().jobs((bursts,)).concurrency(4).start().await.unwrap();
    let last_word = bursts.enqueue(()).timeout(secs(2)).on(&g.queue).await.unwrap().id();
    let at_stop = bursts.enqueue(()).on(&g.queue).await.unwrap().id();
    until("both run", async || worker.stats().running == 2).await;
    g.pass_until("the first has ended", async || g.state(last_word).await != JobState::Running).await;
    assert_eq!(g.state(at_stop).await, JobState::Running);
    let stop = tokio::spawn(async move { worker.stop().await });
    g.pass_until("the worker has ended", async || stop.is_finished()).await;
    for id in [last_word, at_stop] {
        assert_eq!(latest(&g, id).await, (AttemptOutcome::Panicked, "panicked: burst".into()));
    }
}

/// Told to end, it ends with an error that nobody wants any more and that panics when it is dropped.
#[job(type = "ground:bursts")]
async fn bursts(ctx: &JobContext) -> Result<(), JobError> {
    ctx.cancelled().await;
    Err(JobError::new(Bursting))
}

#[derive(Debug)]
struct Bursting;

impl std::fmt::Display for Bursting {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("bursting")
    }
}

impl std::error::Error for Bursting {}

impl Drop for Bursting {
    fn drop(&mut self) {
        panic!("burst");
    }
}

#[tokio::test]
async fn a_result_that_is_too_large_fails_the_attempt_and_says_why() {
    let g = ground();
    let id = one_attempt(&g, "too much").await;
    let (outcome, error) = latest(&g, id).await;
    assert!(outcome == AttemptOutcome::Failed && error.contains("at most 1048576"), "{outcome}: {error}");
    assert_eq!(g.row(id).await.result, None);
}

#[tokio::test]
async fn a_final_error_makes_the_job_dead_at_its_first_attempt() {
    let g = ground();
    let id = says.enqueue("dead".into()).max_attempts(10).on(&g.queue).await.unwrap().id();
    g.worker().jobs((says,)).drain().await.unwrap();
    let row = g.row(id).await;
    assert_eq!((row.state, row.attempts, row.error.as_deref()), (JobState::Dead, 1, Some("never again")));
}

#[tokio::test]
async fn a_handler_can_take_its_job_back() {
    let g = ground();
    let id = one_attempt(&g, "cancel").await;
    assert_eq!(g.state(id).await, JobState::Cancelled);
    assert_eq!(latest(&g, id).await, (AttemptOutcome::Cancelled, "no longer wanted".into()));
}

#[tokio::test]
async fn a_retry_in_waits_as_long_as_it_says() {
    let g = ground();
    let before = g.queue.clock().now();
    let id = one_attempt(&g, "retry in 77 s").await;
    assert_eq!(g.row(id).await.run_at, before + 77_000);
}

#[tokio::test]
async fn snoozing_costs_no_attempt_however_often_and_the_history_stays_bounded() {
    let g = ground();
    let id = g.says("snooze").await;
    for _ in 0..300 {
        g.worker().jobs((says,)).drain().await.unwrap();
        g.clock.advance(secs(60));
    }
    let row = g.row(id).await;
    assert_eq!((row.state, row.attempts, row.max_attempts, row.lease), (JobState::Scheduled, 0, 3, 300));
    let history = g.attempts(id).await;
    assert!(history.len() <= 100, "{} attempts are kept", history.len());
    assert_eq!(
        (history[0].lease, history.last().unwrap().lease),
        (1, 300),
        "the first and the latest are kept"
    );
}

#[tokio::test]
async fn a_payload_that_does_not_fit_goes_through_the_retry_schedule_and_hurts_nobody() {
    let g = ground();
    let misfit = NewJob { max_attempts: 2, ..NewJob::new("ground:says", r#"{"what": 7}"#) };
    let broken = NewJob { max_attempts: 2, ..NewJob::new("ground:says", "{") };
    let ids = g.memory.enqueue(vec![misfit, broken], 0).await.unwrap().ids();
    let good = g.says("fine").await;
    let before = g.queue.clock().now();
    g.worker().jobs((says,)).drain().await.unwrap();
    assert_eq!(g.state(good).await, JobState::Completed);
    for &id in &ids {
        let row = g.row(id).await;
        assert!(row.state == JobState::Scheduled && (8500..=11_500).contains(&(row.run_at - before)));
        let (outcome, error) = latest(&g, id).await;
        assert!(
            outcome == AttemptOutcome::Undecodable && error.contains("ground:says"),
            "{outcome}: {error}"
        );
    }
    g.clock.advance(secs(12));
    g.worker().jobs((says,)).drain().await.unwrap();
    for id in ids {
        assert_eq!(g.state(id).await, JobState::Dead);
    }
    assert!(g.stage.entered() == [1], "only the good one has run");
}

#[tokio::test]
async fn one_attempt_at_most_means_one_run() {
    let g = ground();
    let once = says.enqueue("fails".into()).max_attempts(1).on(&g.queue).await.unwrap().id();
    let unset = g.says("fails").await;
    for _ in 0..10 {
        g.worker().jobs((says,)).drain().await.unwrap();
        g.clock.advance(hours(2));
    }
    let ends = [g.row(once).await, g.row(unset).await].map(|row| (row.state, row.attempts, row.lease));
    assert_eq!(ends, [(JobState::Dead, 1, 1), (JobState::Dead, 3, 3)]);
}

#[tokio::test]
async fn a_job_that_always_fails_has_exactly_its_limit_of_starts_over_many_workers_and_then_stays_dead() {
    let g = ground();
    let bystander = g.bystander().await;
    let id = says.enqueue("fails".into()).max_attempts(5).on(&g.queue).await.unwrap().id();
    for _ in 0..15 {
        g.worker().jobs((says,)).drain().await.unwrap();
        g.clock.advance(hours(2));
    }
    assert_eq!(g.stage.entered(), [1, 2, 3, 4, 5]);
    assert_eq!((g.state(id).await, g.row(id).await.lease), (JobState::Dead, 5));
    g.untouched(bystander).await;
}

#[tokio::test]
async fn failures_leave_the_time_of_enqueue_alone_and_each_attempt_has_its_own_times() {
    let g = ground();
    let enqueued_at = g.queue.clock().now();
    let id = g.says("fails twice").await;
    let worker = g.start(1).await;
    g.pass_until("the job is done", async || worker.stats().completed == 1).await;
    let row = g.row(id).await;
    assert_eq!((row.state, row.created_at, id.created_at()), (JobState::Completed, enqueued_at, enqueued_at));
    let history = g.attempts(id).await;
    let times: Vec<_> = history.iter().flat_map(|one| [one.started_at, one.ended_at.unwrap()]).collect();
    assert!(
        history.len() == 3 && times.is_sorted() && times[1] < times[2] && times[3] < times[4],
        "{times:?}"
    );
    use AttemptOutcome::{Completed, Failed};
    assert_eq!(history.iter().map(|one| one.outcome).collect::<Vec<_>>(), [Failed, Failed, Completed]);
}

#[tokio::test]
async fn a_custom_backoff_holds_after_error_panic_and_time_out_alike() {
    let g = ground();
    let worker = g.start(3).await;
    for what in ["fails", "panic", "never"] {
        let enqueue = says.enqueue(what.into()).backoff(Backoff::fixed(secs(7))).timeout(secs(2));
        let id = enqueue.on(&g.queue).await.unwrap().id();
        g.pass_until("it has failed", async || g.state(id).await == JobState::Scheduled).await;
        let row = g.row(id).await;
        let ended_at = g.attempts(id).await[0].ended_at.unwrap();
        assert_eq!((row.run_at - ended_at, row.attempts), (7000, 1), "{what}");
    }
    drop(worker);
}

/// Each job draws its own place within the jitter, also where all fail together and are written in one batch.
#[tokio::test]
async fn ten_thousand_jobs_that_fail_together_are_due_again_all_over_the_jitter() {
    let g = ground();
    let bystander = g.bystander().await;
    let now = g.queue.clock().now();
    g.queue.enqueue_all((0..10_000).map(|_| Says { what: "fails".into() })).await.unwrap();
    let stats = g.worker().jobs((says,)).concurrency(1000).drain().await.unwrap();
    assert_eq!(stats.failed, 10_000);
    let filter = jobq::JobFilter { states: vec![JobState::Scheduled], limit: 1000, ..Default::default() };
    let (mut pages, mut slots, mut count) = (g.queue.pages(filter), [0; 30], 0);
    while let Some(page) = pages.next().await.unwrap() {
        for row in page {
            let wait = row.run_at - now;
            assert!((8500..=11_500).contains(&wait), "{wait} ms");
            slots[((wait - 8500) / 100).min(29) as usize] += 1;
            count += 1;
        }
    }
    assert_eq!(count, 10_000);
    assert!(slots.iter().all(|jobs| (1..=500).contains(jobs)), "{slots:?}");
    g.untouched(bystander).await;
}

// ---- time-outs -------------------------------------------------------------------------------------------------

#[tokio::test]
async fn an_endless_job_is_cancelled_at_its_time_out_and_its_slot_is_free() {
    let g = ground();
    let worker = g.start(1).await;
    let id = gated.enqueue(1).timeout(secs(2)).on(&g.queue).await.unwrap().id();
    let next = g.gated(2).await;
    g.stage.until_entered(1).await;
    g.pass(std::time::Duration::from_millis(1950)).await;
    assert_eq!((g.state(id).await, g.stage.told()), (JobState::Running, 0));
    g.pass(std::time::Duration::from_millis(50)).await;
    g.until_state(id, JobState::Scheduled).await;
    assert_eq!(latest(&g, id).await, (AttemptOutcome::TimedOut, "timed out after 2s".into()));
    assert_eq!((g.stage.told(), g.stage.left()), (1, 1), "it was told, and then dropped");
    g.stage.until_entered(2).await;
    assert_eq!((g.state(next).await, worker.stats().failed), (JobState::Running, 1));
}

#[tokio::test]
async fn time_outs_of_row_and_worker_hold_in_this_order_and_never_means_never() {
    let g = ground();
    let worker = g.worker().jobs((gated,)).concurrency(3).timeout(secs(10)).start().await.unwrap();
    let unset = g.gated(1).await;
    let longer = gated.enqueue(2).timeout(secs(100)).on(&g.queue).await.unwrap().id();
    let never = gated.enqueue(3).timeout(Timeout::Never).on(&g.queue).await.unwrap().id();
    g.stage.until_entered(3).await;
    g.pass(secs(50)).await;
    let states =
        [g.row(unset).await, g.row(longer).await, g.row(never).await].map(|row| (row.state, row.lease));
    assert!(states[0].1 > 1 && states[1..] == [(JobState::Running, 1); 2], "{states:?}");
    g.pass(secs(51)).await;
    assert_eq!(g.row(longer).await.attempts, 1);
    assert_ne!(g.state(longer).await, JobState::Running);
    g.clock.advance(hours(24));
    rest().await;
    assert_eq!(g.state(never).await, JobState::Running, "it runs as long as it likes while its worker lives");
    drop(worker);
}

// ---- blocking jobs ---------------------------------------------------------------------------------------------

#[tokio::test]
async fn a_blocking_job_runs_on_a_thread_of_its_own_and_holds_up_nobody() {
    let g = ground();
    let worker = g.start(2).await;
    let slow = stubborn.enqueue(1).on(&g.queue).await.unwrap().id();
    g.stage.until_entered(1).await;
    let quick = g.says("fine").await;
    g.until_state(quick, JobState::Completed).await;
    assert_eq!(g.state(slow).await, JobState::Running);
    g.stage.open(1);
    g.until_state(slow, JobState::Completed).await;
    assert_eq!(worker.stats().completed, 2);
}

#[tokio::test]
async fn a_blocking_job_past_its_time_out_keeps_lease_and_slot_until_it_returns_and_then_counts_as_timed_out()
{
    let g = ground();
    let log = log();
    let worker = g.start(1).await;
    let id = stubborn.enqueue(1).timeout(secs(2)).on(&g.queue).await.unwrap().id();
    g.gated(2).await;
    g.stage.until_entered(1).await;
    g.pass(secs(10)).await;
    until("it is told", async || g.stage.told() == 1).await;
    assert_eq!((g.state(id).await, g.row(id).await.lease), (JobState::Running, 1));
    assert_eq!((g.stage.entered(), worker.stats().stuck), (vec![1], 1));
    assert!(log.lines_with(&id.to_string()) == 1, "one warning names it:\n{}", log.text());
    g.stage.open(1);
    g.until_state(id, JobState::Scheduled).await;
    assert_eq!(latest(&g, id).await.0, AttemptOutcome::TimedOut);
    g.stage.until_entered(2).await;
    assert_eq!(worker.stats().stuck, 0);
}

#[tokio::test]
async fn a_blocking_job_may_panic_use_tokio_and_enqueue() {
    let g = ground();
    let worker = g.worker().jobs((on_a_thread, says)).start().await.unwrap();
    on_a_thread.enqueue(false).on(&g.queue).await.unwrap();
    until("it and the one it has enqueued are done", async || worker.stats().completed == 2).await;
    let id = on_a_thread.enqueue(true).on(&g.queue).await.unwrap().id();
    g.until_state(id, JobState::Scheduled).await;
    assert_eq!(latest(&g, id).await, (AttemptOutcome::Panicked, "panicked: on a thread".into()));
}

#[job(type = "ground:on_a_thread", blocking)]
async fn on_a_thread(panics: bool) -> Result<(), JobError> {
    let name = std::thread::current().name().map(str::to_owned).unwrap_or_default();
    assert!(name.starts_with("jobq-blocking-"), "runs on `{name}`");
    assert!(!panics, "on a thread");
    tokio::spawn(async {}).await?;
    says.enqueue("fine".into()).await?;
    Ok(())
}

// ---- what surrounds a handler ----------------------------------------------------------------------------------

#[tokio::test]
async fn what_a_handler_enqueues_goes_to_its_own_queue() {
    let (one, other) = (ground(), ground());
    let chain = |g: &Ground| g.worker().jobs((parent, says)).drain();
    parent.enqueue(()).on(&one.queue).await.unwrap();
    chain(&one).await.unwrap();
    chain(&other).await.unwrap();
    assert_eq!((one.stage.entered().len(), other.stage.entered().len()), (1, 0));
}

#[job(type = "ground:parent")]
async fn parent() -> Result<(), JobError> {
    says.enqueue("fine".into()).await?;
    Ok(())
}

#[tokio::test]
async fn a_failed_attempt_and_a_dead_job_are_told_in_the_log() {
    let g = ground();
    let log = log();
    let fails = says.enqueue("fails".into()).max_attempts(2).on(&g.queue).await.unwrap().id();
    let dies = says.enqueue("dead".into()).on(&g.queue).await.unwrap().id();
    let fine = says.enqueue("fine".into()).on(&g.queue).await.unwrap().id();
    g.worker().jobs((says,)).drain().await.unwrap();
    let text = log.text();
    let line = |id: jobq::JobId| text.lines().find(|line| line.contains(&id.to_string())).unwrap_or_default();
    assert!(
        line(fails).contains("WARN") && line(fails).contains("again_in") && line(fails).contains("attempt=1"),
        "{text}"
    );
    assert!(line(dies).contains("ERROR") && line(dies).contains("the job is dead"), "{text}");
    assert_eq!(line(fine), "", "what goes well is not told");
    assert!(text.lines().last().unwrap().contains("the worker has stopped"), "{text}");
}

#[tokio::test]
async fn what_a_handler_logs_carries_the_job() {
    let g = ground();
    let log = log();
    logs.enqueue(()).on(&g.queue).await.unwrap();
    g.worker().jobs((logs,)).drain().await.unwrap();
    let text = log.text();
    let line = text.lines().find(|line| line.contains("what it says")).expect("the line is there");
    assert!(line.contains("job_type=\"ground:logs\"") && line.contains("attempt=1"), "{line}");
}

#[job(type = "ground:logs")]
async fn logs() {
    tracing::info!("what it says");
}

#[tokio::test]
async fn a_job_that_holds_the_runtimes_thread_is_named_in_a_warning_and_nothing_is_rescued() {
    let g = ground();
    let log = log();
    // How long something takes is measured by the queue's clock, so it must be the real one here.
    let queue = JobQueue::with_store(Arc::new(g.memory.clone()), Arc::new(jobq::SystemClock));
    let id = holds_the_thread.enqueue(()).on(&queue).await.unwrap().id();
    let stats = Worker::new(&queue).jobs((holds_the_thread,)).drain().await.unwrap();
    assert_eq!((stats.completed, g.row(id).await.lease), (1, 1));
    let text = log.text();
    let line = text.lines().find(|line| line.contains("held a thread")).expect("a warning");
    assert!(line.contains(&id.to_string()) && line.contains("ground:holds_the_thread"), "{line}");
}

#[job(type = "ground:holds_the_thread")]
async fn holds_the_thread() {
    let begun = std::time::Instant::now();
    while begun.elapsed() < std::time::Duration::from_millis(1100) {
        std::hint::spin_loop();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_that_holds_one_of_two_threads_holds_up_nobody_else() {
    let g = ground();
    let worker = g.worker().jobs((spins, says)).concurrency(4).start().await.unwrap();
    let holding = spins.enqueue(1).on(&g.queue).await.unwrap().id();
    g.stage.until_entered(1).await;
    for n in 1..=200 {
        let id = g.says("fine").await;
        g.until_state(id, JobState::Completed).await;
        until("it is counted", async || worker.stats().completed == n).await;
    }
    assert_eq!(g.state(holding).await, JobState::Running);
    g.stage.open(1);
    g.until_state(holding, JobState::Completed).await;
}

#[job(type = "ground:spins")]
async fn spins(#[data] stage: &Stage, n: u32) {
    let _on = stage.enter(n);
    while !stage.is_open(n) {
        std::thread::yield_now();
    }
}

// ---- together --------------------------------------------------------------------------------------------------

/// Where jobs meet: each goes on when all are there.
#[derive(Clone)]
struct Meeting {
    awaited: Arc<tokio::sync::Barrier>,
    holding: Arc<std::sync::Barrier>,
}

impl Meeting {
    fn of(jobs: usize) -> Self {
        let awaited = Arc::new(tokio::sync::Barrier::new(jobs));
        Self { awaited, holding: Arc::new(std::sync::Barrier::new(jobs)) }
    }

    /// These jobs, claimed in one go, come to their end.
    async fn held_by<J: Job + 'static>(
        self,
        jobs: usize,
        knows: Worker,
        all: impl Iterator<Item = J>,
        g: &Ground,
    ) {
        g.queue.enqueue_all(all).await.unwrap();
        let drain = tokio::spawn(knows.data(self).concurrency(jobs).drain());
        let stats = at_once("the meeting", drain).await.unwrap().unwrap();
        assert_eq!(stats.completed, jobs as u64);
    }
}

#[tokio::test]
async fn handlers_that_await_together_run_together_on_one_thread() {
    let g = ground();
    let (meeting, worker) = (Meeting::of(500), Worker::new(&g.queue).jobs((meets,)));
    meeting.held_by(500, worker, (0..500).map(|_| Meets {}), &g).await;
}

#[job(type = "ground:meets")]
async fn meets(#[data] meeting: &Meeting) {
    meeting.awaited.wait().await;
    tokio::task::yield_now().await;
    meeting.awaited.wait().await;
}

#[tokio::test]
async fn blocking_jobs_run_together_each_on_a_thread_of_its_own() {
    let g = ground();
    let (meeting, worker) = (Meeting::of(32), Worker::new(&g.queue).jobs((meets_blocking,)));
    meeting.held_by(32, worker, (0..32).map(|_| MeetsBlocking {}), &g).await;
}

#[job(type = "ground:meets_blocking", blocking)]
fn meets_blocking(#[data] meeting: &Meeting) {
    meeting.holding.wait();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn handlers_that_hold_their_threads_use_all_threads_of_the_runtime() {
    let g = ground();
    let (meeting, worker) = (Meeting::of(4), Worker::new(&g.queue).jobs((holds_and_meets,)));
    meeting.held_by(4, worker, (0..4).map(|_| HoldsAndMeets {}), &g).await;
}

#[job(type = "ground:holds_and_meets")]
async fn holds_and_meets(#[data] meeting: &Meeting) {
    meeting.holding.wait();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn handlers_in_block_in_place_run_together_on_more_threads_than_the_runtime_has() {
    let g = ground();
    let (meeting, worker) = (Meeting::of(16), Worker::new(&g.queue).jobs((meets_in_place,)));
    meeting.held_by(16, worker, (0..16).map(|_| MeetsInPlace {}), &g).await;
}

#[job(type = "ground:meets_in_place")]
async fn meets_in_place(#[data] meeting: &Meeting) {
    tokio::task::block_in_place(|| meeting.holding.wait());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_ended_or_waits_beside_a_job_that_holds_its_thread_is_stored_and_goes_on() {
    for _ in 0..20 {
        let g = ground();
        let mut others = Vec::new();
        for n in 1..=3 {
            others.push(g.says("fine").await);
            others.push(g.gated(n).await);
        }
        let holding = spins.enqueue(99).on(&g.queue).await.unwrap().id();
        others.push(g.says("fine").await);
        let worker = g.worker().jobs((spins, says, gated)).concurrency(8).start().await.unwrap();
        until("the thread is held", async || g.stage.entered().contains(&99)).await;
        (1..=3).for_each(|n| g.stage.open(n));
        for id in others {
            g.until_state(id, JobState::Completed).await;
        }
        assert_eq!(g.state(holding).await, JobState::Running);
        g.stage.open(99);
        worker.stop().await.unwrap();
    }
}

// ---- drain -----------------------------------------------------------------------------------------------------

#[tokio::test]
async fn a_drain_runs_what_is_due_and_what_that_brings_and_leaves_the_future_alone() {
    let g = ground();
    let bystander = g.bystander().await;
    parent.enqueue(()).on(&g.queue).await.unwrap();
    let due = says.enqueue("fine".into()).delay(secs(1)).on(&g.queue).await.unwrap().id();
    let future = says.enqueue("fine".into()).delay(secs(3)).on(&g.queue).await.unwrap().id();
    g.clock.advance(secs(2));
    let stats = at_once("the drain", g.worker().jobs((parent, says)).drain()).await.unwrap();
    assert_eq!(stats.completed, 3);
    assert_eq!((g.state(due).await, g.state(future).await), (JobState::Completed, JobState::Scheduled));
    assert_eq!(g.workers().await, [], "it has signed out");
    g.untouched(bystander).await;
}

#[tokio::test]
async fn a_drain_with_a_long_job_runs_what_others_bring_meanwhile() {
    let g = ground();
    let long = g.gated(1).await;
    let drain = tokio::spawn(g.worker().jobs((gated, says)).concurrency(2).drain());
    g.stage.until_entered(1).await;
    let brought = g.says("fine").await;
    g.pass(secs(2)).await;
    g.until_state(brought, JobState::Completed).await;
    assert_eq!(g.state(long).await, JobState::Running);
    g.stage.open(1);
    assert_eq!(at_once("the drain", drain).await.unwrap().unwrap().completed, 2);
}

/// A worker that cron starts may be the only one that there ever is.
#[tokio::test]
async fn a_drain_prunes_what_was_kept_long_enough() {
    let g = ground();
    let old = says.enqueue("fine".into()).on(&g.queue).await.unwrap().id();
    at_once("the drain", g.worker().jobs((says,)).drain()).await.unwrap();
    g.clock.advance(jobq::days(6));
    let bystander = says.enqueue("fine".into()).on(&g.queue).await.unwrap().id();
    at_once("the drain", g.worker().jobs((says,)).drain()).await.unwrap();
    assert_eq!(g.state(old).await, JobState::Completed, "six days are fewer than seven");
    g.clock.advance(jobq::days(1));
    at_once("the drain", g.worker().jobs((says,)).drain()).await.unwrap();
    assert_eq!(g.queue.get(old).await.unwrap(), None);
    assert_eq!(g.state(bystander).await, JobState::Completed);
}

#[tokio::test]
async fn a_drain_of_nothing_returns_at_once() {
    let g = ground();
    let stats = at_once("the drain", g.worker().jobs((says,)).drain()).await.unwrap();
    assert_eq!(stats, Default::default());
}

#[tokio::test]
async fn two_drains_at_once_share_the_work_and_run_each_job_once() {
    let g = ground();
    g.queue.enqueue_all((0..500).map(|_| Says { what: "fine".into() })).await.unwrap();
    let drain = || g.worker().jobs((says,)).concurrency(5).drain();
    let (one, other) = tokio::join!(drain(), drain());
    assert_eq!((one.unwrap().completed + other.unwrap().completed, g.stage.entered().len()), (500, 500));
}

// ---- pause -----------------------------------------------------------------------------------------------------

#[tokio::test]
async fn a_paused_worker_starts_nothing_lets_run_what_runs_and_goes_on_when_resumed() {
    let g = ground();
    let worker = g.start(2).await;
    let running = g.gated(1).await;
    g.stage.until_entered(1).await;
    worker.pause();
    let waiting = g.gated(2).await;
    g.pass(secs(5)).await;
    assert_eq!((g.stage.entered(), g.state(waiting).await), (vec![1], JobState::Pending));
    assert_eq!(g.row(waiting).await.attempts, 0);
    let all_done = worker.wait_for_active(secs(10));
    tokio::pin!(all_done);
    assert!(futures_pending(&mut all_done).await, "one job runs");
    g.stage.open(1);
    assert!(at_once("wait_for_active", all_done).await);
    assert_eq!(g.state(running).await, JobState::Completed);
    worker.resume();
    g.stage.until_entered(2).await;
}

async fn futures_pending<F: std::future::Future + Unpin>(future: &mut F) -> bool {
    tokio::select! {
        biased;
        _ = future => false,
        () = rest() => true,
    }
}

#[tokio::test]
async fn waiting_for_active_jobs_ends_at_its_time() {
    let g = ground();
    let worker = g.start(2).await;
    g.gated(1).await;
    g.stage.until_entered(1).await;
    let (settled, ()) = tokio::join!(worker.wait_for_active(secs(3)), g.pass(secs(4)));
    assert!(!settled);
}

#[tokio::test]
async fn no_handler_ever_sees_another_kinds_payload() {
    let g = ground();
    let seen: Seen = Arc::default();
    for n in 0..2500_u32 {
        let words = ["a"].map(|word| format!("{word}{n}")).to_vec();
        numbers.enqueue(n).on(&g.queue).await.unwrap();
        self::words.enqueue(words).on(&g.queue).await.unwrap();
    }
    let worker = Worker::new(&g.queue).data(seen.clone()).jobs((numbers, self::words)).concurrency(50);
    let stats = worker.drain().await.unwrap();
    assert_eq!((stats.completed, stats.failed), (5000, 0));
    let mut seen = std::mem::take(&mut *seen.lock().unwrap());
    seen.sort();
    let mut wanted: Vec<_> = (0..2500).flat_map(|n| [format!("n{n}"), format!("w[\"a{n}\"]")]).collect();
    wanted.sort();
    assert_eq!(seen, wanted);
}

type Seen = Arc<Mutex<Vec<String>>>;

#[job(type = "ground:numbers")]
async fn numbers(#[data] seen: &Seen, n: u32) {
    seen.lock().unwrap().push(format!("n{n}"));
}

#[job(type = "ground:words")]
async fn words(#[data] seen: &Seen, words: Vec<String>) {
    seen.lock().unwrap().push(format!("w{words:?}"));
}
