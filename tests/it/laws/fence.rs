//! The lease: who may write out of `running`, and what becomes of those who may not.

use super::{ground::*, on_every_store};
use jobq::{
    job::{AttemptOutcome, JobId, Lease},
    state::{Edge, JobState},
    store::{Completion, Failure, Next, Release, Rescue, Settled, Snooze},
};

on_every_store![
    a_wrong_lease_settles_nothing,
    a_stale_lease_settles_nothing_after_a_rescue,
    a_job_that_is_not_there_is_gone,
    an_id_of_another_store_is_gone,
    a_lease_never_starts_again,
    a_late_result_is_kept_and_not_applied,
    a_late_failure_is_kept_and_not_applied,
    the_first_late_report_stays,
    a_late_rescue_leaves_no_report,
    a_second_result_of_one_lease_is_refused,
    a_job_twice_in_one_batch_is_settled_once,
    one_bad_item_leaves_the_others_applied,
];

const OUT_OF_RUNNING: [Edge; 5] = [Edge::Complete, Edge::Fail, Edge::Snooze, Edge::Release, Edge::Rescue];

async fn a_wrong_lease_settles_nothing(g: &Ground) {
    let job = g.running().await;
    let before = g.row(job.id).await;
    for edge in OUT_OF_RUNNING {
        for wrong in [0, 2, -1, Lease::MAX, Lease::MIN] {
            assert!(!g.take(edge, job.id, wrong, NOW + 1).await, "{edge:?} with lease {wrong}");
        }
    }
    assert_eq!(g.row(job.id).await, before);
    assert_eq!(g.complete(job.id, job.lease, NOW + 1).await, Settled::Applied);
}

/// Cases 036, 038: the lost worker comes back while another one runs the job.
async fn a_stale_lease_settles_nothing_after_a_rescue(g: &Ground) {
    let job = g.running().await;
    g.rescue(job.id, 1, Next::At(NOW + 1), NOW + 1).await;
    let again = g.claim_this(job.id, NOW + 2).await;
    let before = g.row(job.id).await;
    for edge in OUT_OF_RUNNING {
        assert!(!g.take(edge, job.id, job.lease, NOW + 3).await, "{edge:?}");
    }
    assert_eq!(g.row(job.id).await, before);
    assert_eq!(g.complete(job.id, again.lease, NOW + 4).await, Settled::Applied);
    assert_eq!(g.state(job.id).await, JobState::Completed);
}

async fn settle_each_way(g: &Ground, id: JobId, lease: Lease) -> [Settled; 5] {
    [
        g.complete(id, lease, NOW).await,
        g.fail(id, lease, Next::Dead, NOW).await,
        g.snooze(id, lease, NOW + 1, NOW).await,
        g.release(id, lease, NOW).await,
        g.rescue(id, lease, Next::Dead, NOW).await,
    ]
}

/// Case 101.
async fn a_job_that_is_not_there_is_gone(g: &Ground) {
    let (id, lease) = g.job_in(JobState::Dead, work()).await;
    g.delete(id, NOW).await;
    assert_eq!(settle_each_way(g, id, lease).await, [Settled::Gone; 5]);
}

async fn an_id_of_another_store_is_gone(g: &Ground) {
    let job = g.running().await;
    let before = g.row(job.id).await;
    for stranger in [foreign(job.id), guessed(job.id)] {
        assert_eq!(settle_each_way(g, stranger, job.lease).await, [Settled::Gone; 5]);
    }
    assert_eq!(g.row(job.id).await, before);
}

async fn a_lease_never_starts_again(g: &Ground) {
    let id = g.pending().await;
    for lease in 1..=12 {
        let job = g.claim_this(id, NOW + lease * 10).await;
        assert_eq!(job.lease, lease);
        let now = NOW + lease * 10 + 1;
        match lease % 6 {
            0 => g.complete(id, lease, now).await,
            1 => g.fail(id, lease, Next::Dead, now).await,
            2 => g.release(id, lease, now).await,
            3 => g.snooze(id, lease, now, now).await,
            4 => g.rescue(id, lease, Next::At(now), now).await,
            _ => g.fail(id, lease, Next::Cancelled, now).await,
        };
        g.retry(id, now).await;
        assert_eq!(g.state(id).await, JobState::Pending);
    }
}

/// Case 127.
async fn a_late_result_is_kept_and_not_applied(g: &Ground) {
    let job = g.running().await;
    g.rescue(job.id, 1, Next::At(NOW + 1), NOW + 1).await;
    let before = g.row(job.id).await;
    assert_eq!(g.complete(job.id, 1, NOW + 9).await, Settled::LeaseLost);
    assert_eq!(g.row(job.id).await, before);
    let attempts = g.attempts(job.id).await;
    assert_eq!(attempts[0].outcome, AttemptOutcome::Lost);
    let late = attempts[0].late.as_ref().expect("the report is kept");
    assert_eq!((late.at, late.outcome), (NOW + 9, AttemptOutcome::Completed));
    assert_eq!(late.text.as_deref(), Some(r#"{"sent":true}"#));
}

async fn a_late_failure_is_kept_and_not_applied(g: &Ground) {
    let job = g.running().await;
    g.rescue(job.id, 1, Next::Dead, NOW + 1).await;
    let before = g.row(job.id).await;
    let ended = Failure {
        outcome: AttemptOutcome::Panicked,
        error: "é".repeat(20_000),
        ..failure(job.id, 1, Next::Dead)
    };
    assert_eq!(g.store.fail(vec![ended], NOW + 9).await.unwrap(), [Settled::LeaseLost]);
    assert_eq!(g.row(job.id).await, before);
    let attempts = g.attempts(job.id).await;
    let late = attempts[0].late.as_ref().expect("the report is kept");
    assert_eq!((late.at, late.outcome), (NOW + 9, AttemptOutcome::Panicked));
    let text = late.text.as_ref().unwrap();
    assert!(text.starts_with("éé") && text.len() <= jobq::job::MAX_ERROR, "cut to the usual length");
}

async fn the_first_late_report_stays(g: &Ground) {
    let job = g.running().await;
    g.rescue(job.id, 1, Next::Dead, NOW + 1).await;
    g.fail(job.id, 1, Next::Dead, NOW + 2).await;
    let first = g.attempts(job.id).await;
    assert_eq!(first[0].late.as_ref().expect("the report is kept").at, NOW + 2);
    assert_eq!(g.complete(job.id, 1, NOW + 3).await, Settled::LeaseLost);
    assert_eq!(g.attempts(job.id).await, first);
}

async fn a_late_rescue_leaves_no_report(g: &Ground) {
    let job = g.running().await;
    g.fail(job.id, 1, Next::At(NOW + 1), NOW + 1).await;
    assert_eq!(g.rescue(job.id, 1, Next::Dead, NOW + 2).await, Settled::LeaseLost);
    assert_eq!(g.attempts(job.id).await[0].late, None, "a rescuer reports nothing of the worker");
}

async fn a_second_result_of_one_lease_is_refused(g: &Ground) {
    let job = g.running().await;
    assert_eq!(g.complete(job.id, 1, NOW + 1).await, Settled::Applied);
    let before = g.row(job.id).await;
    assert_eq!(g.fail(job.id, 1, Next::Dead, NOW + 2).await, Settled::LeaseLost);
    assert_eq!(g.complete(job.id, 1, NOW + 3).await, Settled::LeaseLost);
    assert_eq!(g.row(job.id).await, before);
}

async fn a_job_twice_in_one_batch_is_settled_once(g: &Ground) {
    let twice = [Settled::Applied, Settled::LeaseLost];
    let (id, lease) = running(g).await;
    let ended =
        |result: &str| Completion { id, lease, result: Some(result.into()), ties: jobq::store::Ties::ALL };
    assert_eq!(g.store.complete(vec![ended("1"), ended("2")], NOW).await.unwrap(), twice);
    assert_eq!(g.row(id).await.result.as_deref(), Some("1"));

    let (id, lease) = running(g).await;
    let ended = vec![failure(id, lease, Next::Cancelled), failure(id, lease, Next::Dead)];
    assert_eq!(g.store.fail(ended, NOW).await.unwrap(), twice);
    assert_eq!(g.state(id).await, JobState::Cancelled);

    let (id, lease) = running(g).await;
    let ended = |run_at| Snooze { id, lease, run_at, ties: jobq::store::Ties::ALL };
    assert_eq!(g.store.snooze(vec![ended(FAR), ended(NOW)], NOW).await.unwrap(), twice);
    assert_eq!((g.row(id).await.attempts, g.row(id).await.run_at), (0, FAR));

    let (id, lease) = running(g).await;
    let lost =
        |next| Rescue { id, lease, error: "lost".into(), next, ties: jobq::store::Ties::ALL, on_dead: None };
    assert_eq!(g.store.rescue(vec![lost(Next::Dead), lost(Next::At(NOW))], NOW).await.unwrap(), twice);
    assert_eq!(g.state(id).await, JobState::Dead);

    let (id, lease) = running(g).await;
    let ended = vec![
        Release { id, lease, ties: jobq::store::Ties::ALL },
        Release { id, lease, ties: jobq::store::Ties::ALL },
    ];
    assert_eq!(g.store.release(ended, NOW).await.unwrap(), twice);
    assert_eq!(g.row(id).await.attempts, 0);
}

async fn running(g: &Ground) -> (JobId, Lease) {
    let job = g.running().await;
    (job.id, job.lease)
}

/// Case 050: the row of one of fifty jobs is gone; the other 49 are written, and each answer has its place.
async fn one_bad_item_leaves_the_others_applied(g: &Ground) {
    type Batch<'a> = jobq::store::Answer<'a, Vec<Settled>>;
    type Settle = fn(&Ground, Vec<(JobId, Lease)>) -> Batch<'_>;
    let edges: [Settle; 5] = [
        |g, jobs| {
            let ended = jobs.into_iter().map(|(id, lease)| Completion {
                id,
                lease,
                result: None,
                ties: jobq::store::Ties::ALL,
            });
            g.store.complete(ended.collect(), NOW + 1)
        },
        |g, jobs| {
            let ended = jobs.into_iter().map(|(id, lease)| failure(id, lease, Next::Dead));
            g.store.fail(ended.collect(), NOW + 1)
        },
        |g, jobs| {
            let ended = jobs.into_iter().map(|(id, lease)| Snooze {
                id,
                lease,
                run_at: FAR,
                ties: jobq::store::Ties::ALL,
            });
            g.store.snooze(ended.collect(), NOW + 1)
        },
        |g, jobs| {
            let ended =
                jobs.into_iter().map(|(id, lease)| Release { id, lease, ties: jobq::store::Ties::ALL });
            g.store.release(ended.collect(), NOW + 1)
        },
        |g, jobs| {
            let lost = |(id, lease)| Rescue {
                id,
                lease,
                error: "lost".into(),
                next: Next::Dead,
                ties: jobq::store::Ties::ALL,
                on_dead: None,
            };
            g.store.rescue(jobs.into_iter().map(lost).collect(), NOW + 1)
        },
    ];
    for settle in edges {
        g.enqueue_all(vec![work(); 50], NOW).await;
        let claimed = g.claim(50, NOW).await;
        let gone = claimed[20].id;
        g.fail(gone, claimed[20].lease, Next::Dead, NOW).await;
        g.delete(gone, NOW).await;
        let mut batch: Vec<_> = claimed.iter().map(|job| (job.id, job.lease)).collect();
        batch[30].1 += 1;
        let answers = settle(g, batch).await.unwrap();
        for (place, answer) in answers.into_iter().enumerate() {
            let expected = match place {
                20 => Settled::Gone,
                30 => Settled::LeaseLost,
                _ => Settled::Applied,
            };
            assert_eq!(answer, expected, "item {place}");
            if place != 20 {
                let moved = g.state(claimed[place].id).await != JobState::Running;
                assert_eq!(moved, place != 30, "item {place}");
            }
        }
        g.rescue(claimed[30].id, claimed[30].lease, Next::Dead, NOW).await;
        let released = g.claim(50, NOW).await;
        for job in released {
            g.complete(job.id, job.lease, NOW).await;
        }
    }
}
