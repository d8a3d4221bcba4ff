//! Limits of the attribute and of people: what runs at once, what starts when, and what is declared.

use super::ground::*;
use jobq::{
    JobState, Limit, Rate,
    job::MAX_NAME,
    limit::{Bounds, Limited},
    prelude::*,
};
use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering::SeqCst},
};
use tokio::sync::Semaphore;

/// Who is inside, the most that ever were, and whoever may leave.
#[derive(Clone)]
struct Room(Arc<(AtomicUsize, AtomicUsize, Semaphore)>);

impl Room {
    fn new() -> Self {
        Self(Arc::new((AtomicUsize::new(0), AtomicUsize::new(0), Semaphore::new(0))))
    }

    async fn visit(&self) {
        let (inside, most, leave) = &*self.0;
        most.fetch_max(inside.fetch_add(1, SeqCst) + 1, SeqCst);
        leave.acquire().await.unwrap().forget();
        inside.fetch_sub(1, SeqCst);
    }

    fn inside(&self) -> usize {
        self.0.0.load(SeqCst)
    }

    fn most(&self) -> usize {
        self.0.1.load(SeqCst)
    }

    fn let_out(&self, how_many: usize) {
        self.0.2.add_permits(how_many);
    }
}

#[job(type = "limits:few", concurrency = 2)]
async fn few(#[data] room: &Room) {
    room.visit().await;
}

#[job(type = "limits:keyed", aliases = ["limits:old"], concurrency(per_key = 1, total = 3), concurrency_key = "{tenant}")]
async fn keyed(#[data] room: &Room, tenant: String, n: u32) {
    let _ = (tenant, n);
    room.visit().await;
}

#[job(type = "limits:seldom", rate_limit = "2/1m")]
async fn seldom() {}

/// One number alone is for each key.
#[job(type = "limits:alone", concurrency = 5, rate_limit = "7/90s", concurrency_key = "{a}/{b}")]
async fn alone(a: u32, b: u32) {
    let _ = (a, b);
}

#[tokio::test]
async fn two_workers_run_no_more_at_once_than_the_type_lets() {
    let (g, room) = (ground(), Room::new());
    let bystander = g.bystander().await;
    let jobs: Vec<_> = (0..6).map(|_| Few {}).collect();
    g.queue.enqueue_all(jobs).await.unwrap();
    let worker = || g.worker().data(room.clone()).jobs((few,)).concurrency(10).start();
    let (one, two) = (worker().await.unwrap(), worker().await.unwrap());
    for left in [4, 2, 0] {
        g.pass_until("two are inside", async || room.inside() == 2).await;
        g.pass(secs(5)).await;
        let waiting = g.queue.counts().await.unwrap();
        let pending =
            waiting.iter().find(|count| count.job_type == Few::TYPE && count.state == JobState::Pending);
        assert_eq!(pending.map_or(0, |count| count.count), left);
        room.let_out(2);
        g.pass_until("they have left", async || room.inside() == if left == 0 { 0 } else { 2 }).await;
    }
    g.pass(secs(2)).await;
    assert_eq!(room.most(), 2);
    one.stop().await.unwrap();
    two.stop().await.unwrap();
    g.untouched(bystander).await;
}

#[tokio::test]
async fn each_key_has_its_share_and_the_enqueue_may_name_another() {
    let (g, room) = (ground(), Room::new());
    let bystander = g.bystander().await;
    let add = |tenant: &str, n| keyed.enqueue((tenant.into(), n)).on(&g.queue);
    let first = add("acme", 1).await.unwrap().id();
    let second = add("acme", 2).await.unwrap().id();
    let other = add("globex", 1).await.unwrap().id();
    let named = add("acme", 3).concurrency_key("acme, audit").await.unwrap().id();
    assert_eq!(g.row(first).await.concurrency_key.as_deref(), Some("acme"));
    assert_eq!(g.row(named).await.concurrency_key.as_deref(), Some("acme, audit"));
    let worker = g.worker().data(room.clone()).jobs((keyed,)).concurrency(10).start().await.unwrap();
    g.pass_until("three are inside", async || room.inside() == 3).await;
    assert_eq!(g.state(second).await, JobState::Pending);
    for id in [first, other, named] {
        assert_eq!(g.state(id).await, JobState::Running);
    }
    room.let_out(4);
    g.pass_until("all are done", async || g.state(second).await == JobState::Completed).await;
    assert_eq!(room.most(), 3);
    worker.stop().await.unwrap();
    g.untouched(bystander).await;
}

#[tokio::test]
async fn a_rate_starts_its_bucket_and_then_one_after_the_other_in_time() {
    let g = ground();
    let bystander = g.bystander().await;
    let worker = g.worker().jobs((seldom,)).concurrency(10).start().await.unwrap();
    g.queue.enqueue_all((0..5).map(|_| Seldom {})).await.unwrap();
    let done = async || {
        let rows = g.queue.list(JobFilter::default().job_type(Seldom::TYPE)).await.unwrap();
        rows.iter().filter(|row| row.state == JobState::Completed).count()
    };
    g.pass_until("the bucket is empty", async || done().await == 2).await;
    g.pass(secs(28)).await;
    assert_eq!(done().await, 2);
    g.pass(secs(3)).await;
    assert_eq!(done().await, 3);
    g.pass(secs(30)).await;
    assert_eq!(done().await, 4);
    worker.stop().await.unwrap();
    g.untouched(bystander).await;
}

#[tokio::test]
async fn a_worker_declares_what_its_types_limit_and_writes_it_once() {
    let g = ground();
    let start = || g.worker().data(Room::new()).jobs((few, keyed, alone, seldom)).start();
    start().await.unwrap().stop().await.unwrap();
    assert_eq!(g.rig.calls("declare_limits"), 1);
    start().await.unwrap().stop().await.unwrap();
    assert_eq!(g.rig.calls("declare_limits"), 1, "nothing has changed");
    let limits = g.queue.limits().await.unwrap();
    let of = |name: &str| {
        let row = limits.iter().find(|row| row.of == Limited::JobType(name.into()));
        row.map(|row| (row.declared.unwrap_or_default(), row.set)).unwrap_or_default()
    };
    let rate = Rate::new(7, secs(90));
    for (name, bounds) in [
        ("limits:few", Bounds { concurrency: Some(2), ..Bounds::NONE }),
        ("limits:keyed", Bounds { concurrency: Some(3), concurrency_per_key: Some(1), ..Bounds::NONE }),
        ("limits:old", Bounds { concurrency: Some(3), concurrency_per_key: Some(1), ..Bounds::NONE }),
        ("limits:alone", Bounds { concurrency_per_key: Some(5), rate_per_key: Some(rate), ..Bounds::NONE }),
        ("limits:seldom", Bounds { rate: Some(Rate::new(2, mins(1))), ..Bounds::NONE }),
    ] {
        assert_eq!(of(name), (bounds, None), "{name}");
    }
    assert_eq!(limits.len(), 5);
}

#[tokio::test]
async fn people_change_a_limit_while_its_jobs_wait() {
    let (g, room) = (ground(), Room::new());
    let bystander = g.bystander().await;
    g.queue.enqueue_all((0..8).map(|_| Few {})).await.unwrap();
    let worker = g.worker().data(room.clone()).jobs((few,)).concurrency(10).start().await.unwrap();
    g.pass_until("two are inside", async || room.inside() == 2).await;
    g.queue.set_limit(Limit::job_type(Few::TYPE).concurrency(5)).await.unwrap();
    g.pass_until("five are inside", async || room.inside() == 5).await;
    g.queue.set_limit(Limit::queue("default").concurrency(1)).await.unwrap();
    room.let_out(4);
    g.pass(secs(5)).await;
    assert_eq!(room.inside(), 1, "four have left, and nobody came");
    assert!(g.queue.clear_limit(Limit::queue("default")).await.unwrap());
    g.pass_until("the rest is inside", async || room.inside() == 4).await;
    room.let_out(4);
    g.pass_until("all have left", async || room.inside() == 0).await;
    worker.stop().await.unwrap();
    g.untouched(bystander).await;
}

#[tokio::test]
async fn a_key_that_is_long_or_odd_is_cut_and_told_apart_all_the_same() {
    let g = ground();
    let key = |text: String| {
        let queue = g.queue.clone();
        async move { alone.enqueue((1, 2)).concurrency_key(text).on(&queue).await.unwrap().id() }
    };
    let one = g.row(key("x".repeat(300) + "1").await).await.concurrency_key.unwrap();
    let two = g.row(key("x".repeat(300) + "2").await).await.concurrency_key.unwrap();
    assert!(one.len() <= 255 && two.len() <= 255 && one != two && one.starts_with(&"x".repeat(MAX_NAME)));
    let odd = g.row(key("a\0b\tc\u{1f600}".into()).await).await.concurrency_key.unwrap();
    assert!(!odd.contains('\0'), "{odd:?}");
    assert_eq!(
        g.row(alone.enqueue((3, 4)).on(&g.queue).await.unwrap().id()).await.concurrency_key.as_deref(),
        Some("3/4")
    );
}
