//! Jobs that the end of another job brings with it: enqueued in the same commit, if that end is applied.

use super::{ground::*, on_every_store};
use jobq::{
    job::{JobId, NewJob},
    state::JobState,
    store::{Acted, Claim, Failure, JobFilter, Next, Rescue, Settled, Ties},
};

on_every_store![
    a_dead_job_brings_its_on_dead_with_it_by_failure_and_by_rescue,
    a_job_that_is_not_dead_brings_nothing,
    an_attempt_that_was_the_last_brings_it_whoever_asks_for_another,
    an_end_that_is_not_applied_brings_nothing,
    each_death_brings_one,
    ends_of_one_batch_bring_what_is_theirs,
    what_is_brought_serves_a_standing_claim,
    what_no_store_takes_is_refused_with_the_end,
];

const BROUGHT: &str = "law:brought";

fn telling(n: u32) -> Option<Box<NewJob>> {
    Some(Box::new(NewJob { queue: "ops".into(), priority: 3, ..NewJob::new(BROUGHT, format!("[{n}]")) }))
}

fn dying(id: JobId, next: Next) -> Failure {
    Failure { on_dead: telling(1), ..failure(id, 1, next) }
}

/// The payloads of what was brought, in order.
async fn brought(g: &Ground) -> Vec<String> {
    let rows = g.store.list(JobFilter::default().job_type(BROUGHT)).await.unwrap();
    rows.into_iter().rev().map(|row| row.payload).collect()
}

async fn a_dead_job_brings_its_on_dead_with_it_by_failure_and_by_rescue(g: &Ground) {
    let failed = g.running().await;
    assert_eq!(g.store.fail(vec![dying(failed.id, Next::Dead)], NOW + 5).await.unwrap(), [Settled::Applied]);
    assert_eq!(g.state(failed.id).await, JobState::Dead);
    let row = g.store.list(JobFilter::default().job_type(BROUGHT)).await.unwrap().remove(0);
    assert_eq!((&*row.queue, &*row.payload, row.priority, row.state), ("ops", "[1]", 3, JobState::Pending));
    assert_eq!((row.created_at, row.run_at, row.attempts), (NOW + 5, NOW + 5, 0));
    let lost = g.running().await;
    let rescue = Rescue {
        id: lost.id,
        lease: 1,
        error: "lost".into(),
        next: Next::Dead,
        ties: Ties::ALL,
        on_dead: telling(2),
    };
    assert_eq!(g.store.rescue(vec![rescue], NOW).await.unwrap(), [Settled::Applied]);
    assert_eq!(brought(g).await, ["[1]", "[2]"]);
}

async fn a_job_that_is_not_dead_brings_nothing(g: &Ground) {
    for next in [Next::At(NOW), Next::At(NOW + 60), Next::AsBefore, Next::Cancelled] {
        let job = g.running().await;
        assert_eq!(g.store.fail(vec![dying(job.id, next)], NOW).await.unwrap(), [Settled::Applied]);
        if g.state(job.id).await == JobState::Pending {
            g.cancel(job.id, NOW).await;
        }
    }
    assert_eq!(brought(g).await, [""; 0]);
}

async fn an_attempt_that_was_the_last_brings_it_whoever_asks_for_another(g: &Ground) {
    for next in [Next::At(NOW + 60), Next::AsBefore] {
        let id = g.enqueue(NewJob { max_attempts: 1, ..work() }, NOW).await;
        g.claim_this(id, NOW).await;
        assert_eq!(g.store.fail(vec![dying(id, next)], NOW).await.unwrap(), [Settled::Applied]);
        assert_eq!(g.state(id).await, JobState::Dead);
    }
    assert_eq!(brought(g).await, ["[1]", "[1]"]);
}

async fn an_end_that_is_not_applied_brings_nothing(g: &Ground) {
    let job = g.running().await;
    let late = Failure { lease: 2, ..dying(job.id, Next::Dead) };
    let elsewhere = dying(foreign(job.id), Next::Dead);
    let answers = g.store.fail(vec![late, elsewhere], NOW).await.unwrap();
    assert_eq!(answers, [Settled::LeaseLost, Settled::Gone]);
    assert_eq!(g.store.fail(vec![dying(job.id, Next::Dead)], NOW).await.unwrap(), [Settled::Applied]);
    assert_eq!(g.store.fail(vec![dying(job.id, Next::Dead)], NOW).await.unwrap(), [Settled::LeaseLost]);
    assert_eq!(brought(g).await, ["[1]"], "once, however often it is reported");
}

async fn each_death_brings_one(g: &Ground) {
    let id = g.pending().await;
    for lease in 1..=3 {
        g.claim_this(id, NOW).await;
        let ended = Failure { lease, ..dying(id, Next::Dead) };
        assert_eq!(g.store.fail(vec![ended], NOW).await.unwrap(), [Settled::Applied]);
        assert_eq!(brought(g).await.len(), lease as usize);
        assert_eq!(g.retry(id, NOW).await, Acted::Done);
    }
}

async fn ends_of_one_batch_bring_what_is_theirs(g: &Ground) {
    let jobs = g.enqueue_all((0..4).map(|_| work()).collect(), NOW).await;
    g.claim(4, NOW).await;
    let end = |n: usize, next| Failure { on_dead: telling(n as u32), ..failure(jobs[n], 1, next) };
    let ends = vec![end(0, Next::Dead), end(1, Next::At(NOW)), end(2, Next::Dead), end(3, Next::Cancelled)];
    assert_eq!(g.store.fail(ends, NOW).await.unwrap(), [Settled::Applied; 4]);
    assert_eq!(brought(g).await, ["[0]", "[2]"]);
}

async fn what_is_brought_serves_a_standing_claim(g: &Ground) {
    let job = g.running().await;
    let claim = Claim { worker: g.worker, set: set(&[BROUGHT], None), limit: 1, standing: true };
    let standing = g.store.claim(claim, NOW);
    g.store.fail(vec![dying(job.id, Next::Dead)], NOW).await.unwrap();
    let claimed = standing.await.unwrap();
    assert_eq!((claimed.len(), &*claimed[0].payload), (1, "[1]"));
}

async fn what_no_store_takes_is_refused_with_the_end(g: &Ground) {
    let job = g.running().await;
    let nameless = Some(Box::new(NewJob::new("", "1")));
    let ended = Failure { on_dead: nameless.clone(), ..failure(job.id, 1, Next::Dead) };
    assert!(is_invalid(g.store.fail(vec![ended], NOW).await));
    let rescue = Rescue {
        id: job.id,
        lease: 1,
        error: "lost".into(),
        next: Next::Dead,
        ties: Ties::ALL,
        on_dead: nameless,
    };
    assert!(is_invalid(g.store.rescue(vec![rescue], NOW).await));
    assert_eq!(g.state(job.id).await, JobState::Running);
}
