//! Enqueue inside the application's own sqlx transaction on the same file.

use super::*;
use jobq::{
    MemoryStore, Tx,
    store::{Promise, Promised, Release, Rescue, Retention, Snooze, Ties},
};
use sqlx::{Acquire, Connection, SqliteConnection, SqlitePool, sqlite::SqliteConnectOptions};

impl Site {
    async fn pool(&self) -> SqlitePool {
        let pool = SqlitePool::connect_with(SqliteConnectOptions::new().filename(&self.path)).await.unwrap();
        sqlx::query("CREATE TABLE IF NOT EXISTS users (id INTEGER PRIMARY KEY)")
            .execute(&pool)
            .await
            .unwrap();
        pool
    }

    fn users(&self) -> i64 {
        column(&self.raw(), "SELECT count(*) FROM users")[0]
    }
}

async fn enqueue_in(
    store: &SqliteStore,
    tx: impl Into<Tx<'_>>,
    jobs: Vec<NewJob>,
) -> Result<Vec<JobId>, StoreError> {
    soon(store.enqueue_in(tx.into(), jobs, T0)).await.map(Ids::ids)
}

async fn add_user(db: &mut SqliteConnection) {
    sqlx::query("INSERT INTO users DEFAULT VALUES").execute(db).await.unwrap();
}

#[tokio::test]
async fn jobs_and_rows_of_one_transaction_commit_together_in_insertion_order() {
    let site = Site::new().await;
    let pool = site.pool().await;
    let mut tx = pool.begin().await.unwrap();
    add_user(&mut tx).await;
    let mut ids = enqueue_in(&site.store, &mut tx, jobs("a", 3)).await.unwrap();
    ids.extend(enqueue_in(&site.store, &mut *tx, vec![job("b", 3), job("a", 4)]).await.unwrap());
    assert_eq!(site.store.get(ids[0]).await.unwrap(), None, "nobody sees it before the commit");
    tx.commit().await.unwrap();

    let rows: Vec<_> = all(&site.store).await.into_iter().rev().skip(1).collect();
    assert_eq!(rows.iter().map(|row| row.id).collect::<Vec<_>>(), ids);
    let numbers: Vec<_> = rows.iter().map(|row| row.payload.clone()).collect();
    assert_eq!(numbers, (0..5).map(|n| job("", n).payload).collect::<Vec<_>>());
    assert!(rows.iter().all(|row| row.state == JobState::Pending && row.created_at == T0));
    assert_eq!(site.users(), 1);
    site.is_well().await;
}

#[tokio::test]
async fn a_pooled_connection_and_a_bare_one_are_taken_too() {
    let site = Site::new().await;
    let pool = site.pool().await;
    let mut pooled = pool.acquire().await.unwrap();
    let mut bare =
        SqliteConnection::connect_with(&SqliteConnectOptions::new().filename(&site.path)).await.unwrap();
    let ids = [
        enqueue_in(&site.store, &mut pooled, jobs("a", 1)).await.unwrap(),
        enqueue_in(&site.store, &mut bare, jobs("a", 1)).await.unwrap(),
    ];
    for id in ids.concat() {
        assert_eq!(state(&site.store, id).await, Some(JobState::Pending));
    }
    site.is_well().await;
}

#[tokio::test]
async fn what_is_rolled_back_was_never_there() {
    let site = Site::new().await;
    let pool = site.pool().await;
    let mut tx = pool.begin().await.unwrap();
    add_user(&mut tx).await;
    let ids = enqueue_in(&site.store, &mut tx, jobs("a new type", 3)).await.unwrap();
    tx.rollback().await.unwrap();
    assert_eq!(site.users(), 0);
    for id in ids {
        assert_eq!(site.store.get(id).await.unwrap(), None);
    }
    // The lane it laid went with it, and is laid again.
    let id = soon(site.store.enqueue(jobs("a new type", 1), T0)).await.unwrap()[0].id;
    let worker = sign_in(&site.store).await;
    assert_eq!(claim(&site.store, worker, &["a new type"], 5).await[0].id, id);
    site.is_well().await;
}

#[tokio::test]
async fn a_rolled_back_transaction_leaves_nothing_for_the_next_commit() {
    let site = Site::new().await;
    let pool = site.pool().await;
    let mut connection = pool.acquire().await.unwrap();
    let standing_there = async || {
        let lanes: Vec<i64> = column(&site.raw(), "SELECT count(*) FROM jobq_lanes");
        (site.store.counts().await.unwrap(), lanes)
    };
    let before = standing_there().await;
    let mut tx = connection.begin().await.unwrap();
    enqueue_in(&site.store, &mut tx, jobs("a", 3)).await.unwrap();
    tx.rollback().await.unwrap();
    let worker = sign_in(&site.store).await;
    let wish = unanswered(wish(&site.store, standing(worker, &["a"], 5))).await;

    let mut tx = connection.begin().await.unwrap();
    add_user(&mut tx).await;
    tx.commit().await.unwrap();
    assert_eq!(of_type(&site.store, "a").await, []);
    assert_eq!(column::<i64>(&site.raw(), "SELECT count(*) FROM jobs"), [1]);
    assert_eq!(standing_there().await, before, "no count, no lane");
    site.store.withdraw(worker);
    assert_eq!(soon(wish).await.unwrap().unwrap(), [], "nothing was claimed");
    site.is_well().await;
}

#[tokio::test]
async fn a_savepoint_rolled_back_takes_its_job_and_leaves_the_rest() {
    let site = Site::new().await;
    let pool = site.pool().await;
    let mut tx = pool.begin().await.unwrap();
    add_user(&mut tx).await;
    let kept = enqueue_in(&site.store, &mut tx, jobs("a", 1)).await.unwrap();
    let mut inner = tx.begin().await.unwrap();
    let dropped = enqueue_in(&site.store, &mut inner, jobs("a", 1)).await.unwrap();
    inner.rollback().await.unwrap();
    let after = enqueue_in(&site.store, &mut tx, jobs("a", 1)).await.unwrap();
    tx.commit().await.unwrap();

    assert_eq!(site.users(), 1);
    let found: Vec<JobId> = of_type(&site.store, "a").await.iter().map(|row| row.id).collect();
    assert_eq!(found, [after[0], kept[0]]);
    assert!(
        !found.contains(&dropped[0]) || dropped == after,
        "only a number that was never seen is used again"
    );
    site.is_well().await;
}

/// Case 102: a command fails inside of savepoints; what is rolled back is theirs alone, and the depth is counted right.
#[tokio::test]
async fn an_enqueue_that_fails_in_a_savepoint_costs_the_outer_transaction_nothing() {
    let site = Site::new().await;
    let pool = site.pool().await;
    let refuse = "CREATE TRIGGER refuse BEFORE INSERT ON jobs WHEN new.priority = 13
        BEGIN SELECT raise(ABORT, 'refused by a trigger'); END";
    site.raw().execute_batch(refuse).unwrap();
    let refused = || vec![job("a", 7), NewJob { priority: 13, ..job("a", 8) }];
    let mut tx = pool.begin().await.unwrap();
    add_user(&mut tx).await;
    let mut kept = Vec::new();
    for _ in 0..3 {
        let mut middle = tx.begin().await.unwrap();
        kept.extend(enqueue_in(&site.store, &mut middle, jobs("a", 1)).await.unwrap());
        let mut inner = middle.begin().await.unwrap();
        enqueue_in(&site.store, &mut inner, jobs("a", 1)).await.unwrap();
        let refusal = enqueue_in(&site.store, &mut inner, refused()).await.unwrap_err();
        assert!(refusal.to_string().contains("refused by a trigger"), "{refusal}");
        sqlx::query("INSERT INTO nowhere VALUES (1)").execute(&mut *inner).await.unwrap_err();
        inner.rollback().await.unwrap();
        middle.commit().await.unwrap();
    }
    // One that is dropped without a word is rolled back before the next command.
    let mut dropped = tx.begin().await.unwrap();
    enqueue_in(&site.store, &mut dropped, refused()).await.unwrap_err();
    drop(dropped);
    kept.extend(enqueue_in(&site.store, &mut tx, jobs("a", 1)).await.unwrap());
    tx.commit().await.unwrap();
    assert_eq!(site.users(), 1);
    let mut found: Vec<JobId> = of_type(&site.store, "a").await.iter().map(|row| row.id).collect();
    found.reverse();
    assert_eq!(found, kept);
    site.is_well().await;
}

/// Held open: nobody starts it. Committed: a standing claim of this process and one of another connection are
/// answered, well before the safety poll of 500 ms.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_commit_of_the_application_wakes_standing_claims() {
    let site = Site::new().await;
    let (pool, other) = (site.pool().await, site.another().await);
    let workers = [sign_in(&site.store).await, sign_in(&other).await];
    let mut best = Duration::MAX;
    for _ in 0..5 {
        let mut tx = pool.begin_with("BEGIN IMMEDIATE").await.unwrap();
        let mut ids = enqueue_in(&site.store, &mut tx, jobs("a", 2)).await.unwrap();
        let wishes = [
            unanswered(wish(&site.store, standing(workers[0], &["a"], 1))).await,
            unanswered(wish(&other, standing(workers[1], &["a"], 1))).await,
        ];
        let due = soon(site.store.due(set(&["a"]), T0)).await.unwrap();
        assert!(
            !due.pending && !wishes[0].is_finished() && !wishes[1].is_finished(),
            "not before the commit"
        );
        tx.commit().await.unwrap();
        let committed = std::time::Instant::now();
        let mut got = Vec::new();
        for wish in wishes {
            got.extend(soon(wish).await.unwrap().unwrap());
        }
        best = best.min(committed.elapsed());
        assert_eq!(got.len(), 2, "each claim got one");
        let mut claimed: Vec<JobId> = got.iter().map(|job| job.id).collect();
        claimed.sort_unstable();
        ids.sort_unstable();
        assert_eq!(claimed, ids);
        soon(site.store.complete(got.iter().map(completion).collect(), T0)).await.unwrap();
    }
    println!("the quickest answer came {best:?} after the commit");
    assert!(best < Duration::from_millis(400), "{best:?}: only the safety poll woke the claims");
    site.is_well().await;
}

#[tokio::test]
async fn another_database_is_refused_and_named() {
    let (site, other) = (Site::new().await, Site::new().await);
    let pool = other.pool().await;
    let mut tx = pool.begin().await.unwrap();
    let refusal = enqueue_in(&site.store, &mut tx, jobs("a", 1)).await.unwrap_err();
    let text = refusal.to_string();
    assert!(matches!(refusal, StoreError::OtherDatabase { .. }), "{text}");
    for path in [&site.path, &other.path] {
        assert!(text.contains(&*path.to_string_lossy()), "{text}");
    }
    tx.commit().await.unwrap();
    assert_eq!(all(&other.store).await.len(), 1);

    let mut bare = SqliteConnection::connect("sqlite::memory:").await.unwrap();
    let refusal = enqueue_in(&site.store, &mut bare, jobs("a", 1)).await.unwrap_err();
    assert!(refusal.to_string().contains("without jobq's tables"), "{refusal}");
    let mut bare =
        SqliteConnection::connect_with(&SqliteConnectOptions::new().filename(&site.path)).await.unwrap();
    let refusal =
        soon(MemoryStore::new().enqueue_in(Tx::from(&mut bare), jobs("a", 1), T0)).await.unwrap_err();
    assert!(matches!(refusal, StoreError::NoTransactions), "{refusal}");
    site.is_well().await;
    other.is_well().await;
}

/// A deferred transaction that has read and then meets a foreign commit can't write: SQLite says so at once.
#[tokio::test]
async fn a_stale_deferred_transaction_is_told_to_begin_immediate() {
    let site = Site::new().await;
    let pool = site.pool().await;
    let mut tx = pool.begin().await.unwrap();
    sqlx::query("SELECT count(*) FROM users").fetch_one(&mut *tx).await.unwrap();
    soon(site.store.enqueue(jobs("b", 1), T0)).await.unwrap();
    let refusal = enqueue_in(&site.store, &mut tx, jobs("a", 1)).await.unwrap_err();
    assert!(matches!(refusal, StoreError::Busy { .. }), "{refusal:?}");
    assert!(refusal.to_string().contains("BEGIN IMMEDIATE"), "{refusal}");
    tx.rollback().await.unwrap();
    assert_eq!(of_type(&site.store, "a").await, []);
    site.is_well().await;
}

/// The enqueue itself must not be such a read: where it is the first thing in a plain transaction, others may commit
/// as they like.
#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn an_enqueue_that_opens_a_deferred_transaction_takes_the_lock_first() {
    let site = Site::new().await;
    let pool = site.pool().await;
    let other = site.another().await;
    let noise = tokio::spawn(async move {
        for n in 0..400 {
            other.enqueue(vec![job("noise", n)], T0).await.unwrap();
        }
    });
    for n in 0..100 {
        let mut tx = pool.begin().await.unwrap();
        enqueue_in(&site.store, &mut tx, vec![job("a", n)]).await.unwrap();
        tx.commit().await.unwrap();
    }
    soon(noise).await.unwrap();
    assert_eq!(of_type(&site.store, "a").await.len(), 100);
    site.is_well().await;
}

/// The application's own connection gave up waiting: another cause, another advice.
#[tokio::test]
async fn a_lock_held_by_others_is_busy_and_says_so() {
    let site = Site::new().await;
    let options = SqliteConnectOptions::new().filename(&site.path).busy_timeout(Duration::from_millis(50));
    let mut app = SqliteConnection::connect_with(&options).await.unwrap();
    let foreign = site.raw();
    foreign.execute_batch("BEGIN IMMEDIATE").unwrap();
    let refusal = enqueue_in(&site.store, &mut app, jobs("a", 1)).await.unwrap_err();
    let StoreError::Busy { waited, .. } = refusal else { panic!("{refusal:?}") };
    assert!(waited >= Duration::from_millis(40), "{waited:?}");
    assert!(refusal.to_string().contains("busy_timeout"), "{refusal}");
    foreign.execute_batch("ROLLBACK").unwrap();
    assert_eq!(enqueue_in(&site.store, &mut app, jobs("a", 1)).await.unwrap().len(), 1);
    site.is_well().await;
}

#[tokio::test]
async fn a_thousand_jobs_in_one_transaction() {
    let site = Site::new().await;
    let pool = site.pool().await;
    let mut tx = pool.begin().await.unwrap();
    let ids = enqueue_in(&site.store, &mut tx, jobs("a", 1000)).await.unwrap();
    tx.commit().await.unwrap();
    let worker = sign_in(&site.store).await;
    let claimed = claim(&site.store, worker, &["a"], 2000).await;
    assert_eq!(claimed.iter().map(|job| job.id).collect::<Vec<_>>(), ids);
    assert_eq!(claimed[999].payload, job("a", 999).payload);
    site.is_well().await;
}

/// The row of a transaction is the row of a plain enqueue, to the last character.
#[tokio::test]
async fn every_value_is_stored_as_a_plain_enqueue_stores_it() {
    use jobq::{Backoff, Timeout};
    let site = Site::new().await;
    let pool = site.pool().await;
    let payloads = [
        r#"{"n":9007199254740993,"u":18446744073709551615,"big":1e400,"d":0.1,"e":-0.0}"#,
        r#"{"same":1,"same":2}"#,
        "\"\u{1F600} \\ud83d \u{2028} \\u0000 \u{7f} '\\\" \\\\ \\n\"",
        "{ \"space\" :\t[ ] }",
        "null",
        "a text with a nul \0 in it that is not even JSON",
    ];
    let mut new: Vec<NewJob> = payloads.iter().map(|payload| NewJob::new("a", *payload)).collect();
    new[0].priority = -32_768;
    new[0].run_at = Some(T0 + HOUR);
    new[1].priority = 32_767;
    new[1].max_attempts = u32::MAX;
    new[1].timeout = Some(Timeout::Never);
    new[2].timeout = Some(Timeout::After(Duration::from_micros(1)));
    new[2].retain = Some(DAY * 3650);
    new[2].backoff = Some(Backoff::fixed(Duration::from_secs(7)));
    new[3].label = Some("Ä '\"\\ \u{1F600} label".into());
    new[3].queue = "mail ü".into();
    new[4].label = Some("with a nul \0 inside".into());
    new[4].run_at = Some(T0 - HOUR);
    new[5].version = 7;
    let plain = soon(site.store.enqueue(new.clone(), T0)).await.unwrap().ids();
    let mut tx = pool.begin().await.unwrap();
    let in_tx = enqueue_in(&site.store, &mut tx, new.clone()).await.unwrap();
    tx.commit().await.unwrap();
    for (n, (plain, in_tx)) in plain.into_iter().zip(in_tx).enumerate() {
        let plain = site.store.get(plain).await.unwrap().unwrap();
        let in_tx = site.store.get(in_tx).await.unwrap().unwrap();
        assert_eq!(plain.payload, new[n].payload, "plain, job {n}");
        assert_eq!(plain.label, new[n].label, "plain, job {n}");
        assert_eq!(JobRow { id: plain.id, ..in_tx }, plain, "job {n}");
    }
    site.is_well().await;
}

#[tokio::test]
async fn a_refused_job_refuses_its_whole_call_and_the_transaction_goes_on() {
    let site = Site::new().await;
    let pool = site.pool().await;
    let mut tx = pool.begin().await.unwrap();
    add_user(&mut tx).await;
    let bad = NewJob { max_attempts: 0, ..job("a", 1) };
    let refusal = enqueue_in(&site.store, &mut tx, vec![job("a", 0), bad]).await.unwrap_err();
    assert!(matches!(refusal, StoreError::Invalid(_)), "{refusal}");
    assert_eq!(enqueue_in(&site.store, &mut tx, Vec::new()).await.unwrap(), []);
    let id = enqueue_in(&site.store, &mut tx, vec![job("a", 2)]).await.unwrap()[0];
    tx.commit().await.unwrap();
    assert_eq!(of_type(&site.store, "a").await.iter().map(|row| row.id).collect::<Vec<_>>(), [id]);
    assert_eq!(site.users(), 1);
    site.is_well().await;
}

// ---- completions in the application's transaction ----------------------------------------------------------------

async fn complete_in(site: &Site, tx: impl Into<Tx<'_>>, job: &Claimed) -> Promised {
    soon(site.store.complete_in(tx.into(), completion(job))).await.unwrap()
}

async fn promised(site: &Site, job: &Claimed) -> Option<Promise> {
    soon(site.store.promised(job.id, job.lease)).await.unwrap()
}

/// Running jobs, each as one claim gives them.
async fn running(site: &Site, count: usize) -> Vec<Claimed> {
    soon(site.store.enqueue(jobs("a", count), T0)).await.unwrap();
    let worker = sign_in(&site.store).await;
    claim(&site.store, worker, &["a"], count).await
}

#[tokio::test]
async fn a_promise_counts_from_its_commit_on_and_whatever_is_said_then_completes_the_job() {
    let site = Site::new().await;
    let pool = site.pool().await;
    let held = running(&site, 6).await;
    for (way, job) in held.iter().enumerate() {
        let mut tx = pool.begin().await.unwrap();
        add_user(&mut tx).await;
        assert_eq!(complete_in(&site, &mut tx, job).await, Promised::Laid);
        assert_eq!(promised(&site, job).await, None, "not before the commit");
        tx.commit().await.unwrap();
        let result = completion(job).result;
        assert_eq!(promised(&site, job).await, Some(Promise { result: result.clone() }));
        if way == 5 {
            assert_eq!(soon(site.store.cancel(vec![job.id], T0)).await.unwrap(), [Acted::Asked]);
        }
        let (id, lease, ties) = (job.id, job.lease, Ties::NONE);
        let settled = match way {
            0 => site.store.complete(vec![Completion { ties: Ties::ALL, ..completion(job) }], T0 + 5),
            1 => site.store.fail(vec![failure(job, Next::Dead)], T0 + 5),
            2 => site.store.snooze(vec![Snooze { id, lease, run_at: T0 + HOUR, ties }], T0 + 5),
            3 => site.store.release(vec![Release { id, lease, ties }], T0 + 5),
            _ => {
                let error = "worker lost".into();
                site.store.rescue(
                    vec![Rescue { id, lease, error, next: Next::At(T0), ties, on_dead: None }],
                    T0 + 5,
                )
            }
        };
        assert_eq!(soon(settled).await.unwrap(), [Settled::Applied], "way {way}");
        let row = site.store.get(id).await.unwrap().unwrap();
        assert_eq!((row.state, row.completed_at), (JobState::Completed, Some(T0 + 5)), "way {way}");
        assert_eq!((row.result, row.error, row.attempts), (result, None, 1), "way {way}");
        assert_eq!(site.store.attempts(id).await.unwrap().len(), 1);
        assert_eq!(promised(&site, job).await, None, "it is kept, and so it is gone");
    }
    assert_eq!(site.users(), 6);
    site.is_well().await;
}

#[tokio::test]
async fn a_promise_that_is_rolled_back_never_was_and_can_be_made_again_but_not_twice() {
    let site = Site::new().await;
    let pool = site.pool().await;
    let held = running(&site, 1).await;
    let mut tx = pool.begin().await.unwrap();
    assert_eq!(complete_in(&site, &mut tx, &held[0]).await, Promised::Laid);
    assert_eq!(complete_in(&site, &mut tx, &held[0]).await, Promised::Twice);
    tx.rollback().await.unwrap();
    assert_eq!(promised(&site, &held[0]).await, None);

    let mut tx = pool.begin().await.unwrap();
    let mut savepoint = tx.begin().await.unwrap();
    assert_eq!(complete_in(&site, &mut savepoint, &held[0]).await, Promised::Laid);
    savepoint.rollback().await.unwrap();
    assert_eq!(complete_in(&site, &mut tx, &held[0]).await, Promised::Laid);
    tx.commit().await.unwrap();
    let mut again = pool.begin().await.unwrap();
    assert_eq!(complete_in(&site, &mut again, &held[0]).await, Promised::Twice);
    again.rollback().await.unwrap();
    let released = Release { id: held[0].id, lease: 1, ties: Ties::NONE };
    assert_eq!(soon(site.store.release(vec![released], T0)).await.unwrap(), [Settled::Applied]);
    assert_eq!(state(&site.store, held[0].id).await, Some(JobState::Completed));
    site.is_well().await;
}

#[tokio::test]
async fn only_the_holder_of_the_lease_may_promise() {
    let site = Site::new().await;
    let pool = site.pool().await;
    let job = running(&site, 1).await.remove(0);
    let mut tx = pool.begin().await.unwrap();
    let strangers = [
        Claimed { lease: 2, ..job.clone() },
        Claimed { id: crate::laws::foreign(job.id), ..job.clone() },
        Claimed { id: site.bystander.id, ..job.clone() },
    ];
    for stranger in &strangers {
        assert_eq!(complete_in(&site, &mut tx, stranger).await, Promised::LeaseLost);
    }
    tx.commit().await.unwrap();
    // Lost, and run again: what the first attempt promises late is nothing, the second one may.
    let failed = soon(site.store.fail(vec![failure(&job, Next::At(T0))], T0)).await.unwrap();
    assert_eq!(failed, [Settled::Applied]);
    let mut bare = pool.acquire().await.unwrap();
    assert_eq!(complete_in(&site, &mut bare, &job).await, Promised::LeaseLost);
    let worker = sign_in(&site.store).await;
    let again = claim(&site.store, worker, &["a"], 1).await.remove(0);
    assert_eq!(complete_in(&site, &mut bare, &job).await, Promised::LeaseLost);
    assert_eq!(complete_in(&site, &mut bare, &again).await, Promised::Laid);
    soon(site.store.prune(Retention { finished: None, dead: None }, T0)).await.unwrap();
    assert!(promised(&site, &again).await.is_some(), "a prune leaves those of running jobs");
    soon(site.store.fail(vec![failure(&again, Next::Dead)], T0)).await.unwrap();
    assert_eq!(state(&site.store, job.id).await, Some(JobState::Completed));
    assert_eq!(column::<i64>(&site.raw(), "SELECT count(*) FROM jobq_promises"), [0]);

    let elsewhere = Site::new().await;
    let mut other = elsewhere.pool().await.begin().await.unwrap();
    let refused = soon(site.store.complete_in((&mut other).into(), completion(&job))).await;
    assert!(matches!(refused, Err(StoreError::OtherDatabase { .. })), "{refused:?}");
    site.is_well().await;
}

/// A rollback gives the rows back, and at the same millisecond the next job would have the name of one that never was.
#[tokio::test]
async fn no_job_has_the_name_of_one_that_was_rolled_back() {
    let site = Site::new().await;
    let pool = site.pool().await;
    let mut same = 0;
    for _ in 0..300 {
        let mut tx = pool.begin_with("BEGIN IMMEDIATE").await.unwrap();
        let never = enqueue_in(&site.store, &mut tx, jobs("a", 1)).await.unwrap();
        tx.rollback().await.unwrap();
        let there = soon(site.store.enqueue(jobs("a", 1), T0)).await.unwrap().ids();
        same += usize::from(never == there);
        assert_eq!(state(&site.store, there[0]).await, Some(JobState::Pending));
    }
    assert_eq!(same, 0);
    site.is_well().await;
}
