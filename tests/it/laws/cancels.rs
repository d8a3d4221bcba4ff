//! The cancel of a running job: a wish that its holder hears of, and that every way out but completion honours.

use super::{ground::*, on_every_store};
use jobq::{
    job::{AttemptOutcome, NewJob},
    state::JobState,
    store::{Acted, Cancel, Next, Retention, Settled},
};
use std::time::Duration;

on_every_store![
    a_running_job_is_asked_for_and_its_row_says_since_when,
    asked_twice_is_asked_once,
    a_completion_that_comes_first_wins,
    every_other_way_out_of_running_is_cancelled_and_counts,
    a_wish_is_of_one_lease,
    a_wish_is_not_heard_of_after_the_attempt_has_ended,
    a_late_report_under_a_wish_is_late,
    asking_is_a_cue,
];

async fn a_running_job_is_asked_for_and_its_row_says_since_when(g: &Ground) {
    let job = g.running().await;
    let before = g.row(job.id).await;
    assert_eq!(before.cancel_asked_at, None);
    assert_eq!(g.cancel(job.id, NOW + 5).await, Acted::Asked);
    let after = g.row(job.id).await;
    assert_eq!(after.cancel_asked_at, Some(NOW + 5));
    let untouched = jobq::JobRow { cancel_asked_at: None, heartbeat_at: before.heartbeat_at, ..after };
    assert_eq!(untouched, before, "nothing else is written");
    let wish = Cancel { id: job.id, lease: job.lease, asked_at: NOW + 5 };
    assert_eq!(g.store.cancels().await.unwrap(), [wish]);
    assert_eq!(g.cancel(foreign(job.id), NOW + 5).await, Acted::NotFound);
    assert_eq!(g.cancel(guessed(job.id), NOW + 5).await, Acted::NotFound);
    let listed = g.store.list(Default::default()).await.unwrap();
    let asked: Vec<_> = listed.iter().filter(|row| row.cancel_asked_at.is_some()).map(|row| row.id).collect();
    assert_eq!(asked, [job.id]);
    g.rescue(job.id, job.lease, Next::Dead, NOW).await;
}

async fn asked_twice_is_asked_once(g: &Ground) {
    let job = g.running().await;
    let answers = g.store.cancel(vec![job.id, job.id], NOW + 1).await.unwrap();
    assert_eq!(answers, [Acted::Asked; 2]);
    assert_eq!(g.cancel(job.id, NOW + 9).await, Acted::Asked);
    assert_eq!(g.row(job.id).await.cancel_asked_at, Some(NOW + 1));
    assert_eq!(g.store.cancels().await.unwrap().len(), 1);
}

async fn a_completion_that_comes_first_wins(g: &Ground) {
    let job = g.running().await;
    g.cancel(job.id, NOW).await;
    assert_eq!(g.complete(job.id, job.lease, NOW + 1).await, Settled::Applied);
    let row = g.row(job.id).await;
    assert_eq!((row.state, row.cancel_asked_at), (JobState::Completed, None));
    assert_eq!(row.result.as_deref(), Some(r#"{"sent":true}"#));
    assert_eq!(g.store.cancels().await.unwrap(), []);
    assert_eq!(g.cancel(job.id, NOW + 2).await, Acted::WrongState(JobState::Completed));
}

async fn every_other_way_out_of_running_is_cancelled_and_counts(g: &Ground) {
    for way in 0..7 {
        let id = g.enqueue(NewJob { max_attempts: 1 + way % 2, ..work() }, NOW).await;
        g.claim_this(id, NOW + 1).await;
        g.cancel(id, NOW + 2).await;
        let settled = match way {
            0 => g.fail(id, 1, Next::At(NOW + 100), NOW + 3).await,
            1 => g.fail(id, 1, Next::Dead, NOW + 3).await,
            2 => g.fail(id, 1, Next::Cancelled, NOW + 3).await,
            3 => g.snooze(id, 1, NOW + 100, NOW + 3).await,
            4 => g.release(id, 1, NOW + 3).await,
            5 => g.rescue(id, 1, Next::AsBefore, NOW + 3).await,
            _ => g.rescue(id, 1, Next::Dead, NOW + 3).await,
        };
        assert_eq!(settled, Settled::Applied, "way {way}");
        let row = g.row(id).await;
        assert_eq!((row.state, row.attempts, row.run_at), (JobState::Cancelled, 1, NOW), "way {way}");
        assert_eq!((row.completed_at, row.cancel_asked_at), (Some(NOW + 3), None), "way {way}");
        let attempts = g.attempts(id).await;
        assert_eq!(attempts.len(), 1);
        assert_eq!((attempts[0].outcome, attempts[0].attempt), (AttemptOutcome::Cancelled, 1), "way {way}");
        let text = match way {
            0..3 => Some("no such host"),
            3 | 4 => None,
            _ => Some("the worker was lost"),
        };
        assert_eq!((attempts[0].error.as_deref(), row.error.as_deref()), (text, text), "way {way}");
    }
    assert_eq!(g.store.cancels().await.unwrap(), []);
    assert_eq!(g.claim(10, NOW + 1000).await, []);
}

async fn a_wish_is_of_one_lease(g: &Ground) {
    // Completed under a wish, then run again by a person: the wish was of the attempt before.
    let job = g.running().await;
    g.cancel(job.id, NOW).await;
    g.complete(job.id, job.lease, NOW).await;
    g.retry(job.id, NOW).await;
    let again = g.claim_this(job.id, NOW).await;
    assert_eq!(g.row(job.id).await.cancel_asked_at, None);
    assert_eq!(g.store.cancels().await.unwrap(), []);
    assert_eq!(g.fail(job.id, again.lease, Next::At(NOW), NOW).await, Settled::Applied);
    assert_eq!(g.state(job.id).await, JobState::Pending);
    // And it can be wished anew.
    let third = g.claim_this(job.id, NOW + 3).await;
    assert_eq!(g.cancel(job.id, NOW + 4).await, Acted::Asked);
    assert_eq!(g.row(job.id).await.cancel_asked_at, Some(NOW + 4));
    assert_eq!(g.release(job.id, third.lease, NOW + 5).await, Settled::Applied);
    assert_eq!(g.state(job.id).await, JobState::Cancelled);
    // A person's retry of what was cancelled begins clean.
    g.retry(job.id, NOW + 6).await;
    let fourth = g.claim_this(job.id, NOW + 7).await;
    assert_eq!(g.store.cancels().await.unwrap(), []);
    g.complete(job.id, fourth.lease, NOW + 8).await;
}

async fn a_wish_is_not_heard_of_after_the_attempt_has_ended(g: &Ground) {
    let jobs = [g.running().await, g.running().await, g.running().await];
    for job in &jobs {
        g.cancel(job.id, NOW).await;
    }
    g.complete(jobs[0].id, 1, NOW).await;
    g.release(jobs[1].id, 1, NOW).await;
    let wish = |job: usize| Cancel { id: jobs[job].id, lease: 1, asked_at: NOW };
    assert_eq!(g.store.cancels().await.unwrap(), [wish(2)]);
    let keep = Retention { finished: Some(Duration::ZERO), dead: None };
    assert_eq!(g.store.prune(keep, NOW + 1).await.unwrap(), 2);
    assert_eq!(g.store.cancels().await.unwrap(), [wish(2)], "a prune leaves those of running jobs");
    assert_eq!(g.fail(jobs[2].id, 1, Next::At(NOW), NOW).await, Settled::Applied);
    assert_eq!(g.state(jobs[2].id).await, JobState::Cancelled);
}

async fn a_late_report_under_a_wish_is_late(g: &Ground) {
    let job = g.running().await;
    g.cancel(job.id, NOW).await;
    assert_eq!(g.rescue(job.id, job.lease, Next::At(NOW), NOW + 1).await, Settled::Applied);
    assert_eq!(g.complete(job.id, job.lease, NOW + 2).await, Settled::LeaseLost);
    assert_eq!(g.state(job.id).await, JobState::Cancelled);
    let late = g.attempts(job.id).await.remove(0).late.expect("a late report");
    assert_eq!((late.at, late.outcome), (NOW + 2, AttemptOutcome::Completed));
}

async fn asking_is_a_cue(g: &Ground) {
    let job = g.running().await;
    let mut changed = g.store.changed();
    changed.mark_unchanged();
    g.cancel(job.id, NOW).await;
    cue(&mut changed, "a cancel").await;
}
