//! What is paused: accepted, promoted, not claimed; and how a pause ends.

use super::{ground::*, on_every_store};
use jobq::{
    job::{JobId, NewJob},
    state::JobState,
    store::{Claim, Due, MAX_NOTE, Next, Pause, Paused, Settled, StoreError},
    time::Millis,
};

on_every_store![
    the_jobs_of_a_paused_queue_are_accepted_and_not_claimed,
    the_jobs_of_a_paused_type_are_accepted_and_not_claimed,
    a_lane_laid_after_the_pause_is_paused_too,
    a_job_is_paused_while_its_queue_or_its_type_is,
    running_jobs_of_a_paused_queue_end_as_ever,
    paused_jobs_keep_their_places,
    the_jobs_of_a_paused_queue_become_due_all_the_same,
    a_pause_ends_at_its_time,
    a_pause_takes_the_place_of_the_one_before,
    a_pause_is_read_back_whole,
    pauses_come_queues_first_by_name,
    resuming_what_is_not_paused_does_nothing,
    a_standing_claim_is_answered_by_the_end_of_a_pause,
    a_pause_and_its_end_are_cues_to_look_again,
    a_pause_that_cannot_be_one_is_refused,
];

fn queue(name: &str) -> Paused {
    Paused::Queue(name.into())
}

fn job_type(name: &str) -> Paused {
    Paused::JobType(name.into())
}

async fn pause(g: &Ground, what: Paused, ends_at: Option<Millis>) {
    g.store.pause(Pause { what, paused_at: NOW, ends_at, by: None, note: None }).await.unwrap();
}

async fn resume(g: &Ground, what: Paused, now: Millis) -> bool {
    g.store.resume(what, now).await.unwrap()
}

async fn due(g: &Ground) -> Due {
    g.store.due(set(&[WORK, "other"], None), NOW).await.unwrap()
}

async fn the_jobs_of_a_paused_queue_are_accepted_and_not_claimed(g: &Ground) {
    pause(g, queue("mail"), None).await;
    let paused = g.enqueue(in_queue("mail"), NOW).await;
    assert_eq!(g.state(paused).await, JobState::Pending);
    assert!(!due(g).await.pending);
    assert_eq!(g.claim(10, NOW + 5).await, []);
    let other = g.enqueue(in_queue("mail2"), NOW).await;
    assert!(due(g).await.pending);
    assert_eq!(ids(&g.claim(10, NOW + 5).await), [other]);
    assert!(resume(g, queue("mail"), NOW + 6).await);
    assert!(due(g).await.pending);
    let job = g.claim_this(paused, NOW + 6).await;
    assert_eq!((job.attempt, job.lease), (1, 1), "the pause cost nothing");
}

async fn the_jobs_of_a_paused_type_are_accepted_and_not_claimed(g: &Ground) {
    pause(g, job_type(WORK), None).await;
    let paused = g.enqueue_all(vec![in_queue("mail"), in_queue("slow")], NOW).await;
    let other = g.enqueue(of_type("other"), NOW).await;
    assert_eq!(ids(&g.claim_of(&[WORK, "other"], None, 10, NOW).await), [other]);
    assert!(!due(g).await.pending);
    assert!(resume(g, job_type(WORK), NOW).await);
    assert_eq!(ids(&g.claim(10, NOW).await), paused);
}

/// The name of a queue is no name of a type.
async fn a_lane_laid_after_the_pause_is_paused_too(g: &Ground) {
    pause(g, queue("new"), None).await;
    pause(g, job_type("mail"), None).await;
    let paused = g.enqueue_all(vec![in_queue("new"), of_type("mail")], NOW).await;
    let open = g.enqueue_all(vec![in_queue("mail"), of_type("new")], NOW).await;
    assert_eq!(ids(&g.claim_of(&[WORK, "mail", "new"], None, 10, NOW).await), open);
    assert!(resume(g, queue("new"), NOW).await && resume(g, job_type("mail"), NOW).await);
    assert_eq!(ids(&g.claim_of(&[WORK, "mail", "new"], None, 10, NOW).await), paused);
}

async fn a_job_is_paused_while_its_queue_or_its_type_is(g: &Ground) {
    let id = g.enqueue(in_queue("mail"), NOW).await;
    pause(g, queue("mail"), None).await;
    pause(g, job_type(WORK), None).await;
    assert!(resume(g, queue("mail"), NOW).await);
    assert_eq!(g.claim(10, NOW).await, []);
    pause(g, queue("mail"), None).await;
    assert!(resume(g, job_type(WORK), NOW).await);
    assert_eq!(g.claim(10, NOW).await, []);
    assert!(resume(g, queue("mail"), NOW).await);
    g.claim_this(id, NOW).await;
}

async fn running_jobs_of_a_paused_queue_end_as_ever(g: &Ground) {
    let jobs = g.enqueue_all(vec![in_queue("mail"); 4], NOW).await;
    assert_eq!(ids(&g.claim(10, NOW).await), jobs);
    pause(g, queue("mail"), None).await;
    assert_eq!(g.complete(jobs[0], 1, NOW).await, Settled::Applied);
    assert_eq!(g.fail(jobs[1], 1, Next::At(NOW), NOW).await, Settled::Applied);
    assert_eq!(g.release(jobs[2], 1, NOW).await, Settled::Applied);
    assert_eq!(g.rescue(jobs[3], 1, Next::AsBefore, NOW).await, Settled::Applied);
    assert_eq!(g.state(jobs[0]).await, JobState::Completed);
    assert_eq!(g.claim(10, NOW).await, []);
    resume(g, queue("mail"), NOW).await;
    assert_eq!(ids(&g.claim(10, NOW).await), jobs[1..]);
}

async fn paused_jobs_keep_their_places(g: &Ground) {
    let first = g.enqueue(in_queue("mail"), NOW).await;
    pause(g, queue("mail"), None).await;
    let urgent = g.enqueue(NewJob { priority: 5, ..in_queue("mail") }, NOW + 1).await;
    let other = g.enqueue(in_queue("slow"), NOW + 2).await;
    resume(g, queue("mail"), NOW + 3).await;
    assert_eq!(ids(&g.claim(10, NOW + 3).await), [urgent, first, other]);
}

async fn the_jobs_of_a_paused_queue_become_due_all_the_same(g: &Ground) {
    pause(g, queue("mail"), None).await;
    let id = g.enqueue(NewJob { run_at: Some(NOW + 5), ..in_queue("mail") }, NOW).await;
    assert_eq!(due(g).await, Due { next_run_at: Some(NOW + 5), ..Due::default() });
    assert_eq!(g.store.promote(10, NOW + 5).await.unwrap(), 1);
    assert_eq!(g.state(id).await, JobState::Pending);
    assert_eq!(g.claim(10, NOW + 5).await, []);
}

async fn a_pause_ends_at_its_time(g: &Ground) {
    let id = g.enqueue(in_queue("mail"), NOW).await;
    pause(g, queue("mail"), Some(NOW + 10)).await;
    pause(g, queue("later"), Some(NOW + 20)).await;
    pause(g, queue("for ever"), None).await;
    assert_eq!(due(g).await.next_resume_at, Some(NOW + 10));
    assert_eq!(g.store.promote(10, NOW + 9).await.unwrap(), 0);
    assert_eq!(g.claim(10, NOW + 9).await, []);
    assert_eq!(g.store.promote(10, NOW + 10).await.unwrap(), 1);
    g.claim_this(id, NOW + 10).await;
    assert_eq!(due(g).await.next_resume_at, Some(NOW + 20));
    let left = g.store.pauses().await.unwrap();
    assert_eq!(
        left.into_iter().map(|pause| pause.what).collect::<Vec<_>>(),
        [queue("for ever"), queue("later")]
    );
}

async fn a_pause_takes_the_place_of_the_one_before(g: &Ground) {
    pause(g, queue("mail"), Some(NOW + 10)).await;
    pause(g, queue("mail"), None).await;
    assert_eq!(due(g).await.next_resume_at, None);
    assert_eq!(g.store.promote(10, NOW + 10).await.unwrap(), 0);
    g.enqueue(in_queue("mail"), NOW).await;
    assert_eq!(g.claim(10, NOW + 10).await, []);
    assert!(resume(g, queue("mail"), NOW + 10).await);
    assert_eq!(g.claim(10, NOW + 10).await.len(), 1, "one resume ends it");
}

async fn a_pause_is_read_back_whole(g: &Ground) {
    let whole = Pause {
        what: job_type("report:'daily'"),
        paused_at: NOW + 3,
        ends_at: Some(NOW + 9),
        by: Some("ada \u{1f600}".into()),
        note: Some("\u{e9}".repeat(MAX_NOTE)),
    };
    g.store.pause(whole.clone()).await.unwrap();
    assert_eq!(g.store.pauses().await.unwrap(), [whole]);
}

async fn pauses_come_queues_first_by_name(g: &Ground) {
    let sorted = [queue("B"), queue("a"), queue("\u{e9}"), job_type("A"), job_type("b")];
    for what in sorted.iter().rev() {
        pause(g, what.clone(), None).await;
    }
    let found: Vec<_> = g.store.pauses().await.unwrap().into_iter().map(|pause| pause.what).collect();
    assert_eq!(found, sorted);
}

async fn resuming_what_is_not_paused_does_nothing(g: &Ground) {
    assert!(!resume(g, queue("mail"), NOW).await);
    pause(g, queue("mail"), None).await;
    assert!(!resume(g, job_type("mail"), NOW).await);
    assert!(!resume(g, queue("Mail"), NOW).await);
    assert!(resume(g, queue("mail"), NOW).await);
    assert!(!resume(g, queue("mail"), NOW).await);
    assert_eq!(g.store.pauses().await.unwrap(), []);
}

async fn a_standing_claim_is_answered_by_the_end_of_a_pause(g: &Ground) {
    for round in 0..2 {
        pause(g, queue("mail"), Some(NOW + 10)).await;
        let claim = Claim { worker: g.worker, set: set(&[WORK], None), limit: 5, standing: true };
        let answer = g.store.claim(claim, NOW);
        let id = g.enqueue(in_queue("mail"), NOW).await;
        assert_eq!(g.state(id).await, JobState::Pending, "the standing claim leaves it");
        match round {
            0 => assert!(resume(g, queue("mail"), NOW + 7).await),
            _ => assert_eq!(g.store.promote(10, NOW + 10).await.unwrap(), 1),
        }
        assert_eq!(ids(&soon(answer).await.unwrap()), [id]);
        let row = g.row(id).await;
        assert_eq!(row.started_at, Some(if round == 0 { NOW + 7 } else { NOW + 10 }));
        assert_eq!(g.complete(id, row.lease, NOW + 10).await, Settled::Applied);
    }
}

async fn a_pause_and_its_end_are_cues_to_look_again(g: &Ground) {
    let mut changed = g.store.changed();
    pause(g, queue("mail"), Some(NOW + 10)).await;
    cue(&mut changed, "a pause").await;
    g.store.promote(10, NOW + 10).await.unwrap();
    cue(&mut changed, "its end").await;
    pause(g, queue("mail"), None).await;
    cue(&mut changed, "another pause").await;
    resume(g, queue("mail"), NOW).await;
    cue(&mut changed, "a resume").await;
}

async fn a_pause_that_cannot_be_one_is_refused(g: &Ground) {
    let fine = Pause { what: queue("mail"), paused_at: NOW, ends_at: None, by: None, note: None };
    let long = "x".repeat(65);
    let refused = [
        Pause { what: queue(""), ..fine.clone() },
        Pause { what: queue(&long), ..fine.clone() },
        Pause { what: job_type(&long), ..fine.clone() },
        Pause { what: job_type("a\0b"), ..fine.clone() },
        Pause { note: Some("x".repeat(MAX_NOTE + 1)), ..fine.clone() },
        Pause { by: Some("x".repeat(256)), ..fine },
    ];
    for pause in refused {
        let answer = g.store.pause(pause).await;
        assert!(
            matches!(&answer, Err(StoreError::Invalid(why)) if why.contains("can't be paused")),
            "{answer:?}"
        );
    }
    assert_eq!(g.store.pauses().await.unwrap(), []);
    let id: JobId = g.pending().await;
    g.claim_this(id, NOW).await;
}
