//! Who gets which job, in which order.

use super::{ground::*, on_every_store};
use jobq::{
    job::{JobId, NewJob},
    state::JobState,
    store::{Due, Next, Settled},
};

on_every_store![
    a_claimed_job_is_not_claimed_again,
    larger_priority_then_earlier_time_then_insertion,
    order_holds_across_queues_and_types,
    a_thousand_equal_jobs_start_in_insertion_order,
    ids_in_the_order_given,
    only_known_types_are_claimed,
    unknown_jobs_ahead_hinder_nobody,
    only_served_queues_are_claimed,
    names_are_compared_exactly,
    a_claim_takes_no_more_than_its_limit,
    a_claim_takes_no_scheduled_job,
    promote_takes_the_earliest_up_to_its_limit,
    promote_keeps_the_order_of_claims,
    attempts_count_what_counts,
    a_claim_tells_the_version_of_the_payload,
    due_tells_pending_and_the_next_time,
    due_knows_types_and_queues,
];

async fn a_claimed_job_is_not_claimed_again(g: &Ground) {
    let id = g.pending().await;
    g.claim_this(id, NOW).await;
    assert_eq!(g.claim(10, NOW).await, []);
    assert_eq!(g.claim(10, FAR).await, []);
}

/// What a claim's order is, said a second time.
fn by_order(jobs: &mut [(JobId, NewJob)]) {
    let place: Vec<_> = jobs.iter().map(|(id, _)| *id).collect();
    let place = |id: &JobId| place.iter().position(|at| at == id);
    jobs.sort_by_key(|(id, job)| (-i32::from(job.priority), job.run_at, place(id)));
}

async fn check_order(g: &Ground, jobs: Vec<NewJob>, job_types: &[&str]) {
    let ids_given = g.enqueue_all(jobs.clone(), NOW).await;
    let mut expected: Vec<_> = ids_given.into_iter().zip(jobs).collect();
    by_order(&mut expected);
    let expected: Vec<_> = expected.into_iter().map(|(id, _)| id).collect();
    let mut claimed = Vec::new();
    for limit in [1, 2, 5, 100, 100] {
        let batch = ids(&g.claim_of(job_types, None, limit, NOW).await);
        let rest = expected.len() - claimed.len();
        assert_eq!(batch.len(), limit.min(rest));
        claimed.extend(batch);
    }
    assert_eq!(claimed, expected);
}

async fn larger_priority_then_earlier_time_then_insertion(g: &Ground) {
    let job = |n: i64| NewJob {
        priority: [0, 9, -9, i16::MAX, i16::MIN, 9, 0][(n % 7) as usize],
        run_at: Some(NOW - [5, 0, 5, 9][(n % 4) as usize]),
        ..work()
    };
    check_order(g, (0..60).map(job).collect(), &[WORK]).await;
}

async fn order_holds_across_queues_and_types(g: &Ground) {
    let types = ["a", "b", "c"];
    let mut random = fastrand::Rng::with_seed(7);
    let mut jobs = Vec::new();
    for n in 0..90 {
        jobs.push(NewJob {
            queue: ["default", "mail", "slow"][n / 3 % 3].into(),
            priority: random.i16(-1..=1),
            run_at: Some(NOW - random.i64(0..=2)),
            ..of_type(types[n % 3])
        });
    }
    check_order(g, jobs, &types).await;
}

/// Case 011.
async fn a_thousand_equal_jobs_start_in_insertion_order(g: &Ground) {
    let enqueued = g.enqueue_all(vec![work(); 1000], NOW).await;
    for (place, id) in enqueued.iter().take(20).enumerate() {
        assert_eq!(ids(&g.claim(1, NOW).await), [*id], "place {place}");
    }
    assert_eq!(ids(&g.claim(1000, NOW).await), enqueued[20..]);
}

async fn ids_in_the_order_given(g: &Ground) {
    let jobs: Vec<_> = (0..300).map(|n| NewJob::new(WORK, format!("[{n}]"))).collect();
    let enqueued = g.enqueue_all(jobs, NOW).await;
    for (n, row) in g.rows(&enqueued).await.into_iter().enumerate() {
        assert_eq!(row.payload, format!("[{n}]"));
    }
    assert!(enqueued.is_sorted(), "ids rise");
}

/// Case 002.
async fn only_known_types_are_claimed(g: &Ground) {
    let known = g.pending().await;
    let unknown = g.enqueue(of_type("of another program"), NOW).await;
    let later =
        g.enqueue(NewJob { run_at: Some(NOW + 3_600_000), ..of_type("of another program") }, NOW).await;
    assert_eq!(g.claim_of(&[], None, 10, FAR - 1).await, []);
    assert_eq!(g.claim_of(&["of a third"], None, 10, FAR - 1).await, []);
    assert_eq!(ids(&g.claim_of(&["of a third", WORK], None, 10, FAR - 1).await), [known]);
    assert_eq!(g.state(unknown).await, JobState::Pending);
    assert_eq!(g.state(later).await, JobState::Scheduled);
    assert_eq!(ids(&g.claim_of(&["of another program"], None, 10, NOW).await), [unknown]);
}

/// Case 088.
async fn unknown_jobs_ahead_hinder_nobody(g: &Ground) {
    g.enqueue_all(vec![NewJob { priority: 9, ..of_type("unknown") }; 100], NOW).await;
    let known = g.enqueue_all(vec![work(); 100], NOW).await;
    assert_eq!(ids(&g.claim(1000, NOW).await), known);
    let unknown =
        g.listed(jobq::store::JobFilter { job_type: Some("unknown".into()), ..Default::default() }).await;
    assert_eq!(unknown.len(), 100);
    assert!(g.rows(&unknown).await.iter().all(|row| row.state == JobState::Pending && row.attempts == 0));
}

async fn only_served_queues_are_claimed(g: &Ground) {
    let mail = g.enqueue(in_queue("mail"), NOW).await;
    let slow = g.enqueue(in_queue("slow"), NOW).await;
    let rest = g.enqueue(in_queue("rest"), NOW).await;
    assert_eq!(g.claim_of(&[WORK], Some(&[]), 10, NOW).await, []);
    assert_eq!(g.claim_of(&[WORK], Some(&["nowhere"]), 10, NOW).await, []);
    assert_eq!(g.claim_of(&["other"], Some(&["mail"]), 10, NOW).await, []);
    assert_eq!(ids(&g.claim_of(&[WORK], Some(&["slow", "nowhere", "mail"]), 10, NOW).await), [mail, slow]);
    assert_eq!(ids(&g.claim_of(&[WORK], None, 10, NOW).await), [rest]);
}

async fn names_are_compared_exactly(g: &Ground) {
    let names =
        ["mail", "Mail", "mail ", " mail", "mai_", "mail%", "mäil", "ma\u{308}il", "mail'--", "\"mail\""];
    for name in names {
        g.enqueue(in_queue(name), NOW).await;
        g.enqueue(of_type(name), NOW).await;
    }
    for name in names {
        let by_queue = g.claim_of(&[WORK], Some(&[name]), 10, NOW).await;
        let by_type = g.claim_of(&[name], None, 10, NOW).await;
        assert_eq!((by_queue.len(), by_type.len()), (1, 1), "{name:?}");
        assert_eq!((&*by_queue[0].queue, &*by_type[0].job_type), (name, name));
    }
}

async fn a_claim_takes_no_more_than_its_limit(g: &Ground) {
    let enqueued = g.enqueue_all(vec![work(); 7], NOW).await;
    assert_eq!(g.claim(0, NOW).await, []);
    assert_eq!(ids(&g.claim(3, NOW).await), enqueued[..3]);
    assert_eq!(ids(&g.claim(usize::MAX, NOW).await), enqueued[3..]);
}

async fn a_claim_takes_no_scheduled_job(g: &Ground) {
    let id = g.enqueue(due_at(NOW + 10), NOW).await;
    assert_eq!(g.claim(10, NOW + 9).await, []);
    g.store.promote(10, NOW + 10).await.unwrap();
    g.claim_this(id, NOW + 10).await;
}

async fn promote_takes_the_earliest_up_to_its_limit(g: &Ground) {
    let mut enqueued = Vec::new();
    for due in [5, 3, 4, 3, 9] {
        enqueued.push(g.enqueue(due_at(NOW + due), NOW).await);
    }
    let promoted = async |limit, now| {
        let before = g.rows(&enqueued).await;
        let count = g.store.promote(limit, now).await.unwrap();
        let after = g.rows(&enqueued).await;
        let moved = |at: &usize| before[*at].state != after[*at].state;
        let moved: Vec<_> = (0..enqueued.len()).filter(moved).collect();
        assert_eq!(count, moved.len());
        moved
    };
    assert_eq!(promoted(0, NOW + 5).await, [0; 0]);
    assert_eq!(promoted(1, NOW + 5).await, [1]);
    assert_eq!(promoted(2, NOW + 5).await, [2, 3]);
    assert_eq!(promoted(usize::MAX, NOW + 5).await, [0]);
    assert_eq!(promoted(usize::MAX, NOW + 8).await, [0; 0]);
    assert_eq!(promoted(usize::MAX, FAR - 1).await, [4]);
}

async fn promote_keeps_the_order_of_claims(g: &Ground) {
    let late = g.enqueue(due_at(NOW + 9), NOW).await;
    let early = g.enqueue(due_at(NOW + 1), NOW).await;
    let urgent = g.enqueue(NewJob { priority: 1, ..due_at(NOW + 9) }, NOW).await;
    g.store.promote(10, NOW + 9).await.unwrap();
    let now = g.enqueue(work(), NOW + 5).await;
    assert_eq!(ids(&g.claim(10, NOW + 9).await), [urgent, early, now, late]);
}

/// A job that was put back keeps the version of its payload, whatever the build that claims it next.
async fn a_claim_tells_the_version_of_the_payload(g: &Ground) {
    let plain = g.pending().await;
    assert_eq!(g.claim_this(plain, NOW).await.version, 1);
    let second = g.enqueue(NewJob { version: 2, ..work() }, NOW).await;
    for _ in 0..2 {
        let job = g.claim_this(second, NOW).await;
        assert_eq!((job.version, g.row(second).await.version), (2, 2));
        g.fail(second, job.lease, Next::At(NOW), NOW).await;
    }
    let job = g.claim_this(second, NOW).await;
    g.fail(second, job.lease, Next::Dead, NOW).await;
    g.retry(second, NOW).await;
    assert_eq!(g.claim_this(second, NOW).await.version, 2);
}

/// Promise 3: errors and lost workers cost an attempt each; release and snooze cost none.
async fn attempts_count_what_counts(g: &Ground) {
    let id = g.enqueue(NewJob { max_attempts: 9, ..work() }, NOW).await;
    let mut expected = 1;
    for (step, counts) in [true, false, false, true, true, false].into_iter().enumerate() {
        let job = g.claim_this(id, NOW + step as i64).await;
        assert_eq!((job.attempt, job.max_attempts), (expected, 9), "step {step}");
        let now = NOW + step as i64;
        let settled = match step {
            0 | 4 => g.fail(id, job.lease, Next::At(now), now).await,
            1 => g.release(id, job.lease, now).await,
            3 => g.rescue(id, job.lease, Next::At(now), now).await,
            _ => g.snooze(id, job.lease, now, now).await,
        };
        assert_eq!(settled, Settled::Applied);
        expected += u32::from(counts);
        assert_eq!(g.row(id).await.attempts, expected - 1);
    }
}

async fn due_tells_pending_and_the_next_time(g: &Ground) {
    let due = async || g.store.due(set(&[WORK], None), NOW).await.unwrap();
    // A bystander is scheduled for FAR.
    assert_eq!(due().await, Due { pending: false, next_run_at: Some(FAR), ..Due::default() });
    g.enqueue(due_at(NOW + 9), NOW).await;
    let first = g.enqueue(due_at(NOW + 5), NOW).await;
    assert_eq!(due().await, Due { pending: false, next_run_at: Some(NOW + 5), ..Due::default() });
    g.run_now(first, NOW).await;
    assert_eq!(due().await, Due { pending: true, next_run_at: Some(NOW + 9), ..Due::default() });
    g.claim_this(first, NOW).await;
    assert_eq!(due().await, Due { pending: false, next_run_at: Some(NOW + 9), ..Due::default() });
    g.release(first, 1, NOW).await;
    assert!(due().await.pending);
}

async fn due_knows_types_and_queues(g: &Ground) {
    g.enqueue(in_queue("mail"), NOW).await;
    let pending = async |job_types: &[&str], queues: Option<&[&str]>| {
        g.store.due(set(job_types, queues), NOW).await.unwrap().pending
    };
    assert!(pending(&[WORK], None).await);
    assert!(pending(&["other", WORK], Some(&["mail"])).await);
    assert!(!pending(&[WORK], Some(&["slow"])).await);
    assert!(!pending(&[WORK], Some(&[])).await);
    assert!(!pending(&["other"], None).await);
    assert!(!pending(&[], None).await);
}
