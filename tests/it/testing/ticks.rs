//! Drains that go through time make the ticks of schedules, and what limits and flows bring, each at its instant.

use jobq::{Schedule, prelude::*, testing::*};

use super::said;

#[job(type = "ticked:nightly", cron = "0 3 * * *")]
async fn nightly() {}

#[job(type = "ticked:report")]
async fn report(team: String) -> Result<String, JobError> {
    Ok(team)
}

#[job(type = "ticked:fed")]
async fn fed(#[data] _letters: &Vec<u8>) {}

#[job(type = "ticked:later")]
async fn later() {}

#[job(type = "ticked:rated", rate_limit = "1/1h")]
async fn rated() {}

#[job(type = "ticked:first")]
async fn first() -> Result<u32, JobError> {
    Ok(7)
}

#[job(type = "ticked:second")]
async fn second(n: u32) -> Result<u32, JobError> {
    Ok(n + 1)
}

const HOUR: i64 = 3_600_000;

fn instants(queue: &TestQueue, drained: &Drained) -> Vec<i64> {
    let begun = queue.now().timestamp_millis();
    drained.runs().iter().map(|run| (run.at - begun) / HOUR).collect()
}

#[jobq::test]
async fn a_schedule_of_an_attribute_ticks_each_at_its_instant(queue: TestQueue) {
    let bystander = later.enqueue(()).delay(hours(30)).await.unwrap();
    let queue = queue.jobs((nightly, later));
    let drained = queue.run_for(days(3)).await;
    assert_eq!(drained.runs().iter().filter(|run| run.id == bystander.id()).count(), 1);
    assert_eq!(instants(&queue, &drained), [3 - 72, 27 - 72, 30 - 72, 51 - 72], "{drained}");
    assert_eq!(queue.schedules().await.unwrap()[0].skipped, 0);
}

#[jobq::test]
async fn the_clock_goes_to_a_tick_that_no_drain_has_laid_yet(queue: TestQueue) {
    let queue = queue.jobs(nightly);
    assert_eq!(queue.advance_to_next().await, Some(hours(3)));
    assert_eq!(queue.drain().await.completed(), 1);
    assert_eq!(queue.advance_to_next().await, Some(days(1)));
}

#[jobq::test]
async fn nothing_ticks_that_the_test_does_not_ask_for(queue: TestQueue) {
    assert_eq!(queue.run_for(days(2)).await.runs().len(), 0, "nothing has a schedule in this queue");
    queue.schedule(Schedule::new("s", "0 8 * * *", Report { team: "red".into() })).await.unwrap();
    assert_eq!(queue.run_for(days(2)).jobs(later).await.runs().len(), 0, "it is not among its jobs");
    queue.disable_schedule("s").await.unwrap();
    assert_eq!(queue.advance_to_next().await, None);
}

#[jobq::test(sqlite)]
async fn a_schedule_that_is_stored_is_known_without_a_job_of_it(queue: TestQueue) {
    queue.schedule(Schedule::new("s", "0 8 * * *", Report { team: "red".into() })).await.unwrap();
    let drained = queue.run_for(days(2)).await;
    assert_eq!(instants(&queue, &drained), [8 - 48, 32 - 48], "{drained}");
    queue.advance(hours(8));
    assert_eq!(queue.drain().await.completed(), 1);
    assert_eq!(queue.all::<Report>().await.len(), 3);
}

#[jobq::test]
async fn a_tick_whose_job_lacks_its_data_is_told_when_it_is_due(queue: TestQueue) {
    queue.schedule(Schedule::new("s", "0 8 * * *", Fed {})).await.unwrap();
    assert_eq!(queue.run_for(hours(7)).await.runs().len(), 0);
    let text = said(queue.run_for(hours(2)).into_future()).await;
    assert!(text.contains("for `ticked:fed`"), "{text}");
    assert_eq!(queue.drain().data(vec![1_u8]).await.completed(), 1);
}

#[jobq::test]
async fn what_is_idle_but_for_ticks_is_idle(queue: TestQueue) {
    queue.schedule(Schedule::new("s", "0 * * * *", Report { team: "red".into() })).await.unwrap();
    assert_eq!(queue.drain_until_idle().await.runs().len(), 0);
    later.enqueue(()).delay(mins(150)).await.unwrap();
    let drained = queue.drain_until_idle().await;
    let types: Vec<_> = drained.runs().iter().map(|run| &*run.job_type).collect();
    assert_eq!(types, ["ticked:report", "ticked:report", "ticked:later"]);
}

#[jobq::test]
async fn a_start_that_a_limit_allows_comes_at_its_instant(queue: TestQueue) {
    for _ in 0..3 {
        rated.enqueue(()).await.unwrap();
    }
    let drained = queue.run_for(hours(5)).await;
    assert_eq!(instants(&queue, &drained), [-5, -4, -3], "{drained}");
    rated.enqueue(()).await.unwrap();
    rated.enqueue(()).await.unwrap();
    assert_eq!(queue.drain().await.completed(), 1);
    assert_eq!(queue.advance_to_next().await, Some(hours(1)));
    assert_eq!(queue.drain_until_idle().await.completed(), 1);
}

#[jobq::test]
async fn what_follows_in_a_flow_is_run_although_no_job_of_it_was_there(queue: TestQueue) {
    first.enqueue(()).then(second).await.unwrap();
    let drained = queue.drain_until_idle().await;
    assert_eq!((drained.completed(), drained.runs().len()), (2, 2), "{drained}");
    assert!(drained.to_string().ends_with("completed with 8"), "{drained}");
}
