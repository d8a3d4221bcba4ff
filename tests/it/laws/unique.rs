//! Unique keys: at most one job holds a key; which states do, for how long, and what becomes of the second job.

use super::{ground::*, on_every_store};
use jobq::{
    Enqueued, Landed,
    job::{Fields, JobField, JobId, KeyScope, NewJob, OnConflict, UniqueKey, Until},
    retry::Backoff,
    state::{JobState, StateSet},
    store::{Acted, JobFilter, Next, Retention, Settled, StoreError},
    time::Millis,
};
use std::time::Duration;

on_every_store![
    a_second_job_of_a_key_is_the_one_that_is_there,
    a_key_tells_jobs_apart_within_its_scope,
    a_batch_honours_keys_among_its_own_jobs_too,
    a_job_without_a_key_is_always_new,
    a_waiting_job_takes_over_the_fields_that_are_to_be_replaced,
    everything_can_be_replaced,
    a_replaced_time_moves_the_job_between_its_waiting_states,
    a_job_that_waits_for_a_retry_keeps_an_attempt_when_replaced,
    a_job_that_does_not_wait_is_not_replaced,
    a_job_of_another_type_is_not_replaced,
    a_rejected_job_is_an_error_and_nothing_of_its_call_is_there,
    a_rejected_batch_takes_back_what_it_replaced,
    a_key_is_held_in_the_states_that_its_rule_names,
    every_way_out_frees_the_key,
    a_key_stays_held_through_every_wait,
    a_window_holds_the_key_of_a_completed_job_until_it_is_over,
    a_window_over_a_job_that_still_runs_changes_nothing,
    a_dead_or_cancelled_job_holds_no_key_within_its_window,
    a_job_is_not_pruned_within_its_window,
    a_job_that_comes_back_to_a_taken_key_goes_on_without,
    a_job_that_comes_back_takes_a_key_whose_window_is_over,
    a_retry_names_the_job_that_holds_the_key,
    a_retry_takes_a_key_whose_window_is_over,
    a_retried_job_does_not_meet_itself,
    jobs_are_listed_by_their_key,
    a_key_that_no_store_takes_is_refused,
];

const MINUTE: Millis = 60_000;

/// A job with this key, by the rules of an attribute that says nothing else.
fn keyed(key: &str) -> NewJob {
    with(key, |_| {})
}

fn with(key: &str, change: impl FnOnce(&mut UniqueKey)) -> NewJob {
    let mut unique = UniqueKey {
        key: key.into(),
        scope: WORK.into(),
        states: Until::Finished.states(),
        within: None,
        on_conflict: OnConflict::Keep,
    };
    change(&mut unique);
    NewJob { unique: Some(Box::new(unique)), ..work() }
}

fn until(key: &str, until: Until) -> NewJob {
    with(key, |unique| unique.states = until.states())
}

/// Held for a minute from the enqueue.
fn within_a_minute(key: &str) -> NewJob {
    with(key, |unique| unique.within = Some(Duration::from_millis(MINUTE as u64)))
}

fn replacing(key: &str, fields: &[JobField]) -> NewJob {
    with(key, |unique| unique.on_conflict = OnConflict::replace(fields))
}

fn rejecting(key: &str) -> NewJob {
    with(key, |unique| unique.on_conflict = OnConflict::Reject)
}

async fn land(g: &Ground, job: NewJob, now: Millis) -> Enqueued {
    g.store.enqueue(vec![job], now).await.unwrap()[0]
}

async fn duplicate(g: &Ground, jobs: Vec<NewJob>) -> (usize, String, Option<JobId>) {
    match g.store.enqueue(jobs, NOW).await {
        Err(StoreError::Duplicate { place, key, existing }) => (place, key, existing),
        other => panic!("{other:?}"),
    }
}

fn existing(id: JobId) -> Enqueued {
    Enqueued { id, landed: Landed::Existing }
}

fn replaced(id: JobId) -> Enqueued {
    Enqueued { id, landed: Landed::Replaced }
}

async fn jobs_there(g: &Ground) -> usize {
    g.listed(JobFilter { limit: 1000, ..JobFilter::default() }).await.len()
}

/// Whether the key is free at this instant; leaves things as they are.
async fn is_free(g: &Ground, key: &str, now: Millis) -> bool {
    let probe = land(g, keyed(key), now).await;
    if probe.is_new() {
        assert_eq!(g.cancel(probe.id, now).await, Acted::Done);
        assert_eq!(g.delete(probe.id, now).await, Acted::Done);
    }
    probe.is_new()
}

async fn a_second_job_of_a_key_is_the_one_that_is_there(g: &Ground) {
    let first = land(g, keyed("42"), NOW).await;
    assert!(first.is_new() && g.row(first.id).await.holds_key());
    let before = g.row(first.id).await;
    for job in
        [keyed("42"), NewJob { payload: "[2]".into(), run_at: Some(NOW + 5), priority: 9, ..keyed("42") }]
    {
        assert_eq!(land(g, job, NOW + 1).await, existing(first.id));
    }
    assert_eq!((g.row(first.id).await, jobs_there(g).await), (before, 1));
    assert!(land(g, keyed("43"), NOW).await.is_new());
}

async fn a_key_tells_jobs_apart_within_its_scope(g: &Ground) {
    let in_scope = |scope: KeyScope, job_type: &str, queue: &str| {
        // As an enqueue works it out.
        let scope = match scope {
            KeyScope::JobType => job_type.to_owned(),
            KeyScope::Queue => format!("{job_type}\n{queue}"),
            KeyScope::Global => String::new(),
        };
        let unique = with("42", |unique| unique.scope = scope).unique;
        NewJob { unique, queue: queue.to_owned().into(), ..of_type(job_type) }
    };
    for (scope, expected) in [
        (KeyScope::JobType, [true, false, true]),
        (KeyScope::Queue, [true; 3]),
        (KeyScope::Global, [true, false, false]),
    ] {
        let places = [("mail", "default"), ("mail", "slow"), ("report", "default")];
        let mut landed = Vec::new();
        for (job_type, queue) in places {
            landed.push(land(g, in_scope(scope, job_type, queue), NOW).await);
        }
        assert_eq!(landed.iter().map(Enqueued::is_new).collect::<Vec<_>>(), expected, "{scope:?}");
    }
}

async fn a_batch_honours_keys_among_its_own_jobs_too(g: &Ground) {
    let there = land(g, keyed("there"), NOW).await.id;
    let batch = vec![keyed("a"), work(), keyed("there"), keyed("b"), keyed("a"), keyed("b"), work()];
    let landed = g.store.enqueue(batch, NOW).await.unwrap();
    let new: Vec<_> = landed.iter().map(Enqueued::is_new).collect();
    assert_eq!(new, [true, true, false, true, false, false, true]);
    assert_eq!(landed[2], existing(there));
    assert_eq!([landed[4], landed[5]], [existing(landed[0].id), existing(landed[3].id)]);
    assert_eq!(jobs_there(g).await, 5);
    assert_eq!(ids(&g.claim(10, NOW).await), [there, landed[0].id, landed[1].id, landed[3].id, landed[6].id]);
}

async fn a_job_without_a_key_is_always_new(g: &Ground) {
    for _ in 0..2 {
        assert!(land(g, work(), NOW).await.is_new());
    }
    assert_eq!(jobs_there(g).await, 2);
    let id = land(g, work(), NOW).await.id;
    assert!(g.row(id).await.unique.is_none() && !g.row(id).await.holds_key());
}

/// A job that differs in everything from `work()`.
fn other_in_everything(unique: NewJob) -> NewJob {
    NewJob {
        queue: "slow".into(),
        payload: "[2]".into(),
        priority: 9,
        run_at: Some(NOW + 3 * MINUTE),
        max_attempts: 17,
        timeout: Some(Duration::from_secs(3).into()),
        backoff: Some(Backoff::Fixed { delay: Duration::from_secs(4), jitter: 0.5 }),
        label: Some("second".into()),
        retain: Some(Duration::from_secs(5)),
        ..unique
    }
}

async fn a_waiting_job_takes_over_the_fields_that_are_to_be_replaced(g: &Ground) {
    use JobField::*;
    let all = [Payload, RunAt, Priority, Queue, MaxAttempts, Label, Timeout, Backoff, Retain];
    for (n, field) in all.into_iter().enumerate() {
        let key = n.to_string();
        let first = land(g, NewJob { label: Some("first".into()), ..keyed(&key) }, NOW).await.id;
        let before = g.row(first).await;
        let second = other_in_everything(replacing(&key, &[field]));
        assert_eq!(land(g, second, NOW + 1).await, replaced(first));
        let mut expected = jobq::JobRow { updated_at: NOW + 1, ..before };
        match field {
            Payload => (expected.payload, expected.label) = ("[2]".into(), Some("second".into())),
            RunAt => (expected.run_at, expected.state) = (NOW + 3 * MINUTE, JobState::Scheduled),
            Priority => expected.priority = 9,
            Queue => expected.queue = "slow".into(),
            MaxAttempts => expected.max_attempts = 17,
            Label => expected.label = Some("second".into()),
            Timeout => expected.timeout = Some(Duration::from_secs(3).into()),
            Backoff => expected.backoff = other_in_everything(work()).backoff,
            Retain => expected.retain = Some(Duration::from_secs(5)),
        }
        assert_eq!(g.row(first).await, expected, "{field:?}");
    }
}

async fn everything_can_be_replaced(g: &Ground) {
    let first = land(g, keyed("a"), NOW).await.id;
    let second = with("a", |unique| unique.on_conflict = OnConflict::Replace(Fields::ALL));
    assert_eq!(land(g, other_in_everything(second), NOW).await, replaced(first));
    let third = land(g, other_in_everything(work()), NOW).await.id;
    let (one, other) = (g.row(first).await, g.row(third).await);
    assert_eq!(one, jobq::JobRow { id: first, unique: one.unique.clone(), ..other });
    assert_eq!(one.unique.unwrap().states, Until::Finished.states(), "the rule of the first stays");
}

async fn a_replaced_time_moves_the_job_between_its_waiting_states(g: &Ground) {
    let push = |run_at| NewJob { run_at, ..replacing("a", &[JobField::RunAt]) };
    let id = land(g, push(Some(NOW + MINUTE)), NOW).await.id;
    assert_eq!(land(g, push(Some(NOW + 2 * MINUTE)), NOW + 5).await, replaced(id));
    assert_eq!(g.store.promote(10, NOW + MINUTE).await.unwrap(), 0, "it was put off");
    assert_eq!(land(g, push(None), NOW + 7).await, replaced(id));
    assert_eq!((g.row(id).await.run_at, g.state(id).await), (NOW + 7, JobState::Pending));
    assert_eq!(land(g, push(Some(NOW + MINUTE)), NOW + 8).await, replaced(id));
    assert_eq!(g.claim(10, NOW + 9).await, [], "put off again before anybody took it");
    assert_eq!(g.store.promote(10, NOW + MINUTE).await.unwrap(), 1);
    g.claim_this(id, NOW + MINUTE).await;
}

async fn a_job_that_waits_for_a_retry_keeps_an_attempt_when_replaced(g: &Ground) {
    let id = land(g, keyed("a"), NOW).await.id;
    for lease in 1..=2 {
        g.claim_this(id, NOW).await;
        assert_eq!(g.fail(id, lease, Next::AsBefore, NOW).await, Settled::Applied);
    }
    let fewer = NewJob { max_attempts: 1, ..replacing("a", &[JobField::MaxAttempts]) };
    assert_eq!(land(g, fewer, NOW).await, replaced(id));
    let row = g.row(id).await;
    assert_eq!((row.attempts, row.max_attempts, row.state), (2, 3, JobState::Pending));
}

async fn a_job_that_does_not_wait_is_not_replaced(g: &Ground) {
    let held = |n: &str| until(n, Until::Deleted);
    for state in [JobState::Running, JobState::Completed, JobState::Dead, JobState::Cancelled] {
        let (id, _) = g.job_in(state, held(state.as_str())).await;
        let before = g.row(id).await;
        let second = other_in_everything(replacing(state.as_str(), &[JobField::Payload, JobField::RunAt]));
        assert_eq!(land(g, second, NOW + 1).await, existing(id), "{state}");
        assert_eq!(g.row(id).await, before, "{state}");
    }
}

async fn a_job_of_another_type_is_not_replaced(g: &Ground) {
    let global = |job: NewJob| {
        let replaces = OnConflict::Replace(Fields::ALL);
        let unique =
            with("a", |unique| (unique.scope, unique.on_conflict) = (String::new(), replaces)).unique;
        NewJob { unique, ..job }
    };
    let id = land(g, global(of_type("mail")), NOW).await.id;
    let before = g.row(id).await;
    assert_eq!(land(g, global(of_type("report")), NOW + 1).await, existing(id));
    assert_eq!(g.row(id).await, before);
    assert_eq!(land(g, global(of_type("mail")), NOW + 1).await, replaced(id));
}

async fn a_rejected_job_is_an_error_and_nothing_of_its_call_is_there(g: &Ground) {
    let id = land(g, rejecting("a"), NOW).await.id;
    assert_eq!(duplicate(g, vec![rejecting("a")]).await, (0, "a".into(), Some(id)));
    let in_a_batch = vec![work(), rejecting("b"), rejecting("a"), keyed("c"), of_type("new lane")];
    assert_eq!(duplicate(g, in_a_batch).await, (2, "a".into(), Some(id)));
    let among_themselves = vec![work(), rejecting("b"), rejecting("b")];
    assert_eq!(duplicate(g, among_themselves).await, (2, "b".into(), None));
    assert_eq!(jobs_there(g).await, 1);
    let error = g.store.enqueue(vec![rejecting("a")], NOW).await.unwrap_err();
    let text = format!("job 0 has the unique key \"a\", which job {id} holds; nothing was enqueued");
    assert_eq!((error.to_string(), error.is_transient()), (text, false));
    // A job that only keeps is no error beside one that would reject.
    let landed = g.store.enqueue(vec![keyed("a"), rejecting("d"), of_type("new lane")], NOW).await.unwrap();
    assert_eq!(landed.iter().map(Enqueued::is_new).collect::<Vec<_>>(), [false, true, true]);
    assert_eq!(ids(&g.claim_of(&["new lane"], None, 10, NOW).await), [landed[2].id]);
}

async fn a_rejected_batch_takes_back_what_it_replaced(g: &Ground) {
    let (a, b) = (land(g, keyed("a"), NOW).await.id, land(g, keyed("b"), NOW).await.id);
    let before = g.rows(&[a, b]).await;
    let batch = vec![other_in_everything(replacing("a", &[JobField::Payload])), rejecting("b")];
    assert_eq!(duplicate(g, batch).await, (1, "b".into(), Some(b)));
    assert_eq!(g.rows(&[a, b]).await, before);
}

async fn a_key_is_held_in_the_states_that_its_rule_names(g: &Ground) {
    let rules = [Until::Started, Until::Finished, Until::Succeeded, Until::Deleted].map(Until::states);
    let only_dead_too = Until::Started.states().and(StateSet::of(&[JobState::Dead]));
    for (n, states) in rules.into_iter().chain([only_dead_too]).enumerate() {
        for state in JobState::ALL {
            let key = format!("{n} {state}");
            let run_at = (state == JobState::Scheduled).then_some(FAR);
            let (id, _) =
                g.job_in(state, NewJob { run_at, ..with(&key, |unique| unique.states = states) }).await;
            let row = g.row(id).await;
            let expected = states.contains(state);
            assert_eq!(row.holds_key(), expected, "{key}");
            assert_eq!(row.unique.unwrap().states, states);
            assert_eq!(is_free(g, &key, NOW).await, !expected, "{key}");
            match state {
                JobState::Pending => assert_eq!(g.cancel(id, NOW).await, Acted::Done),
                JobState::Running => g.cancel_running(id).await,
                _ => {}
            }
        }
    }
}

async fn every_way_out_frees_the_key(g: &Ground) {
    let ways = ["success", "death", "own cancel", "cancel", "rescue", "last attempt"];
    for way in ways {
        let id = land(g, NewJob { max_attempts: 1, ..keyed("a") }, NOW).await.id;
        assert!(!is_free(g, "a", NOW).await);
        if way != "cancel" {
            g.claim_this(id, NOW).await;
            assert!(!is_free(g, "a", NOW).await, "{way}: held while it runs");
        }
        match way {
            "success" => assert_eq!(g.complete(id, 1, NOW).await, Settled::Applied),
            "death" => assert_eq!(g.fail(id, 1, Next::Dead, NOW).await, Settled::Applied),
            "own cancel" => assert_eq!(g.fail(id, 1, Next::Cancelled, NOW).await, Settled::Applied),
            "cancel" => assert_eq!(g.cancel(id, NOW).await, Acted::Done),
            "rescue" => assert_eq!(g.rescue(id, 1, Next::Dead, NOW).await, Settled::Applied),
            _ => assert_eq!(g.fail(id, 1, Next::At(NOW + 1), NOW).await, Settled::Applied),
        }
        assert!(is_free(g, "a", NOW).await, "{way}");
    }
    // Where an ended job holds its key, deleting and pruning it frees it.
    for prune in [false, true] {
        let (id, _) = g.job_in(JobState::Completed, until("a", Until::Deleted)).await;
        assert!(!is_free(g, "a", NOW).await);
        if prune {
            let keep = Retention { finished: Some(Duration::ZERO), dead: None };
            assert!(g.store.prune(keep, NOW).await.unwrap() > 0);
        } else {
            assert_eq!(g.delete(id, NOW).await, Acted::Done);
        }
        assert!(is_free(g, "a", NOW).await, "pruned: {prune}");
    }
}

async fn a_key_stays_held_through_every_wait(g: &Ground) {
    let later = NewJob { run_at: Some(NOW + 5), max_attempts: 9, ..keyed("a") };
    let id = land(g, later, NOW).await.id;
    assert_eq!(g.store.promote(10, NOW + 5).await.unwrap(), 1);
    assert!(!is_free(g, "a", NOW + 5).await, "promoted");
    g.claim_this(id, NOW + 5).await;
    assert_eq!(g.fail(id, 1, Next::At(NOW + 9), NOW + 5).await, Settled::Applied);
    assert!(!is_free(g, "a", NOW + 5).await, "waits for its retry");
    assert_eq!(g.run_now(id, NOW + 6).await, Acted::Done);
    g.claim_this(id, NOW + 6).await;
    assert_eq!(g.snooze(id, 2, NOW + 9, NOW + 6).await, Settled::Applied);
    assert!(!is_free(g, "a", NOW + 6).await, "snoozed");
    assert_eq!(g.store.promote(10, NOW + 9).await.unwrap(), 1);
    g.claim_this(id, NOW + 9).await;
    assert_eq!(g.release(id, 3, NOW + 9).await, Settled::Applied);
    g.claim_this(id, NOW + 9).await;
    assert_eq!(g.rescue(id, 4, Next::AsBefore, NOW + 9).await, Settled::Applied);
    assert!(!is_free(g, "a", NOW + 9).await, "rescued");
    assert_eq!(g.row(id).await.unique.unwrap().states, Until::Finished.states(), "it never met itself");
    assert_eq!(jobs_there(g).await, 1);
}

async fn a_window_holds_the_key_of_a_completed_job_until_it_is_over(g: &Ground) {
    for job in [within_a_minute("a"), NewJob { unique: within_a_minute("b").unique, ..work() }] {
        let key = job.unique.as_ref().unwrap().key.clone();
        let (id, _) = g.job_in(JobState::Completed, job.clone()).await;
        assert_eq!(g.row(id).await.unique.unwrap().window_ends_at, Some(NOW + MINUTE));
        let before = g.row(id).await;
        assert_eq!(land(g, job.clone(), NOW + MINUTE - 1).await, existing(id));
        assert_eq!(g.row(id).await, before);
        let next = land(g, job, NOW + MINUTE).await;
        assert!(next.is_new(), "{key}");
        assert!(!g.row(id).await.holds_key() && g.row(next.id).await.holds_key());
        assert_eq!(g.row(next.id).await.unique.unwrap().window_ends_at, Some(NOW + 2 * MINUTE));
        assert_eq!(g.cancel(next.id, NOW + MINUTE).await, Acted::Done);
    }
}

async fn a_window_over_a_job_that_still_runs_changes_nothing(g: &Ground) {
    let (id, lease) = g.job_in(JobState::Running, within_a_minute("a")).await;
    assert_eq!(land(g, keyed("a"), NOW + 2 * MINUTE).await, existing(id));
    assert_eq!(g.complete(id, lease, NOW + 3 * MINUTE).await, Settled::Applied);
    assert!(land(g, keyed("a"), NOW + 3 * MINUTE).await.is_new());
    // Without its window the key of the second would be free while it runs.
    let started = with("b", |unique| {
        (unique.states, unique.within) =
            (Until::Started.states(), within_a_minute("b").unique.unwrap().within);
    });
    g.claim(10, NOW).await;
    let (id, lease) = g.job_in(JobState::Running, started.clone()).await;
    assert_eq!(land(g, started.clone(), NOW + MINUTE - 1).await, existing(id));
    assert!(land(g, started, NOW + MINUTE).await.is_new());
    assert_eq!(g.complete(id, lease, NOW + MINUTE).await, Settled::Applied);
}

async fn a_dead_or_cancelled_job_holds_no_key_within_its_window(g: &Ground) {
    for state in [JobState::Dead, JobState::Cancelled] {
        let (id, _) = g.job_in(state, within_a_minute("a")).await;
        assert!(!g.row(id).await.holds_key());
        assert!(is_free(g, "a", NOW).await, "{state}: what it was to do was not done");
    }
    let (id, _) = g.job_in(JobState::Completed, within_a_minute("a")).await;
    assert_eq!(g.delete(id, NOW).await, Acted::Done);
    assert!(is_free(g, "a", NOW).await, "a person deleted it");
}

async fn a_job_is_not_pruned_within_its_window(g: &Ground) {
    let keep = Retention { finished: Some(Duration::ZERO), dead: Some(Duration::ZERO) };
    let (id, _) = g.job_in(JobState::Completed, within_a_minute("a")).await;
    let (dead, _) = g.job_in(JobState::Dead, within_a_minute("b")).await;
    g.store.prune(keep, NOW + MINUTE - 1).await.unwrap();
    assert!(g.store.get(dead).await.unwrap().is_none(), "it holds no key");
    assert_eq!(land(g, keyed("a"), NOW + MINUTE - 1).await, existing(id));
    g.store.prune(keep, NOW + MINUTE).await.unwrap();
    assert!(g.store.get(id).await.unwrap().is_none());
}

async fn a_job_that_comes_back_to_a_taken_key_goes_on_without(g: &Ground) {
    for way in ["fail", "snooze", "release", "rescue"] {
        let (first, lease) = g.job_in(JobState::Running, until("a", Until::Started)).await;
        let second = land(g, until("a", Until::Started), NOW).await;
        assert!(second.is_new(), "a running job does not hold it");
        let settled = match way {
            "fail" => g.fail(first, lease, Next::At(NOW + 9), NOW).await,
            "snooze" => g.snooze(first, lease, NOW + 9, NOW).await,
            "release" => g.release(first, lease, NOW).await,
            _ => g.rescue(first, lease, Next::AsBefore, NOW).await,
        };
        assert_eq!(settled, Settled::Applied, "{way}");
        let (row, other) = (g.row(first).await, g.row(second.id).await);
        assert!(matches!(row.state, JobState::Pending | JobState::Scheduled), "{way}");
        let unique = row.unique.clone().unwrap();
        assert_eq!((unique.key.as_str(), unique.states, row.holds_key()), ("a", StateSet::NONE, false));
        assert!(other.holds_key());
        assert_eq!(land(g, keyed("a"), NOW).await, existing(second.id));
        // Both of them run.
        assert_eq!(g.cancel(second.id, NOW).await, Acted::Done);
        assert!(is_free(g, "a", NOW).await, "the first one gave it up for good");
        assert_eq!(g.cancel(first, NOW).await, Acted::Done);
    }
    // Nobody has taken it: it holds it again.
    let (id, lease) = g.job_in(JobState::Running, until("b", Until::Started)).await;
    assert!(is_free(g, "b", NOW).await);
    assert_eq!(g.fail(id, lease, Next::AsBefore, NOW).await, Settled::Applied);
    assert_eq!(land(g, keyed("b"), NOW).await, existing(id));
    // A batch in which one job has to give its key up harms no other.
    assert_eq!(g.cancel(id, NOW).await, Acted::Done);
    let both = g.enqueue_all(vec![until("c", Until::Started), work()], NOW).await;
    let claimed = g.claim(10, NOW).await;
    land(g, keyed("c"), NOW).await;
    let ends = claimed.iter().map(|job| failure(job.id, job.lease, Next::AsBefore)).collect();
    assert_eq!(g.store.fail(ends, NOW).await.unwrap(), [Settled::Applied; 2]);
    assert_eq!([g.state(both[0]).await, g.state(both[1]).await], [JobState::Pending; 2]);
}

async fn a_job_that_comes_back_takes_a_key_whose_window_is_over(g: &Ground) {
    let (first, lease) = g.job_in(JobState::Running, until("a", Until::Started)).await;
    let (second, _) = g.job_in(JobState::Completed, within_a_minute("a")).await;
    assert!(g.row(second).await.holds_key());
    assert_eq!(g.fail(first, lease, Next::AsBefore, NOW + MINUTE).await, Settled::Applied);
    assert!(g.row(first).await.holds_key() && !g.row(second).await.holds_key());
}

async fn a_retry_names_the_job_that_holds_the_key(g: &Ground) {
    let mut ended = Vec::new();
    for n in 0..50 {
        let states = [JobState::Dead, JobState::Cancelled, JobState::Completed];
        ended.push(g.job_in(states[n % 3], keyed(&n.to_string())).await.0);
    }
    let live = land(g, keyed("17"), NOW).await.id;
    let before = (g.row(ended[17]).await, g.attempts(ended[17]).await);
    assert_eq!(g.retry(ended[17], NOW + 1).await, Acted::KeyHeld(live));
    let answers = g.store.retry(ended.clone(), NOW + 1).await.unwrap();
    for (n, answer) in answers.into_iter().enumerate() {
        let expected = if n == 17 { Acted::KeyHeld(live) } else { Acted::Done };
        assert_eq!(answer, expected, "{n}");
    }
    assert_eq!((g.row(ended[17]).await, g.attempts(ended[17]).await), before, "untouched");
    assert_eq!(g.state(live).await, JobState::Pending);
    // The retried ones hold their keys again.
    assert_eq!(land(g, keyed("16"), NOW + 1).await, existing(ended[16]));
    // One that is not retried at all is told so, whoever holds its key.
    assert_eq!(g.retry(live, NOW + 1).await, Acted::WrongState(JobState::Pending));
    // Once the other has ended, it can be.
    assert_eq!(g.cancel(live, NOW + 2).await, Acted::Done);
    assert_eq!(g.retry(ended[17], NOW + 2).await, Acted::Done);
    assert_eq!(g.retry(live, NOW + 2).await, Acted::KeyHeld(ended[17]));
}

async fn a_retry_takes_a_key_whose_window_is_over(g: &Ground) {
    let (dead, _) = g.job_in(JobState::Dead, keyed("a")).await;
    let (done, _) = g.job_in(JobState::Completed, within_a_minute("a")).await;
    assert_eq!(g.retry(dead, NOW + MINUTE - 1).await, Acted::KeyHeld(done));
    assert_eq!(g.retry(dead, NOW + MINUTE).await, Acted::Done);
    assert!(g.row(dead).await.holds_key() && !g.row(done).await.holds_key());
}

async fn a_retried_job_does_not_meet_itself(g: &Ground) {
    for (n, state) in [JobState::Completed, JobState::Dead, JobState::Cancelled].into_iter().enumerate() {
        let job = with(&n.to_string(), |unique| {
            (unique.states, unique.within) =
                (Until::Deleted.states(), within_a_minute("").unique.unwrap().within);
        });
        let (id, _) = g.job_in(state, job).await;
        assert_eq!(g.retry(id, NOW).await, Acted::Done, "{state}");
        assert!(g.row(id).await.holds_key());
        g.claim_this(id, NOW).await;
    }
}

async fn jobs_are_listed_by_their_key(g: &Ground) {
    let first = g.job_in(JobState::Completed, keyed("42")).await.0;
    let second = land(g, keyed("42"), NOW).await.id;
    land(g, keyed("4"), NOW).await;
    land(g, work(), NOW).await;
    assert_eq!(g.listed(JobFilter::default().unique_key("42")).await, [second, first]);
    assert_eq!(g.listed(JobFilter::default().unique_key("42").state(JobState::Pending)).await, [second]);
    assert_eq!(g.listed(JobFilter::default().unique_key("2")).await, []);
}

async fn a_key_that_no_store_takes_is_refused(g: &Ground) {
    let bad = [
        keyed(""),
        keyed(&"x".repeat(256)),
        keyed("a\0b"),
        with("a", |unique| unique.scope = "a\0b".into()),
        with("a", |unique| unique.states = StateSet::of(&[JobState::Pending, JobState::Running])),
        with("a", |unique| unique.within = Some(Duration::ZERO)),
    ];
    for job in bad {
        let answer = g.store.enqueue(vec![work(), job.clone()], NOW).await;
        assert!(is_invalid(answer), "{:?}", job.unique);
    }
    assert_eq!(jobs_there(g).await, 0);
    assert!(land(g, keyed(&"x".repeat(255)), NOW).await.is_new());
}
