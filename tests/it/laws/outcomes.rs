//! How jobs ended, as those who wait for them read it.

use super::{ground::*, on_every_store};
use jobq::{
    job::NewJob,
    state::JobState,
    store::{Completion, Next, Outcome, Settled, Ties},
};

on_every_store![
    an_outcome_tells_the_state_and_how_it_came_to_it,
    outcomes_come_in_the_order_asked_and_none_for_what_is_not_there,
    an_outcome_begins_anew_with_a_retry,
    a_result_without_a_value_is_none,
    a_commit_of_this_store_is_heard_of_by_who_attends,
];

async fn an_outcome_tells_the_state_and_how_it_came_to_it(g: &Ground) {
    for state in JobState::ALL {
        let job = NewJob { run_at: (state == JobState::Scheduled).then_some(NOW + 1), ..work() };
        let (id, lease) = g.job_in(state, job).await;
        let outcome = Outcome {
            job_type: WORK.into(),
            state,
            attempts: lease as u32,
            result: (state == JobState::Completed).then(|| r#"{"sent":true}"#.into()),
            error: (state == JobState::Dead).then(|| "no such host".into()),
        };
        assert_eq!(g.store.outcomes(vec![id]).await.unwrap(), [Some(outcome)]);
        g.cancel(id, NOW).await;
        g.fail(id, lease, Next::Dead, NOW).await;
    }
}

async fn outcomes_come_in_the_order_asked_and_none_for_what_is_not_there(g: &Ground) {
    let all = g.enqueue_all(vec![work(), work(), of_type("other"), work()], NOW).await;
    g.cancel(all[1], NOW).await;
    g.delete(all[1], NOW).await;
    let asked = vec![all[3], foreign(all[0]), all[2], all[1], guessed(all[0]), all[3]];
    let outcomes = g.store.outcomes(asked).await.unwrap();
    let types = outcomes.iter().map(|outcome| outcome.as_ref().map(|outcome| &*outcome.job_type));
    let types: Vec<_> = types.collect();
    assert_eq!(types, [Some(WORK), None, Some("other"), None, None, Some(WORK)]);
    assert_eq!(g.store.outcomes(Vec::new()).await.unwrap(), []);
}

async fn an_outcome_begins_anew_with_a_retry(g: &Ground) {
    let outcome = async |id| g.store.outcomes(vec![id]).await.unwrap().remove(0).unwrap();
    let job = g.running().await;
    g.fail(job.id, job.lease, Next::Dead, NOW).await;
    g.retry(job.id, NOW).await;
    let anew = outcome(job.id).await;
    assert_eq!((anew.state, anew.attempts, anew.error), (JobState::Pending, 0, None));
    let again = g.claim_this(job.id, NOW).await;
    assert_eq!(outcome(job.id).await.error, None, "that of an attempt before is not its end");
    g.complete(job.id, again.lease, NOW).await;
    let end = outcome(job.id).await;
    assert_eq!((end.state, end.attempts, end.error), (JobState::Completed, 1, None));
    assert_eq!(end.result.as_deref(), Some(r#"{"sent":true}"#));
}

async fn a_result_without_a_value_is_none(g: &Ground) {
    let job = g.running().await;
    let ended = Completion { id: job.id, lease: job.lease, result: None, ties: Ties::NONE };
    assert_eq!(g.store.complete(vec![ended], NOW).await.unwrap(), [Settled::Applied]);
    let outcome = g.store.outcomes(vec![job.id]).await.unwrap().remove(0).unwrap();
    assert_eq!((outcome.state, outcome.result), (JobState::Completed, None));
}

async fn a_commit_of_this_store_is_heard_of_by_who_attends(g: &Ground) {
    let (mut changed, _attention) = (g.store.changed(), g.store.attend());
    let job = g.running().await;
    changed.mark_unchanged();
    g.complete(job.id, job.lease, NOW).await;
    cue(&mut changed, "a completion").await;
}
