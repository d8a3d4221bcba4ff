//! What limits hold back: how many run at once and how often one starts, in all and for each key; and what lets the next.

use super::{ground::*, on_every_store};
use jobq::{
    job::{JobId, NewJob},
    limit::{Bounds, Limit, Limited, Rate},
    state::JobState,
    store::{Claimed, Next, Settled},
    time::Millis,
};
use std::time::Duration;

on_every_store![
    so_many_of_a_type_run_at_once_and_every_way_out_lets_the_next,
    so_many_of_a_queue_run_at_once_whatever_their_type,
    one_busy_key_holds_up_no_other,
    a_keys_jobs_take_turns_by_priority_and_then_by_time,
    the_total_holds_beside_what_each_key_may,
    a_job_without_a_key_counts_for_the_total_alone,
    a_rate_gives_its_bucket_at_once_and_then_one_by_one,
    each_key_has_a_bucket_of_its_own,
    what_was_set_goes_before_what_is_declared_until_it_is_cleared,
    a_limit_that_is_lowered_stops_nobody_and_one_that_is_raised_lets_more_start,
    a_limit_of_keys_that_is_set_later_holds_for_those_that_wait,
    parked_jobs_can_be_cancelled_deleted_and_run_out_of_turn_by_nobody,
    limits_are_read_back_with_what_runs,
    what_can_be_no_limit_is_refused,
];

/// No bystander is of this type.
const LIMITED: &str = "limited";

fn limited() -> NewJob {
    of_type(LIMITED)
}

fn keyed(key: &str) -> NewJob {
    NewJob { concurrency_key: Some(key.into()), ..limited() }
}

async fn set(g: &Ground, limit: Limit) {
    g.store.set_limit(limit, NOW).await.unwrap();
}

async fn claim(g: &Ground, now: Millis) -> Vec<Claimed> {
    g.claim_of(&[LIMITED, "other"], None, 100, now).await
}

async fn claimed(g: &Ground, now: Millis) -> Vec<JobId> {
    ids(&claim(g, now).await)
}

/// Claims, and that gives this job alone.
async fn take(g: &Ground, id: JobId, now: Millis) -> Claimed {
    let mut jobs = claim(g, now).await;
    assert_eq!(ids(&jobs), [id]);
    jobs.remove(0)
}

fn each(millis: u64, starts: u32) -> Rate {
    Rate::new(starts, Duration::from_millis(millis))
}

async fn so_many_of_a_type_run_at_once_and_every_way_out_lets_the_next(g: &Ground) {
    set(g, Limit::job_type(LIMITED).concurrency(2)).await;
    let jobs = g.enqueue_all(vec![limited(); 7], NOW).await;
    let free = g.enqueue(of_type("other"), NOW).await;
    let first = claim(g, NOW).await;
    assert_eq!(ids(&first), [jobs[0], jobs[1], free]);
    assert_eq!(claimed(g, NOW).await, []);
    for (at, (end, next)) in ["complete", "fail", "snooze", "release", "rescue"].iter().zip(2..7).enumerate()
    {
        let job = g.row(jobs[at]).await;
        assert_eq!(job.state, JobState::Running, "{end}");
        let settled = match *end {
            "complete" => g.complete(job.id, job.lease, NOW).await,
            "fail" => g.fail(job.id, job.lease, Next::Dead, NOW).await,
            "snooze" => g.snooze(job.id, job.lease, FAR, NOW).await,
            "release" => {
                // Given back it is pending, in its old place: before the others.
                assert_eq!(g.release(job.id, job.lease, NOW).await, Settled::Applied);
                let again = take(g, job.id, NOW).await;
                g.complete(again.id, again.lease, NOW).await
            }
            _ => g.rescue(job.id, job.lease, Next::Dead, NOW).await,
        };
        assert_eq!(settled, Settled::Applied, "{end}");
        assert_eq!(claimed(g, NOW).await, [jobs[next]], "after {end}");
    }
}

async fn so_many_of_a_queue_run_at_once_whatever_their_type(g: &Ground) {
    set(g, Limit::queue("mail").concurrency(2)).await;
    let in_mail = |job_type| NewJob { queue: "mail".into(), ..of_type(job_type) };
    let jobs = g.enqueue_all(vec![in_mail(LIMITED), in_mail("other"), in_mail(LIMITED)], NOW).await;
    let elsewhere = g.enqueue(limited(), NOW).await;
    let first = claim(g, NOW).await;
    assert_eq!(ids(&first).iter().filter(|id| jobs.contains(id)).count(), 2);
    assert!(ids(&first).contains(&elsewhere));
    let (id, lease) = first.iter().find(|job| job.id == jobs[0]).map(|job| (job.id, job.lease)).unwrap();
    g.complete(id, lease, NOW).await;
    assert_eq!(claimed(g, NOW).await, [jobs[2]]);
}

async fn one_busy_key_holds_up_no_other(g: &Ground) {
    set(g, Limit::job_type(LIMITED).concurrency_per_key(1)).await;
    let busy = g.enqueue_all(vec![keyed("busy"); 50], NOW).await;
    let calm = g.enqueue_all(vec![keyed("calm"), keyed("quiet")], NOW + 1).await;
    let plain = g.enqueue(limited(), NOW + 2).await;
    assert_eq!(claimed(g, NOW + 2).await, [busy[0], calm[0], calm[1], plain]);
    assert_eq!(claimed(g, NOW + 2).await, []);
    let lease = g.row(busy[0]).await.lease;
    g.complete(busy[0], lease, NOW + 3).await;
    assert_eq!(claimed(g, NOW + 3).await, [busy[1]], "each end lets one of its key");
}

async fn a_keys_jobs_take_turns_by_priority_and_then_by_time(g: &Ground) {
    set(g, Limit::job_type(LIMITED).concurrency_per_key(1)).await;
    let runs = g.enqueue(keyed("a"), NOW).await;
    let first = take(g, runs, NOW).await;
    let late = g.enqueue(NewJob { run_at: Some(NOW + 2), ..keyed("a") }, NOW + 5).await;
    let early = g.enqueue(NewJob { run_at: Some(NOW + 1), ..keyed("a") }, NOW + 5).await;
    let urgent = g.enqueue(NewJob { priority: 5, ..keyed("a") }, NOW + 5).await;
    let mut running = first;
    for next in [urgent, early, late] {
        assert_eq!(claimed(g, NOW + 6).await, []);
        g.complete(running.id, running.lease, NOW + 6).await;
        running = take(g, next, NOW + 6).await;
    }
}

async fn the_total_holds_beside_what_each_key_may(g: &Ground) {
    set(g, Limit::job_type(LIMITED).concurrency(3).concurrency_per_key(2)).await;
    let a = g.enqueue_all(vec![keyed("a"); 3], NOW).await;
    let b = g.enqueue_all(vec![keyed("b"); 3], NOW).await;
    let first = claim(g, NOW).await;
    assert_eq!(ids(&first), [a[0], a[1], b[0]]);
    g.complete(first[0].id, first[0].lease, NOW).await;
    let next = claimed(g, NOW).await;
    assert!(next == [a[2]] || next == [b[1]], "one slot, for either key");
}

async fn a_job_without_a_key_counts_for_the_total_alone(g: &Ground) {
    set(g, Limit::job_type(LIMITED).concurrency_per_key(1)).await;
    let jobs = g.enqueue_all(vec![limited(), limited(), limited()], NOW).await;
    assert_eq!(claimed(g, NOW).await, jobs);
    set(g, Limit::job_type(LIMITED).concurrency(4).concurrency_per_key(1)).await;
    let more = g.enqueue_all(vec![limited(), limited()], NOW).await;
    assert_eq!(claimed(g, NOW).await, more[..1]);
}

async fn a_rate_gives_its_bucket_at_once_and_then_one_by_one(g: &Ground) {
    set(g, Limit::job_type(LIMITED).rate(each(1000, 2))).await;
    let jobs = g.enqueue_all(vec![limited(); 5], NOW).await;
    assert_eq!(claimed(g, NOW).await, jobs[..2]);
    assert_eq!(claimed(g, NOW + 499).await, []);
    let due = g.store.due(super::ground::set(&[LIMITED], None), NOW + 1).await.unwrap();
    assert_eq!(due.next_start_at, Some(NOW + 500));
    g.store.promote(10, NOW + 500).await.unwrap();
    assert_eq!(claimed(g, NOW + 500).await, jobs[2..3]);
    g.store.promote(10, NOW + 5000).await.unwrap();
    assert_eq!(claimed(g, NOW + 5000).await, jobs[3..], "no more than the bucket holds comes back");
}

async fn each_key_has_a_bucket_of_its_own(g: &Ground) {
    set(g, Limit::job_type(LIMITED).rate_per_key(each(1000, 1))).await;
    let a = g.enqueue_all(vec![keyed("a"); 3], NOW).await;
    let b = g.enqueue_all(vec![keyed("b"); 2], NOW).await;
    assert_eq!(claimed(g, NOW).await, [a[0], b[0]]);
    g.store.promote(10, NOW + 999).await.unwrap();
    assert_eq!(claimed(g, NOW + 999).await, []);
    g.store.promote(10, NOW + 1000).await.unwrap();
    assert_eq!(claimed(g, NOW + 1000).await, [a[1], b[1]]);
    g.store.promote(10, NOW + 2000).await.unwrap();
    assert_eq!(claimed(g, NOW + 2000).await, a[2..]);
}

async fn what_was_set_goes_before_what_is_declared_until_it_is_cleared(g: &Ground) {
    let one = Bounds { concurrency: Some(1), ..Bounds::NONE };
    g.store.declare_limits(vec![(LIMITED.into(), one)], NOW).await.unwrap();
    let jobs = g.enqueue_all(vec![limited(); 6], NOW).await;
    assert_eq!(claimed(g, NOW).await, jobs[..1]);
    set(g, Limit::job_type(LIMITED).concurrency(3)).await;
    assert_eq!(claimed(g, NOW).await, jobs[1..3]);
    g.store.declare_limits(vec![(LIMITED.into(), one)], NOW).await.unwrap();
    let lease = g.row(jobs[0]).await.lease;
    g.complete(jobs[0], lease, NOW).await;
    assert_eq!(claimed(g, NOW).await, jobs[3..4], "who declares changes nothing that was set");
    assert!(g.store.clear_limit(Limited::JobType(LIMITED.into()), NOW).await.unwrap());
    assert!(!g.store.clear_limit(Limited::JobType(LIMITED.into()), NOW).await.unwrap());
    for id in &jobs[1..4] {
        assert_eq!(claimed(g, NOW).await, []);
        let lease = g.row(*id).await.lease;
        g.complete(*id, lease, NOW).await;
    }
    assert_eq!(claimed(g, NOW).await, jobs[4..5]);
    // A type that declares nothing any more.
    g.store.declare_limits(vec![(LIMITED.into(), Bounds::NONE)], NOW).await.unwrap();
    assert_eq!(claimed(g, NOW).await, jobs[5..]);
    assert_eq!(g.store.limits(NOW).await.unwrap(), []);
}

async fn a_limit_that_is_lowered_stops_nobody_and_one_that_is_raised_lets_more_start(g: &Ground) {
    set(g, Limit::job_type(LIMITED).concurrency(3)).await;
    let jobs = g.enqueue_all(vec![limited(); 6], NOW).await;
    let first = claim(g, NOW).await;
    set(g, Limit::job_type(LIMITED).concurrency(1)).await;
    for job in &first {
        assert_eq!(g.state(job.id).await, JobState::Running);
        assert_eq!(claimed(g, NOW).await, []);
        assert_eq!(g.complete(job.id, job.lease, NOW).await, Settled::Applied);
    }
    assert_eq!(claimed(g, NOW).await, jobs[3..4]);
    set(g, Limit::job_type(LIMITED).concurrency(9)).await;
    assert_eq!(claimed(g, NOW).await, jobs[4..]);
}

async fn a_limit_of_keys_that_is_set_later_holds_for_those_that_wait(g: &Ground) {
    let a = g.enqueue_all(vec![keyed("a"); 4], NOW).await;
    let b = g.enqueue_all(vec![keyed("b"); 2], NOW).await;
    set(g, Limit::job_type(LIMITED).concurrency_per_key(1)).await;
    g.store.promote(100, NOW).await.unwrap();
    assert_eq!(claimed(g, NOW).await, [a[0], b[0]]);
    set(g, Limit::job_type(LIMITED).concurrency_per_key(2)).await;
    g.store.promote(100, NOW).await.unwrap();
    assert_eq!(claimed(g, NOW).await, [a[1], b[1]]);
    g.store.clear_limit(Limited::JobType(LIMITED.into()), NOW).await.unwrap();
    g.store.promote(100, NOW).await.unwrap();
    assert_eq!(claimed(g, NOW).await, a[2..]);
}

async fn parked_jobs_can_be_cancelled_deleted_and_run_out_of_turn_by_nobody(g: &Ground) {
    set(g, Limit::job_type(LIMITED).concurrency_per_key(1)).await;
    let jobs = g.enqueue_all(vec![keyed("a"); 4], NOW).await;
    let first = take(g, jobs[0], NOW).await;
    assert_eq!(g.state(jobs[1]).await, JobState::Pending, "parked is no state of its own");
    assert_eq!(g.cancel(jobs[1], NOW).await, jobq::store::Acted::Done);
    assert_ne!(g.run_now(jobs[2], NOW).await, jobq::store::Acted::Done);
    assert_eq!(claimed(g, NOW).await, []);
    g.complete(first.id, first.lease, NOW).await;
    assert_eq!(claimed(g, NOW).await, [jobs[2]]);
    assert_eq!(g.delete(jobs[1], NOW).await, jobq::store::Acted::Done);
    // One that is retried waits its turn as well.
    assert_eq!(g.retry(jobs[0], NOW).await, jobq::store::Acted::Done);
    assert_eq!(claimed(g, NOW).await, []);
}

async fn limits_are_read_back_with_what_runs(g: &Ground) {
    let (set_one, declared) =
        (Limit::queue("mail").rate(each(60_000, 5)), Bounds { concurrency_per_key: Some(2), ..Bounds::NONE });
    set(g, set_one.clone()).await;
    g.store.declare_limits(vec![(LIMITED.into(), declared)], NOW).await.unwrap();
    g.enqueue_all(vec![keyed("a"); 5], NOW).await;
    assert_eq!(claim(g, NOW).await.len(), 2);
    let rows = g.store.limits(NOW).await.unwrap();
    let shown: Vec<_> =
        rows.iter().map(|row| (row.of.clone(), row.bounds, row.set, row.declared, row.running)).collect();
    assert_eq!(
        shown,
        [
            (Limited::Queue("mail".into()), set_one.bounds, Some(set_one.bounds), None, 0),
            (Limited::JobType(LIMITED.into()), declared, None, Some(declared), 2),
        ]
    );
}

async fn what_can_be_no_limit_is_refused(g: &Ground) {
    for limit in [
        Limit::job_type(LIMITED).concurrency(0),
        Limit::queue("mail").concurrency_per_key(1),
        Limit::queue(""),
        Limit::queue("mail").rate(each(1000, 0)),
        Limit::queue("mail").rate(each(0, 1)),
    ] {
        assert!(is_invalid(g.store.set_limit(limit.clone(), NOW).await), "{limit:?}");
    }
    let long = NewJob { concurrency_key: Some("x".repeat(256)), ..limited() };
    assert!(is_invalid(g.store.enqueue(vec![long], NOW).await));
    assert_eq!(g.store.limits(NOW).await.unwrap(), []);
}
