//! Unique keys where files, processes and transactions matter: at most one row per key, whoever writes at once.

use super::*;
use crate::child::Child;
use jobq::{
    Enqueued, Landed, Tx,
    job::{Fields, JobField, OnConflict, UniqueKey, Until},
    state::StateSet,
};
use sqlx::{SqlitePool, sqlite::SqliteConnectOptions};
use std::collections::{BTreeSet, HashMap};

fn with(key: &str, n: usize, change: impl FnOnce(&mut UniqueKey)) -> NewJob {
    let mut unique = UniqueKey {
        key: key.into(),
        scope: "a".into(),
        states: Until::Finished.states(),
        within: None,
        on_conflict: OnConflict::Keep,
    };
    change(&mut unique);
    NewJob { unique: Some(Box::new(unique)), ..job("a", n) }
}

fn keyed(key: &str, n: usize) -> NewJob {
    with(key, n, |_| {})
}

async fn pool(site: &Site) -> SqlitePool {
    SqlitePool::connect_with(SqliteConnectOptions::new().filename(&site.path)).await.unwrap()
}

async fn enqueue_in(
    store: &SqliteStore,
    tx: impl Into<Tx<'_>>,
    jobs: Vec<NewJob>,
) -> Result<Vec<Enqueued>, StoreError> {
    soon(store.enqueue_in(tx.into(), jobs, T0)).await
}

/// Every key that is held is held by one job, and the index says so.
fn holders(site: &Site) -> HashMap<String, i64> {
    let db = site.raw();
    let mut rows = db
        .prepare(
            "SELECT unique_key, count(*) FROM jobs
             WHERE (unique_holds >> state) & 1 OR (unique_until IS NOT NULL AND state < 4) GROUP BY unique_key, unique_scope",
        )
        .unwrap();
    rows.query_map([], |row| Ok((row.get(0)?, row.get(1)?))).unwrap().map(Result::unwrap).collect()
}

/// Case 084.
#[tokio::test]
async fn four_processes_with_the_same_batch_leave_one_row_per_key_and_know_which_is_theirs() {
    let site = Site::new().await;
    let mut children: Vec<_> =
        (0..4).map(|_| Child::start("unique", &[site.path.as_os_str(), "90".as_ref()])).collect();
    children.iter_mut().for_each(|child| drop(child.expect("ready")));
    children.iter_mut().for_each(|child| child.say("100"));
    let mut new = BTreeSet::new();
    let mut named: HashMap<usize, BTreeSet<String>> = HashMap::new();
    for child in &mut children {
        let answer = child.expect("enqueued");
        let answers: Vec<_> = answer.split_whitespace().collect();
        assert_eq!(answers.len(), 100);
        for (n, answer) in answers.into_iter().enumerate() {
            let (landed, id) = answer.split_once(':').unwrap();
            named.entry(n % 90).or_default().insert(id.to_owned());
            assert!(landed != "new" || new.insert(id.to_owned()), "{id} is new twice");
        }
    }
    assert_eq!(new.len(), 90, "each key was new once");
    assert!(named.values().all(|ids| ids.len() == 1), "all were told the same job of a key");
    let there = all(&site.store).await;
    assert_eq!(there.len(), 91, "and the bystander");
    assert!(holders(&site).values().all(|count| *count == 1));
    site.is_well().await;
}

/// Case 086.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fifty_enqueues_of_one_key_beside_a_worker_that_ends_it_always_have_an_answer() {
    let site = Site::new().await;
    let stores = [site.store.clone(), site.another().await];
    let worker = sign_in(&site.store).await;
    let mut tasks = tokio::task::JoinSet::new();
    for task in 0..50 {
        let store = stores[task % 2].clone();
        tasks.spawn(async move {
            let mut landed = Vec::new();
            for n in 0..20 {
                let rule =
                    [OnConflict::Keep, OnConflict::Reject, OnConflict::replace(&[JobField::Payload])][n % 3];
                let job = with("k", n, |unique| unique.on_conflict = rule);
                match soon(store.enqueue(vec![job], T0)).await {
                    Ok(answer) => landed.extend(answer),
                    Err(StoreError::Duplicate { place: 0, existing: Some(id), .. }) => {
                        landed.push(Enqueued { id, landed: Landed::Existing });
                    }
                    other => panic!("{other:?}"),
                }
            }
            landed
        });
    }
    let mut ended = 0;
    let mut landed = Vec::new();
    while !tasks.is_empty() {
        let taken = claim(&site.store, worker, &["a"], 10).await;
        assert!(taken.len() <= 1, "one at a time");
        for job in &taken {
            assert_eq!(
                soon(site.store.complete(vec![completion(job)], T0)).await.unwrap(),
                [Settled::Applied]
            );
        }
        ended += taken.len();
        while let Some(done) = tasks.try_join_next() {
            landed.extend(done.unwrap());
        }
        tokio::task::yield_now().await;
    }
    ended += claim(&site.store, worker, &["a"], 10).await.len();
    let there: BTreeSet<JobId> = all(&site.store).await.into_iter().map(|row| row.id).collect();
    let new: BTreeSet<JobId> = landed.iter().filter(|job| job.is_new()).map(|job| job.id).collect();
    assert_eq!((landed.len(), new.len()), (1000, ended), "each new one ran once");
    assert!(landed.iter().all(|job| there.contains(&job.id)), "each answer names a job that is there");
    site.is_well().await;
}

/// Case 080.
#[tokio::test]
async fn a_key_taken_in_a_transaction_is_free_once_that_is_rolled_back() {
    let site = Site::new().await;
    let pool = pool(&site).await;
    let mut tx = pool.begin().await.unwrap();
    let landed = enqueue_in(&site.store, &mut tx, vec![keyed("k", 1), keyed("k", 2)]).await.unwrap();
    assert_eq!((landed[0].is_new(), landed[1].id, landed[1].landed), (true, landed[0].id, Landed::Existing));
    assert_eq!(
        enqueue_in(&site.store, &mut tx, vec![keyed("k", 3)]).await.unwrap(),
        [Enqueued { landed: Landed::Existing, ..landed[0] }],
        "a later call of the same transaction sees it"
    );
    tx.rollback().await.unwrap();
    assert_eq!(site.store.get(landed[0].id).await.unwrap(), None);
    let next = soon(site.store.enqueue(vec![keyed("k", 4)], T0)).await.unwrap()[0];
    assert!(next.is_new());
    let mut tx = pool.begin().await.unwrap();
    let again = enqueue_in(&site.store, &mut tx, vec![keyed("k", 5)]).await.unwrap();
    assert_eq!(again, [Enqueued { landed: Landed::Existing, ..next }]);
    tx.commit().await.unwrap();
    assert_eq!(of_type(&site.store, "a").await.len(), 1);
    site.is_well().await;
}

#[tokio::test]
async fn what_was_replaced_in_a_transaction_is_as_before_once_that_is_rolled_back() {
    let site = Site::new().await;
    let pool = pool(&site).await;
    let id = soon(site.store.enqueue(vec![keyed("k", 1)], T0)).await.unwrap()[0].id;
    let before = site.store.get(id).await.unwrap();
    let second = || with("k", 2, |unique| unique.on_conflict = OnConflict::replace(&[JobField::Payload]));
    for commits in [false, true] {
        let mut tx = pool.begin().await.unwrap();
        let landed = enqueue_in(&site.store, &mut tx, vec![second()]).await.unwrap();
        assert_eq!(landed, [Enqueued { id, landed: Landed::Replaced }]);
        if commits {
            tx.commit().await.unwrap()
        } else {
            tx.rollback().await.unwrap()
        }
        let after = site.store.get(id).await.unwrap();
        assert_eq!(after == before, !commits);
    }
    site.is_well().await;
}

#[tokio::test]
async fn a_rejected_job_leaves_the_transaction_as_it_was_and_usable() {
    let site = Site::new().await;
    let pool = pool(&site).await;
    let there = soon(site.store.enqueue(vec![keyed("k", 1)], T0)).await.unwrap()[0].id;
    let rejects = |key, n| with(key, n, |unique| unique.on_conflict = OnConflict::Reject);
    let mut tx = pool.begin().await.unwrap();
    for (batch, expected) in [
        (vec![job("a", 2), rejects("k", 3)], Some(there)),
        (vec![job("a", 2), rejects("l", 3), rejects("l", 4)], None),
    ] {
        let place = batch.len() - 1;
        match enqueue_in(&site.store, &mut tx, batch).await {
            Err(StoreError::Duplicate { place: at, existing, .. }) => {
                assert_eq!((at, existing), (place, expected))
            }
            other => panic!("{other:?}"),
        }
    }
    let landed = enqueue_in(&site.store, &mut tx, vec![rejects("l", 5)]).await.unwrap();
    tx.commit().await.unwrap();
    let there: Vec<_> = of_type(&site.store, "a").await.iter().map(|row| row.id).collect();
    assert_eq!((there.len(), there[0]), (2, landed[0].id));
    site.is_well().await;
}

/// A job of a few keys, every rule among them.
fn drawn(random: &mut fastrand::Rng, n: usize) -> NewJob {
    use JobField::{Backoff, Label, MaxAttempts, Payload, Priority, Queue, Retain, RunAt, Timeout};
    let fields = [Payload, RunAt, Priority, Queue, MaxAttempts, Label, Timeout, Backoff, Retain];
    let some: Vec<_> = fields.into_iter().filter(|_| random.bool()).collect();
    let job_type = if random.bool() { "a" } else { "b" };
    let unique = UniqueKey {
        key: random.u8(0..4).to_string(),
        scope: if random.bool() { String::new() } else { job_type.into() },
        states: Until::Started.states().and(StateSet::from_code(random.i64(0..64))),
        within: random.bool().then(|| Duration::from_millis(random.u64(1..20))),
        on_conflict: match random.u8(0..10) {
            0..4 => OnConflict::Keep,
            4..7 => OnConflict::replace(&some),
            7..9 => OnConflict::Replace(Fields::ALL),
            _ => OnConflict::Reject,
        },
    };
    NewJob {
        unique: (random.u8(0..5) > 0).then(|| Box::new(unique)),
        queue: if random.bool() { "default".into() } else { "slow".into() },
        priority: random.i16(-2..3),
        run_at: random.bool().then(|| T0 + random.i64(-5..30)),
        max_attempts: random.u32(1..4),
        label: random.bool().then(|| format!("label {n}")),
        timeout: random.bool().then_some(jobq::Timeout::Never),
        retain: random.bool().then_some(DAY),
        ..job(job_type, n)
    }
}

/// The place of each job in the order of the rows.
type Places = HashMap<JobId, usize>;

async fn places(site: &Site) -> Places {
    all(&site.store).await.iter().rev().enumerate().map(|(place, job)| (job.id, place)).collect()
}

/// Two stores are told the same, one of them in transactions of a caller: the answers and the rows are the same.
#[tokio::test]
async fn keys_in_a_transaction_follow_the_same_rules() {
    let seed = std::env::var("JOBQ_SEED").map_or_else(|_| fastrand::u64(..), |seed| seed.parse().unwrap());
    eprintln!("JOBQ_SEED={seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    let (plain, other) = (Site::new().await, Site::new().await);
    let pool = pool(&other).await;
    let workers = [sign_in(&plain.store).await, sign_in(&other.store).await];
    let mut jobs = 0;
    for step in 0..150 {
        let now = T0 + step;
        let batch: Vec<_> = (0..random.usize(1..6)).map(|n| drawn(&mut random, jobs + n)).collect();
        jobs += batch.len();
        let one = soon(plain.store.enqueue(batch.clone(), now)).await;
        let mut tx = pool.begin().await.unwrap();
        let two = soon(other.store.enqueue_in((&mut tx).into(), batch.clone(), now)).await;
        tx.commit().await.unwrap();
        let told = |answer: &Result<Vec<Enqueued>, StoreError>, places: &Places| match answer {
            Ok(all) => Ok(all.iter().map(|job| (places[&job.id], job.landed)).collect::<Vec<_>>()),
            Err(StoreError::Duplicate { place, key, existing }) => {
                Err((*place, key.clone(), existing.map(|id| places[&id])))
            }
            Err(error) => panic!("{error}"),
        };
        let (ours, theirs) = (places(&plain).await, places(&other).await);
        assert_eq!(told(&one, &ours), told(&two, &theirs), "step {step}: {batch:?}");
        for (site, worker) in [&plain, &other].into_iter().zip(workers) {
            soon(site.store.promote(100, now)).await.unwrap();
            let taken = claim(&site.store, worker, &["a", "b"], 2).await;
            let ended = taken.iter().map(|job| failure(job, [Next::Dead, Next::AsBefore][step as usize % 2]));
            match step % 3 {
                0 => drop(soon(site.store.fail(ended.collect(), now)).await.unwrap()),
                1 => drop(
                    soon(site.store.complete(taken.iter().map(completion).collect(), now)).await.unwrap(),
                ),
                _ => {}
            }
        }
        let rows = |rows: Vec<JobRow>, id| -> Vec<_> {
            rows.into_iter().map(|job| JobRow { id, heartbeat_at: None, worker: None, ..job }).collect()
        };
        let id = plain.bystander.id;
        assert_eq!(
            rows(all(&plain.store).await, id),
            rows(all(&other.store).await, id),
            "step {step}: {batch:?}"
        );
    }
    assert!(holders(&other).values().all(|count| *count == 1));
    plain.is_well().await;
    other.is_well().await;
}

/// Case 081: two rows of one key, brought about by hand, harm nobody else.
#[tokio::test]
async fn rows_that_were_given_one_key_by_hand_harm_no_batch() {
    let site = Site::new().await;
    let store = &site.store;
    let worker = sign_in(store).await;
    let later = |n| NewJob { run_at: Some(T0 + 1), ..keyed(&format!("{n}"), n) };
    soon(store.enqueue((0..6).map(later).collect(), T0)).await.unwrap();
    // The one holds it while it waits, the other would from its claim on.
    let db = site.raw();
    db.execute_batch("UPDATE jobs SET unique_holds = 4 WHERE unique_key = '1'; UPDATE jobs SET unique_key = '0' WHERE unique_key = '1'")
        .unwrap();
    assert_eq!(soon(store.promote(10, T0 + 1)).await.unwrap(), 6, "all are promoted");
    let taken = claim(store, worker, &["a"], 10).await;
    assert_eq!(taken.len(), 5, "one is left out: its claim would give it a key that another holds");
    let again = taken.iter().map(|job| failure(job, Next::AsBefore)).collect();
    assert_eq!(soon(store.fail(again, T0 + 1)).await.unwrap(), [Settled::Applied; 5]);
    assert_eq!(claim(store, worker, &["a"], 10).await.len(), 5);
    assert!(holders(&site).values().all(|count| *count == 1));
    site.is_well().await;
}

/// A second job of a key costs a look and an answer, and writes no row; a first one is one statement.
#[tokio::test]
async fn the_first_of_a_key_is_one_row_and_the_second_none() {
    let site = Site::new().await;
    let batch = |from: usize| (from..from + 100).map(|n| keyed(&n.to_string(), n)).collect::<Vec<_>>();
    let first = soon(site.store.enqueue(batch(0), T0)).await.unwrap();
    assert!(first.iter().all(Enqueued::is_new) && first.is_sorted_by_key(|job| job.id));
    let half = soon(site.store.enqueue(batch(50), T0)).await.unwrap();
    assert_eq!(half.iter().filter(|job| job.is_new()).count(), 50);
    assert_eq!(
        half[..50].iter().map(|job| job.id).collect::<Vec<_>>(),
        first[50..].iter().map(|job| job.id).collect::<Vec<_>>()
    );
    let rows: Vec<i64> = column(&site.raw(), "SELECT count(*) FROM jobs");
    assert_eq!(rows, [151]);
    site.is_well().await;
}
