//! Files that are renamed, replaced or deleted under the running program: never a false OK, and an end within 5 s.

use super::*;
use std::fs;

type Deed = (&'static str, fn(&Site));

fn beside(site: &Site, suffix: &str) -> PathBuf {
    let mut path = site.path.clone().into_os_string();
    path.push(suffix);
    path.into()
}

const DEEDS: &[Deed] = &[
    ("renamed away", |site| fs::rename(&site.path, beside(site, ".old")).unwrap()),
    ("deleted", |site| fs::remove_file(&site.path).unwrap()),
    ("replaced by an older copy", |site| fs::rename(beside(site, ".copy"), &site.path).unwrap()),
    ("its -wal deleted", |site| fs::remove_file(beside(site, "-wal")).unwrap()),
    ("its -shm deleted", |site| fs::remove_file(beside(site, "-shm")).unwrap()),
    ("all three moved away", |site| {
        for suffix in ["", "-wal", "-shm"] {
            fs::rename(beside(site, suffix), beside(site, &format!("{suffix}.old"))).unwrap();
        }
    }),
];

#[tokio::test]
async fn an_enqueue_after_the_file_has_moved_is_never_acknowledged() {
    for (what, deed) in DEEDS {
        let site = Site::new().await;
        site.raw().execute("VACUUM INTO ?1", [beside(&site, ".copy").to_str().unwrap()]).unwrap();
        soon(site.store.enqueue(jobs("a", 1), T0)).await.unwrap();
        let bystander = Site::new().await;
        deed(&site);
        let refusal = soon(site.store.enqueue(jobs("a", 1), T0)).await.unwrap_err();
        assert!(matches!(refusal, StoreError::Moved { .. }), "{what}: {refusal:?}");
        let text = refusal.to_string();
        assert!(text.contains(&*site.path.to_string_lossy()), "{what}: {text}");
        for _ in 0..3 {
            let again = soon(site.store.enqueue(jobs("a", 1), T0)).await.unwrap_err();
            assert!(matches!(again, StoreError::Moved { .. }), "{what}, again: {again:?}");
        }
        let worker = sign_in(&bystander.store).await;
        soon(bystander.store.enqueue(jobs("a", 1), T0)).await.unwrap();
        assert_eq!(claim(&bystander.store, worker, &["a"], 5).await.len(), 1, "{what}");
        bystander.is_well().await;
    }
}

#[tokio::test]
async fn a_standing_claim_ends_within_five_seconds_of_the_move() {
    for (what, deed) in DEEDS {
        let site = Site::new().await;
        site.raw().execute("VACUUM INTO ?1", [beside(&site, ".copy").to_str().unwrap()]).unwrap();
        let bystander = Site::new().await;
        let worker = sign_in(&site.store).await;
        let wish = unanswered(wish(&site.store, standing(worker, &["a"], 1))).await;
        // It has been tried once, and waits.
        soon(site.store.enqueue(jobs("b", 1), T0)).await.unwrap();
        deed(&site);
        let end = tokio::time::timeout(Duration::from_secs(5), wish).await;
        let refusal = end.unwrap_or_else(|_| panic!("{what}: not within 5 s")).unwrap().unwrap_err();
        assert!(matches!(refusal, StoreError::Moved { .. }), "{what}: {refusal:?}");
        let later = soon(site.store.claim(standing(worker, &["a"], 1), T0)).await.unwrap_err();
        assert!(matches!(later, StoreError::Moved { .. }), "{what}: {later:?}");
        bystander.is_well().await;
    }
}

/// The application's own transaction is not ours to refuse, but no job of ours is acknowledged in it.
#[tokio::test]
async fn an_enqueue_in_a_transaction_on_a_moved_file_is_refused() {
    use sqlx::{Connection, SqliteConnection, sqlite::SqliteConnectOptions};
    for (what, deed) in DEEDS {
        let site = Site::new().await;
        site.raw().execute("VACUUM INTO ?1", [beside(&site, ".copy").to_str().unwrap()]).unwrap();
        let options = SqliteConnectOptions::new().filename(&site.path);
        let mut app = SqliteConnection::connect_with(&options).await.unwrap();
        let mut tx = app.begin().await.unwrap();
        soon(site.store.enqueue_in((&mut tx).into(), jobs("a", 1), T0)).await.unwrap();
        tx.rollback().await.unwrap();
        deed(&site);
        let mut tx = app.begin().await.unwrap();
        let refusal = soon(site.store.enqueue_in((&mut tx).into(), jobs("a", 1), T0)).await.unwrap_err();
        assert!(matches!(refusal, StoreError::Moved { .. }), "{what}: {refusal:?}");
    }
}

/// Another program opens, copies and closes the database again and again: neither side is harmed.
#[tokio::test]
async fn visits_of_another_program_harm_nobody() {
    use crate::child::Child;
    let site = Site::new().await;
    let worker = sign_in(&site.store).await;
    let mut visitor = Child::start("visit", &[site.path.to_str().unwrap(), "50"]);
    let mut done = 0;
    let visited = loop {
        soon(site.store.enqueue(jobs("a", 5), T0)).await.unwrap();
        let got = claim(&site.store, worker, &["a"], 5).await;
        let settled = soon(site.store.complete(got.iter().map(completion).collect(), T0)).await.unwrap();
        done += settled.iter().filter(|answer| **answer == Settled::Applied).count();
        if visitor.has_ended() {
            break visitor.expect("visited");
        }
    };
    println!("{done} jobs beside {visited} visits");
    assert_eq!(visited, "50");
    let counts = site.store.counts().await.unwrap();
    let of_a: Vec<_> = counts.iter().filter(|count| count.job_type == "a").collect();
    assert_eq!((of_a.len(), of_a[0].state, of_a[0].count as usize), (1, JobState::Completed, done));
    site.is_well().await;
}

/// What was acknowledged before a rename is in the renamed file.
#[tokio::test]
async fn what_was_acknowledged_before_a_rename_is_in_the_renamed_file() {
    let site = Site::new().await;
    let ids = soon(site.store.enqueue(jobs("a", 5), T0)).await.unwrap().ids();
    let place = site.dir.path().join("elsewhere");
    fs::create_dir(&place).unwrap();
    for suffix in ["", "-wal", "-shm"] {
        fs::rename(beside(&site, suffix), place.join(format!("app.db{suffix}"))).unwrap();
    }
    soon(site.store.enqueue(jobs("a", 1), T0)).await.unwrap_err();
    let found = SqliteStore::open(SqliteOptions::new(place.join("app.db")).create(false)).await.unwrap();
    let stored: Vec<JobId> = of_type(&found, "a").await.into_iter().rev().map(|row| row.id).collect();
    assert_eq!(stored, ids);
}
