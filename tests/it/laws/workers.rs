//! Workers that sign in and out, and what they hold.

use super::{ground::*, on_every_store};
use jobq::{
    job::{NewJob, WorkerId},
    retry::Backoff,
    store::{Claim, Life, Next, Running, WorkerRow},
};

on_every_store![
    a_worker_that_signs_in_is_there_and_alive,
    a_worker_that_signs_out_is_no_longer_there,
    a_worker_that_signs_out_with_running_jobs_is_gone_until_they_are_rescued,
    a_worker_id_is_never_used_again,
    signing_out_twice_or_as_a_stranger_is_fine,
    a_worker_that_was_given_up_is_shown_no_more_as_alive,
    running_shows_what_the_workers_hold,
    a_lost_workers_jobs_are_found_after_it_is_gone,
    a_rescued_batch_is_answered_in_order,
    a_store_says_what_it_is,
];

async fn worker(g: &Ground, id: WorkerId) -> Option<WorkerRow> {
    g.store.workers().await.unwrap().into_iter().find(|row| row.id == id)
}

/// Signing out does not wait: what was asked before is done before this is answered.
async fn settle_down(g: &Ground) {
    g.pending().await;
}

async fn a_worker_that_signs_in_is_there_and_alive(g: &Ground) {
    let id = g.store.register(worker_named("mail, slow"), NOW + 5).await.unwrap();
    let row = worker(g, id).await.expect("the worker is there");
    assert_eq!((row.queues.as_str(), row.started_at), ("mail, slow", NOW + 5));
    assert_eq!((row.pid, row.life), (std::process::id(), Life::Alive));
    assert!(!row.host.is_empty() && !row.build.is_empty());
    assert!(worker(g, g.worker).await.is_some(), "the other one stays");
}

async fn a_worker_that_signs_out_is_no_longer_there(g: &Ground) {
    let id = g.store.register(worker_named(""), NOW).await.unwrap();
    g.store.unregister(id);
    settle_down(g).await;
    assert_eq!(worker(g, id).await, None);
    assert!(worker(g, g.worker).await.is_some(), "the other one stays");
}

async fn a_worker_that_signs_out_with_running_jobs_is_gone_until_they_are_rescued(g: &Ground) {
    let id = g.store.register(worker_named(""), NOW).await.unwrap();
    let jobs = g.enqueue_all(vec![work(); 2], NOW).await;
    let claim = Claim { worker: id, set: set(&[WORK], None), limit: 2, standing: false };
    assert_eq!(ids(&g.store.claim(claim, NOW).await.unwrap()), jobs);
    g.store.unregister(id);
    settle_down(g).await;
    let life = async || worker(g, id).await.map(|row| row.life);
    assert_eq!(life().await, Some(Life::Gone));
    g.rescue(jobs[0], 1, Next::Dead, NOW + 1).await;
    assert_eq!(life().await, Some(Life::Gone));
    g.store.bury(vec![id], NOW + 1).await.unwrap();
    assert_eq!(life().await, Some(Life::Gone), "nobody forgets the job that is left");
    g.rescue(jobs[1], 1, Next::Dead, NOW + 2).await;
    assert_eq!(life().await, None);
}

async fn a_worker_id_is_never_used_again(g: &Ground) {
    let mut given = vec![g.worker];
    for _ in 0..5 {
        let id = g.store.register(worker_named(""), NOW).await.unwrap();
        assert!(!given.contains(&id));
        given.push(id);
        g.store.unregister(id);
        settle_down(g).await;
    }
}

async fn signing_out_twice_or_as_a_stranger_is_fine(g: &Ground) {
    let id = g.store.register(worker_named(""), NOW).await.unwrap();
    g.store.unregister(id);
    g.store.unregister(id);
    g.store.unregister(WorkerId(i64::MAX));
    g.store.withdraw(WorkerId(i64::MAX));
    g.store.bury(vec![id, WorkerId(i64::MAX)], NOW).await.unwrap();
    settle_down(g).await;
    assert!(worker(g, g.worker).await.is_some());
}

async fn a_worker_that_was_given_up_is_shown_no_more_as_alive(g: &Ground) {
    let id = g.store.register(worker_named(""), NOW).await.unwrap();
    g.store.bury(vec![id], NOW + 1).await.unwrap();
    let life = worker(g, id).await.map(|row| row.life);
    assert!(matches!(life, None | Some(Life::Gone)), "{life:?}");
    assert_eq!(worker(g, g.worker).await.expect("the other one stays").life, Life::Alive);
}

async fn running_shows_what_the_workers_hold(g: &Ground) {
    let backoff = Some(Backoff::DOUBLING_TO_A_MINUTE);
    let id = g.enqueue(NewJob { backoff, max_attempts: 7, ..work() }, NOW).await;
    let job = g.claim_this(id, NOW).await;
    let ended = g.running().await;
    g.complete(ended.id, ended.lease, NOW).await;
    g.pending().await;
    let expected = Running {
        id,
        lease: job.lease,
        worker: g.worker,
        job_type: WORK.into(),
        attempt: 1,
        max_attempts: 7,
        backoff,
        ties: jobq::store::Ties::ALL,
    };
    for workers in [vec![g.worker], vec![WorkerId(i64::MAX), g.worker]] {
        assert_eq!(g.store.running(workers).await.unwrap(), std::slice::from_ref(&expected));
    }
    assert_eq!(g.store.running(vec![WorkerId(i64::MAX)]).await.unwrap(), []);
}

/// Case 039: what a lost worker held is found, and the attempt counted.
async fn a_lost_workers_jobs_are_found_after_it_is_gone(g: &Ground) {
    let jobs = g.enqueue_all(vec![work(); 3], NOW).await;
    g.claim(3, NOW).await;
    g.store.bury(vec![g.worker], NOW + 1).await.unwrap();
    let mut held: Vec<_> = g.store.running(vec![g.worker]).await.unwrap();
    held.sort_by_key(|job| job.id);
    assert_eq!(held.iter().map(|job| job.id).collect::<Vec<_>>(), jobs);
    for job in held {
        g.rescue(job.id, job.lease, Next::At(NOW + 2), NOW + 2).await;
        assert_eq!(g.row(job.id).await.attempts, 1);
    }
    assert_eq!(g.store.running(vec![g.worker]).await.unwrap(), []);
}

async fn a_rescued_batch_is_answered_in_order(g: &Ground) {
    use jobq::store::{Rescue, Settled};
    g.enqueue_all(vec![work(); 3], NOW).await;
    let held = g.claim(3, NOW).await;
    let lost = |job: &jobq::store::Claimed, lease| Rescue {
        id: job.id,
        lease,
        error: "lost".into(),
        next: Next::Dead,
        ties: jobq::store::Ties::ALL,
        on_dead: None,
    };
    let batch = vec![lost(&held[2], 1), lost(&held[0], 9), lost(&held[1], 1)];
    let answers = g.store.rescue(batch, NOW + 1).await.unwrap();
    assert_eq!(answers, [Settled::Applied, Settled::LeaseLost, Settled::Applied]);
}

async fn a_store_says_what_it_is(g: &Ground) {
    assert!(g.store.describe().len() > 10, "{:?}", g.store.describe());
}
