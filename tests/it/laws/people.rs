//! Acts of people, one answer for each job, and how long what has ended is kept.

use super::{ground::*, on_every_store};
use jobq::{
    job::{JobId, NewJob},
    state::JobState,
    store::{Acted, Answer, Retention},
};
use std::time::Duration;

on_every_store![
    each_act_answers_for_each_job,
    a_job_twice_in_one_act_is_acted_on_once,
    an_id_of_another_store_is_not_found,
    an_unknown_id_is_nowhere,
    retry_may_be_asked_for_again_and_again,
    prune_follows_the_default_of_each_state,
    prune_follows_the_row_before_the_default_but_for_the_dead,
    prune_without_a_default_keeps_for_ever,
    prune_takes_nothing_that_has_not_ended,
    prune_counts_the_time_since_the_last_end,
];

type Act = fn(&Ground, Vec<JobId>) -> Answer<'_, Vec<Acted>>;

/// Each act, a state it leaves and a state it can't.
const ACTS: [(Act, JobState, JobState); 4] = [
    (|g, ids| g.store.cancel(ids, NOW + 1), JobState::Scheduled, JobState::Dead),
    (|g, ids| g.store.retry(ids, NOW + 1), JobState::Dead, JobState::Scheduled),
    (|g, ids| g.store.run_now(ids, NOW + 1), JobState::Scheduled, JobState::Completed),
    (|g, ids| g.store.delete(ids, NOW + 1), JobState::Cancelled, JobState::Running),
];

/// A job in this state that no later claim finds.
async fn job_in(g: &Ground, state: JobState) -> JobId {
    let run_at = (state == JobState::Scheduled).then_some(FAR - 1);
    let (id, _) = g.job_in(state, NewJob { run_at, ..in_queue(&format!("{state}")) }).await;
    id
}

async fn each_act_answers_for_each_job(g: &Ground) {
    for (act, leaves, stays) in ACTS {
        let (first, wrong, last) = (job_in(g, leaves).await, job_in(g, stays).await, job_in(g, leaves).await);
        let before = g.row(wrong).await;
        let answers = act(g, vec![first, foreign(first), wrong, guessed(wrong), last]).await.unwrap();
        let expected = [Acted::Done, Acted::NotFound, Acted::WrongState(stays), Acted::NotFound, Acted::Done];
        assert_eq!(answers, expected);
        assert_eq!(g.row(wrong).await, before);
        clear(g).await;
    }
}

/// Takes what may be claimed out of the way of the next round.
async fn clear(g: &Ground) {
    for job in g.claim(1000, NOW).await {
        g.complete(job.id, job.lease, NOW).await;
    }
}

async fn a_job_twice_in_one_act_is_acted_on_once(g: &Ground) {
    for (act, leaves, _) in ACTS {
        let id = job_in(g, leaves).await;
        let answers = act(g, vec![id, id]).await.unwrap();
        assert_eq!(answers[0], Acted::Done);
        let second = match g.store.get(id).await.unwrap() {
            Some(row) => Acted::WrongState(row.state),
            None => Acted::NotFound,
        };
        assert_eq!(answers[1], second);
        clear(g).await;
    }
}

async fn an_id_of_another_store_is_not_found(g: &Ground) {
    for (act, leaves, _) in ACTS {
        let id = job_in(g, leaves).await;
        let before = g.row(id).await;
        let answers = act(g, vec![foreign(id), guessed(id)]).await.unwrap();
        assert_eq!(answers, [Acted::NotFound; 2]);
        assert_eq!(g.row(id).await, before);
        clear(g).await;
    }
}

async fn an_unknown_id_is_nowhere(g: &Ground) {
    let real = g.running().await.id;
    let nil: JobId = "00000000-0000-0000-0000-000000000000".parse().unwrap();
    let max: JobId = "ffffffff-ffff-ffff-ffff-ffffffffffff".parse().unwrap();
    for id in [foreign(real), guessed(real), nil, max] {
        assert_eq!(g.store.get(id).await.unwrap(), None, "{id}");
        assert_eq!(g.attempts(id).await, [], "{id}");
        for (act, ..) in ACTS {
            assert_eq!(act(g, vec![id]).await.unwrap(), [Acted::NotFound], "{id}");
        }
    }
}

async fn retry_may_be_asked_for_again_and_again(g: &Ground) {
    let id = g.pending().await;
    for round in 1..=5 {
        let job = g.claim_this(id, NOW + round).await;
        assert_eq!((job.attempt, job.lease), (1, round));
        g.complete(id, job.lease, NOW + round).await;
        assert_eq!(g.retry(id, NOW + round).await, Acted::Done);
        assert_eq!(g.retry(id, NOW + round).await, Acted::WrongState(JobState::Pending));
    }
}

const fn keep(finished: Option<u64>, dead: Option<u64>) -> Retention {
    const fn millis(kept: Option<u64>) -> Option<Duration> {
        match kept {
            Some(kept) => Some(Duration::from_millis(kept)),
            None => None,
        }
    }
    Retention { finished: millis(finished), dead: millis(dead) }
}

/// Which of these jobs a prune took; its answer must be their number.
async fn pruned(g: &Ground, ids: &[JobId], keep: Retention, now: i64) -> Vec<JobId> {
    let before = there(g, ids).await;
    let count = g.store.prune(keep, now).await.unwrap();
    let after = there(g, ids).await;
    let gone: Vec<_> = before.into_iter().filter(|id| !after.contains(id)).collect();
    assert_eq!(gone.len(), count, "the number that prune gives");
    gone
}

async fn there(g: &Ground, ids: &[JobId]) -> Vec<JobId> {
    let mut there = Vec::new();
    for &id in ids {
        there.extend(g.store.get(id).await.unwrap().map(|row| row.id));
    }
    there
}

async fn prune_follows_the_default_of_each_state(g: &Ground) {
    let completed = job_in(g, JobState::Completed).await;
    let dead = job_in(g, JobState::Dead).await;
    let cancelled = job_in(g, JobState::Cancelled).await;
    let all = [completed, dead, cancelled];
    assert_eq!(pruned(g, &all, keep(Some(10), Some(20)), NOW + 9).await, []);
    assert_eq!(pruned(g, &all, keep(Some(10), Some(20)), NOW + 10).await, [completed, cancelled]);
    assert_eq!(pruned(g, &all, keep(Some(10), Some(20)), NOW + 19).await, []);
    assert_eq!(pruned(g, &all, keep(Some(10), Some(20)), NOW + 20).await, [dead]);
    assert_eq!(g.attempts(dead).await, []);
}

/// Dead letters are for people: what a type says of its finished rows does not take them away sooner.
async fn prune_follows_the_row_before_the_default_but_for_the_dead(g: &Ground) {
    let kept = |millis| NewJob { retain: Some(Duration::from_millis(millis)), ..work() };
    let (short, _) = g.job_in(JobState::Completed, kept(5)).await;
    let (long, _) = g.job_in(JobState::Cancelled, kept(50)).await;
    let (dead, _) = g.job_in(JobState::Dead, kept(7)).await;
    let all = [short, long, dead];
    assert_eq!(pruned(g, &all, keep(Some(10), None), NOW + 4).await, []);
    assert_eq!(pruned(g, &all, keep(Some(10), None), NOW + 10).await, [short]);
    assert_eq!(pruned(g, &all, keep(None, None), NOW + 49).await, []);
    assert_eq!(pruned(g, &all, keep(None, None), NOW + 50).await, [long]);
    assert_eq!(pruned(g, &all, keep(None, Some(100)), NOW + 99).await, []);
    assert_eq!(pruned(g, &all, keep(None, Some(100)), NOW + 100).await, [dead]);
    let (longer, _) = g.job_in(JobState::Dead, kept(200)).await;
    assert_eq!(pruned(g, &[longer], keep(None, Some(100)), NOW + 199).await, []);
    assert_eq!(pruned(g, &[longer], keep(None, Some(100)), NOW + 200).await, [longer]);
}

async fn prune_without_a_default_keeps_for_ever(g: &Ground) {
    let completed = job_in(g, JobState::Completed).await;
    let dead = job_in(g, JobState::Dead).await;
    assert_eq!(pruned(g, &[completed, dead], keep(None, None), FAR - 1).await, []);
    assert_eq!(pruned(g, &[completed, dead], keep(None, Some(0)), FAR - 1).await, [dead]);
}

async fn prune_takes_nothing_that_has_not_ended(g: &Ground) {
    let at_once = |queue: &str| NewJob { retain: Some(Duration::ZERO), ..in_queue(queue) };
    let (running, _) = g.job_in(JobState::Running, at_once("running")).await;
    let scheduled = g.enqueue(NewJob { run_at: Some(NOW + 5), ..at_once("scheduled") }, NOW).await;
    let (retried, _) = g.job_in(JobState::Dead, at_once("retried")).await;
    g.retry(retried, NOW).await;
    let all = [running, scheduled, retried];
    assert_eq!(pruned(g, &all, keep(Some(0), Some(0)), FAR - 1).await, []);
}

async fn prune_counts_the_time_since_the_last_end(g: &Ground) {
    let id = g.pending().await;
    let job = g.claim_this(id, NOW).await;
    g.complete(id, job.lease, NOW).await;
    g.retry(id, NOW + 100).await;
    let job = g.claim_this(id, NOW + 100).await;
    g.complete(id, job.lease, NOW + 200).await;
    assert_eq!(pruned(g, &[id], keep(Some(10), None), NOW + 209).await, []);
    assert_eq!(pruned(g, &[id], keep(Some(10), None), NOW + 210).await, [id]);
}
