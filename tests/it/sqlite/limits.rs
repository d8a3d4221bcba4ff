//! Limits where files, transactions and other hands matter: turns of jobs that the application commits, and turns that
//! nobody gave.

use super::*;
use jobq::limit::Limit;
use sqlx::{SqlitePool, sqlite::SqliteConnectOptions};

fn keyed(key: &str, n: usize) -> NewJob {
    NewJob { concurrency_key: Some(key.into()), ..job("a", n) }
}

async fn limited() -> Site {
    let site = Site::new().await;
    site.store.set_limit(Limit::job_type("a").concurrency_per_key(1), T0).await.unwrap();
    site
}

#[tokio::test]
async fn keyed_jobs_of_a_transaction_take_their_turns_from_its_commit_on() {
    let site = limited().await;
    let pool = SqlitePool::connect_with(SqliteConnectOptions::new().filename(&site.path)).await.unwrap();
    let worker = sign_in(&site.store).await;
    let batch = || vec![keyed("x", 1), keyed("x", 2), keyed("y", 3), job("a", 4)];
    let mut tx = pool.begin().await.unwrap();
    soon(site.store.enqueue_in((&mut tx).into(), batch(), T0)).await.unwrap();
    tx.rollback().await.unwrap();
    let mut tx = pool.begin_with("BEGIN IMMEDIATE").await.unwrap();
    let ids = soon(site.store.enqueue_in((&mut tx).into(), batch(), T0)).await.unwrap().ids();
    tx.commit().await.unwrap();

    let mut got = Vec::new();
    alive::until("three start", async || {
        got.extend(claim(&site.store, worker, &["a"], 10).await.into_iter().map(|job| job.id));
        got.len() == 3
    })
    .await;
    got.sort();
    assert_eq!(got, [ids[0], ids[2], ids[3]]);
    assert!(claim(&site.store, worker, &["a"], 10).await.is_empty());
    let lease = site.store.get(ids[0]).await.unwrap().unwrap().lease;
    let ended = Completion { id: ids[0], lease, result: None, ties: jobq::store::Ties::ALL };
    soon(site.store.complete(vec![ended], T0)).await.unwrap();
    assert_eq!(claim(&site.store, worker, &["a"], 10).await[0].id, ids[1]);
    site.is_well().await;
}

#[tokio::test]
async fn a_turn_that_nobody_gave_is_found_by_the_look_beside_the_loop() {
    let site = limited().await;
    let worker = sign_in(&site.store).await;
    let jobs = vec![keyed("x", 1), keyed("x", 2), keyed("y", 1)];
    let ids = soon(site.store.enqueue(jobs, T0)).await.unwrap().ids();
    assert_eq!(claim(&site.store, worker, &["a"], 10).await.len(), 2);
    // A hand takes the running one away, and nobody brings up the next.
    site.raw()
        .execute(
            "DELETE FROM jobs WHERE id = (SELECT min(id) FROM jobs WHERE concurrency_key IS NOT NULL)",
            [],
        )
        .unwrap();
    assert!(claim(&site.store, worker, &["a"], 10).await.is_empty());
    alive::until("it is found", async || {
        let set = ClaimSet { job_types: vec!["a".into()], queues: None };
        assert_eq!(site.store.due(Arc::new(set), T0).await.unwrap().next_start_at, Some(T0));
        site.store.promote(10, T0).await.unwrap();
        claim(&site.store, worker, &["a"], 10).await.iter().any(|job| job.id == ids[1])
    })
    .await;
    site.is_well().await;
}

/// The plans of the statements are held elsewhere; this is what they come to: a claim looks at nothing that is parked.
#[tokio::test]
async fn ten_thousand_parked_jobs_are_no_row_of_the_claims_index() {
    let site = limited().await;
    let worker = sign_in(&site.store).await;
    let count = |sql: &str| column::<i64>(&site.raw(), sql)[0];
    let busy: Vec<_> = (0..1000).map(|n| keyed(&format!("key {n}"), n)).collect();
    soon(site.store.enqueue(busy, T0)).await.unwrap();
    assert_eq!(claim(&site.store, worker, &["a"], 2000).await.len(), 1000);
    let parked: Vec<_> = (0..10_000).map(|n| keyed(&format!("key {}", n % 1000), n)).collect();
    soon(site.store.enqueue(parked, T0)).await.unwrap();
    let ready = "SELECT count(*) FROM jobs INDEXED BY jobs_ready WHERE state = 1 AND held = 0 AND concurrency_key NOTNULL";
    assert_eq!(count(ready), 0);
    assert_eq!(count("SELECT count(*) FROM jobs WHERE state = 1 AND held > 0"), 10_000);
    let other = soon(site.store.enqueue(vec![job("a", 1)], T0)).await.unwrap().ids()[0];
    assert_eq!(claim(&site.store, worker, &["a"], 10).await[0].id, other);
    site.is_well().await;
}
