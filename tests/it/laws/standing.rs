//! Claims that wait for work, and callers that are gone before their answer.

use super::{ground::*, on_every_store};
use jobq::{
    job::{JobId, NewJob, WorkerId},
    state::JobState,
    store::{Answer, Claim, Claimed, JobFilter, Next},
};
use std::task::Poll;

on_every_store![
    a_standing_claim_is_answered_at_once_where_there_is_work,
    a_standing_claim_is_answered_by_an_enqueue,
    a_standing_claim_is_answered_by_a_promote,
    a_standing_claim_is_answered_by_a_retry,
    a_standing_claim_is_answered_by_a_run_now,
    a_standing_claim_is_answered_by_a_release,
    a_standing_claim_is_answered_by_a_failure_that_is_due,
    a_standing_claim_is_answered_by_a_rescue_that_is_due,
    a_standing_claim_is_not_answered_by_what_it_does_not_serve,
    a_standing_claim_takes_no_more_than_its_limit,
    one_job_answers_one_of_two_standing_claims,
    a_withdrawn_claim_is_answered_with_nothing,
    withdrawing_leaves_other_workers_claims,
    a_worker_that_signs_out_claims_no_more,
    a_standing_claim_that_was_dropped_takes_nothing,
    a_claim_dropped_with_its_answer_gives_the_job_back,
    a_dropped_write_is_whole_or_not_at_all,
    moves_are_cues_to_look_again,
];

fn stand(g: &Ground, worker: WorkerId, limit: usize) -> Answer<'_, Vec<Claimed>> {
    let claim = Claim { worker, set: set(&[WORK], None), limit, standing: true };
    g.store.claim(claim, NOW)
}

/// Hands the call over to the store, as the first poll does, without waiting for the answer.
async fn begin<T>(answer: &mut Answer<'_, T>) -> Option<T> {
    let once = std::future::poll_fn(|cx| {
        Poll::Ready(match answer.as_mut().poll(cx) {
            Poll::Ready(answer) => Some(answer.unwrap()),
            Poll::Pending => None,
        })
    });
    once.await
}

/// A claim that stands, since there is nothing to do.
async fn standing(g: &Ground, limit: usize) -> Answer<'_, Vec<Claimed>> {
    let mut answer = stand(g, g.worker, limit);
    assert_eq!(begin(&mut answer).await, None);
    answer
}

async fn answers(answer: Answer<'_, Vec<Claimed>>, id: JobId) {
    assert_eq!(ids(&soon(answer).await.unwrap()), [id]);
}

async fn a_standing_claim_is_answered_at_once_where_there_is_work(g: &Ground) {
    let id = g.pending().await;
    answers(stand(g, g.worker, 5), id).await;
}

async fn a_standing_claim_is_answered_by_an_enqueue(g: &Ground) {
    let answer = standing(g, 5).await;
    let id = g.pending().await;
    answers(answer, id).await;
    let row = g.row(id).await;
    assert_eq!((row.state, row.lease, row.worker), (JobState::Running, 1, Some(g.worker)));
}

async fn a_standing_claim_is_answered_by_a_promote(g: &Ground) {
    let id = g.enqueue(due_at(NOW + 5), NOW).await;
    let answer = standing(g, 5).await;
    g.store.promote(10, NOW + 5).await.unwrap();
    answers(answer, id).await;
}

async fn a_standing_claim_is_answered_by_a_retry(g: &Ground) {
    let (id, _) = g.job_in(JobState::Dead, work()).await;
    let answer = standing(g, 5).await;
    g.retry(id, NOW).await;
    answers(answer, id).await;
}

async fn a_standing_claim_is_answered_by_a_run_now(g: &Ground) {
    let id = g.enqueue(due_at(FAR), NOW).await;
    let answer = standing(g, 5).await;
    g.run_now(id, NOW).await;
    answers(answer, id).await;
}

async fn a_standing_claim_is_answered_by_a_release(g: &Ground) {
    let job = g.running().await;
    let answer = standing(g, 5).await;
    g.release(job.id, job.lease, NOW).await;
    answers(answer, job.id).await;
}

async fn a_standing_claim_is_answered_by_a_failure_that_is_due(g: &Ground) {
    let job = g.running().await;
    let answer = standing(g, 5).await;
    g.fail(job.id, job.lease, Next::At(NOW), NOW).await;
    answers(answer, job.id).await;
}

async fn a_standing_claim_is_answered_by_a_rescue_that_is_due(g: &Ground) {
    let job = g.running().await;
    let answer = standing(g, 5).await;
    g.rescue(job.id, job.lease, Next::At(NOW), NOW).await;
    answers(answer, job.id).await;
}

async fn a_standing_claim_is_not_answered_by_what_it_does_not_serve(g: &Ground) {
    let mut answer = standing(g, 5).await;
    let unknown = g.enqueue(of_type("unknown"), NOW).await;
    let later = g.enqueue(due_at(NOW + 5), NOW).await;
    assert_eq!(begin(&mut answer).await, None);
    let rows = g.rows(&[unknown, later]).await;
    assert_eq!((rows[0].state, rows[1].state), (JobState::Pending, JobState::Scheduled));
    let id = g.pending().await;
    answers(answer, id).await;
}

async fn a_standing_claim_takes_no_more_than_its_limit(g: &Ground) {
    let answer = standing(g, 2).await;
    let enqueued = g.enqueue_all(vec![work(); 5], NOW).await;
    assert_eq!(ids(&soon(answer).await.unwrap()), enqueued[..2]);
    assert_eq!(ids(&g.claim(10, NOW).await), enqueued[2..]);
}

async fn one_job_answers_one_of_two_standing_claims(g: &Ground) {
    let other = g.store.register(worker_named("the other"), NOW).await.unwrap();
    let mut first = standing(g, 5).await;
    let mut second = stand(g, other, 5);
    assert_eq!(begin(&mut second).await, None);
    let id = g.pending().await;
    let (answered, waiting) = soon(async {
        tokio::select! {
            claimed = &mut first => (claimed.unwrap(), second),
            claimed = &mut second => (claimed.unwrap(), first),
        }
    })
    .await;
    assert_eq!(ids(&answered), [id]);
    g.store.withdraw(g.worker);
    g.store.withdraw(other);
    assert_eq!(soon(waiting).await.unwrap(), []);
}

async fn a_withdrawn_claim_is_answered_with_nothing(g: &Ground) {
    let answer = standing(g, 5).await;
    g.store.withdraw(g.worker);
    assert_eq!(soon(answer).await.unwrap(), []);
    let id = g.pending().await;
    g.claim_this(id, NOW).await;
}

async fn withdrawing_leaves_other_workers_claims(g: &Ground) {
    let answer = standing(g, 5).await;
    let other = g.store.register(worker_named("the other"), NOW).await.unwrap();
    g.store.withdraw(other);
    let id = g.pending().await;
    answers(answer, id).await;
}

async fn a_worker_that_signs_out_claims_no_more(g: &Ground) {
    let worker = g.store.register(worker_named("short-lived"), NOW).await.unwrap();
    let mut answer = stand(g, worker, 5);
    assert_eq!(begin(&mut answer).await, None);
    g.store.unregister(worker);
    assert_eq!(soon(answer).await.unwrap(), []);
    let id = g.pending().await;
    g.claim_this(id, NOW).await;
}

/// The job must come to somebody who listens, as its first attempt, whoever dropped what.
async fn comes_to_a_listener(g: &Ground, id: JobId) {
    let claimed = soon(stand(g, g.worker, 5)).await.unwrap();
    assert_eq!(ids(&claimed), [id]);
    assert_eq!(claimed[0].attempt, 1, "a claim that nobody received costs no attempt");
}

async fn a_standing_claim_that_was_dropped_takes_nothing(g: &Ground) {
    for _ in 0..3 {
        drop(standing(g, 5).await);
    }
    let id = g.pending().await;
    comes_to_a_listener(g, id).await;
}

async fn a_claim_dropped_with_its_answer_gives_the_job_back(g: &Ground) {
    // Standing: the answer is on its way when its future goes.
    let answer = standing(g, 5).await;
    let id = g.pending().await;
    drop(answer);
    comes_to_a_listener(g, id).await;
    g.cancel_running(id).await;

    // Not standing: dropped before and after it was handed over.
    let claim = || {
        let claim = Claim { worker: g.worker, set: set(&[WORK], None), limit: 5, standing: false };
        g.store.claim(claim, NOW)
    };
    let id = g.pending().await;
    drop(claim());
    comes_to_a_listener(g, id).await;
    g.cancel_running(id).await;

    let id = g.pending().await;
    let mut answer = claim();
    let claimed = begin(&mut answer).await;
    drop(answer);
    if claimed.is_none() {
        comes_to_a_listener(g, id).await;
    }
}

/// Promise of `Answer`: dropping it never undoes and never half-does a write.
async fn a_dropped_write_is_whole_or_not_at_all(g: &Ground) {
    let jobs = |label: &str| vec![NewJob { label: Some(label.into()), ..work() }; 3];
    drop(g.store.enqueue(jobs("never polled"), NOW));
    let mut begun = g.store.enqueue(jobs("begun"), NOW);
    begin(&mut begun).await;
    drop(begun);
    // What was handed over before is written before this.
    g.pending().await;
    for (label, allowed) in [("never polled", &[0, 3][..]), ("begun", &[3])] {
        let filter = JobFilter { label: Some(label.into()), ..JobFilter::default() };
        let there = g.listed(filter).await.len();
        assert!(allowed.contains(&there), "{label}: {there} of 3 are there");
    }
}

/// The counter may rise more often than needed, never less.
async fn moves_are_cues_to_look_again(g: &Ground) {
    let mut changed = g.store.changed();
    let id = g.pending().await;
    cue(&mut changed, "enqueue").await;
    let later = g.enqueue(due_at(NOW + 5), NOW).await;
    cue(&mut changed, "enqueue for later").await;
    g.store.promote(10, NOW + 5).await.unwrap();
    cue(&mut changed, "promote").await;
    let job = g.claim_this(id, NOW).await;
    g.release(id, job.lease, NOW).await;
    cue(&mut changed, "release").await;
    g.cancel(later, NOW).await;
    g.retry(later, NOW).await;
    cue(&mut changed, "retry").await;
}
