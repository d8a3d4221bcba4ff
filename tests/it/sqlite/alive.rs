//! Who is alive: a byte that the kernel frees with its process, and who must not believe it.

use super::*;
use crate::child::Child;
use jobq::store::Life;

async fn life(store: &SqliteStore, worker: WorkerId) -> Option<Life> {
    let workers = soon(store.workers()).await.unwrap();
    workers.into_iter().find(|row| row.id == worker).map(|row| row.life)
}

/// The side-car's locks as the kernel lists them: the bytes that this process holds. The table changes while it is read,
/// so that a reading may leave a lock out or show it twice: three of them are taken together.
fn bytes_held(site: &Site) -> Vec<u64> {
    use std::os::unix::fs::MetadataExt;
    let inode = std::fs::metadata(site.path.with_file_name("app.db-jobq")).unwrap().ino();
    let read = || std::fs::read_to_string("/proc/locks").unwrap();
    let table = read() + &read() + &read();
    let mut bytes: Vec<u64> = table
        .lines()
        .filter_map(|line| {
            let words: Vec<&str> = line.split_whitespace().collect();
            let [_, "POSIX", _, "WRITE", pid, file, first, last] = words[..] else { return None };
            let ours = pid == std::process::id().to_string() && file.ends_with(&format!(":{inode}"));
            ours.then(|| first.parse::<u64>().unwrap()..=last.parse().unwrap())
        })
        .flatten()
        .collect();
    bytes.sort_unstable();
    bytes.dedup();
    bytes
}

pub(super) async fn until(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    let began = std::time::Instant::now();
    while !holds().await {
        assert!(began.elapsed() < Duration::from_secs(10), "{what}: not within 10 s");
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn siblings_in_one_process_are_alive_until_they_sign_out() {
    let site = Site::new().await;
    let other = site.another().await;
    let (mine, sibling) = (sign_in(&site.store).await, sign_in(&other).await);
    assert_ne!(mine, sibling);
    for store in [&site.store, &other] {
        assert_eq!(life(store, mine).await, Some(Life::Alive));
        assert_eq!(life(store, sibling).await, Some(Life::Alive));
    }
    assert_eq!(bytes_held(&site), [mine.0 as u64, sibling.0 as u64]);
    let row = soon(site.store.workers()).await.unwrap().remove(0);
    assert_eq!((row.pid, row.beats, row.started_at), (std::process::id(), 0, T0));
    other.unregister(sibling);
    until("signed out", async || life(&site.store, sibling).await.is_none()).await;
    until("its byte is free", async || bytes_held(&site) == [mine.0 as u64]).await;
    assert_eq!(life(&other, mine).await, Some(Life::Alive));
    site.is_well().await;
}

#[tokio::test]
async fn a_killed_process_is_gone_at_once_and_its_jobs_are_found() {
    let site = Site::new().await;
    let ids = soon(site.store.enqueue(jobs("a", 3), T0)).await.unwrap().ids();
    let mut child = Child::start("hold", &[site.path.to_str().unwrap(), "a", "2"]);
    let worker = WorkerId(child.expect("worker").parse().unwrap());
    child.expect("claimed 2");
    assert_eq!(life(&site.store, worker).await, Some(Life::Alive));
    child.signal(nix::sys::signal::Signal::SIGSTOP);
    assert_eq!(
        life(&site.store, worker).await,
        Some(Life::Alive),
        "a stopped process holds its lock: never robbed"
    );
    child.kill();
    assert_eq!(life(&site.store, worker).await, Some(Life::Gone));
    let held = soon(site.store.running(vec![worker])).await.unwrap();
    assert_eq!(held.iter().map(|job| job.id).collect::<Vec<_>>(), ids[..2]);
    assert!(held.iter().all(|job| job.worker == worker && job.attempt == 1));
    site.is_well().await;
}

#[tokio::test]
async fn a_process_that_ends_well_has_signed_out() {
    let site = Site::new().await;
    let ids = soon(site.store.enqueue(jobs("a", 1), T0)).await.unwrap().ids();
    let mut child = Child::start("hold", &[site.path.to_str().unwrap(), "a", "1"]);
    let worker = WorkerId(child.expect("worker").parse().unwrap());
    child.expect("claimed 1");
    child.say("end");
    assert!(child.wait(Duration::from_secs(10)).success());
    // It left a job behind: until that is rescued, nobody forgets who held it.
    assert_eq!(life(&site.store, worker).await, Some(Life::Gone));
    let error = "worker lost".into();
    let rescue = jobq::store::Rescue {
        id: ids[0],
        lease: 1,
        error,
        next: Next::At(T0),
        ties: jobq::store::Ties::ALL,
        on_dead: None,
    };
    assert_eq!(soon(site.store.rescue(vec![rescue], T0)).await.unwrap(), [Settled::Applied]);
    assert_eq!(life(&site.store, worker).await, None);
    site.is_well().await;
}

/// Another boot, another side-car: the lock says nothing, and beats decide.
#[tokio::test]
async fn the_lock_is_believed_only_of_this_boot_and_this_side_car() {
    let site = Site::new().await;
    let worker = sign_in(&site.store).await;
    for (column, elsewhere) in
        [("boot", "'another'"), ("boot", "''"), ("lock_device", "-1"), ("lock_inode", "-1")]
    {
        let db = site.raw();
        let was: Vec<rusqlite::types::Value> =
            self::column(&db, &format!("SELECT {column} FROM jobq_workers"));
        db.execute(&format!("UPDATE jobq_workers SET {column} = {elsewhere}"), []).unwrap();
        assert_eq!(life(&site.store, worker).await, Some(Life::Unknown), "{column} = {elsewhere}");
        db.execute(&format!("UPDATE jobq_workers SET {column} = ?1"), [&was[0]]).unwrap();
        assert_eq!(life(&site.store, worker).await, Some(Life::Alive));
    }
    site.is_well().await;
}

/// Beats are made by the writing thread, whatever the caller's runtime does: this one stands still meanwhile.
#[tokio::test]
async fn beats_go_on_while_the_runtime_is_blocked() {
    let site = Site::new().await;
    let worker = NewWorker { beat: Duration::from_millis(5), queues: "default".into() };
    let worker = soon(site.store.register(worker, T0)).await.unwrap();
    let db = site.raw();
    let began = std::time::Instant::now();
    // No await from here on: a handler that blocks its thread.
    while column::<i64>(&db, "SELECT beats FROM jobq_workers")[0] < 5 {
        assert!(began.elapsed() < Duration::from_secs(10));
    }
    site.store.unregister(worker);
    until("signed out", async || life(&site.store, worker).await.is_none()).await;
    let ended = column::<i64>(&db, "SELECT beats FROM jobq_workers")[0];
    for n in 0..20 {
        soon(site.store.enqueue(vec![job("a", n)], T0)).await.unwrap();
    }
    assert_eq!(column::<i64>(&db, "SELECT beats FROM jobq_workers")[0], ended, "no beat after the end");
    site.is_well().await;
}

/// The beat waits for the lock as everybody does; its worker is alive meanwhile, and beats on after it.
#[tokio::test]
async fn beats_resume_after_a_held_lock_and_the_worker_is_alive_all_the_while() {
    let site = Site::new().await;
    let worker = NewWorker { beat: Duration::from_millis(5), queues: "default".into() };
    let worker = soon(site.store.register(worker, T0)).await.unwrap();
    let db = site.raw();
    let beats = || column::<i64>(&db, "SELECT beats FROM jobq_workers")[0];
    until("it beats", async || beats() > 0).await;
    db.execute_batch("BEGIN IMMEDIATE").unwrap();
    let held = beats();
    for _ in 0..20 {
        std::thread::sleep(Duration::from_millis(5));
        assert_eq!((beats(), life(&site.store, worker).await), (held, Some(Life::Alive)));
    }
    db.execute_batch("COMMIT").unwrap();
    until("it beats again", async || beats() > held).await;
    site.store.unregister(worker);
    until("signed out", async || life(&site.store, worker).await.is_none()).await;
    site.is_well().await;
}

/// A worker that was given up while its machine slept beats again, and is there again.
#[tokio::test]
async fn a_buried_worker_that_beats_is_there_again() {
    let site = Site::new().await;
    let worker = NewWorker { beat: Duration::from_millis(300), queues: "default".into() };
    let worker = soon(site.store.register(worker, T0)).await.unwrap();
    soon(site.store.bury(vec![worker], T0)).await.unwrap();
    until("back", async || life(&site.store, worker).await == Some(Life::Alive)).await;
    site.is_well().await;
}

/// Its byte was not to be had: what the kernel says of that byte is then said of somebody else, and only beats decide.
#[tokio::test]
async fn a_worker_whose_byte_was_not_to_be_had_is_never_taken_for_gone() {
    let site = Site::new().await;
    let bystander = sign_in(&site.store).await;
    let side_car = site.path.with_file_name("app.db-jobq");
    let mut child = Child::start("byte", &[side_car.to_str().unwrap(), &(bystander.0 + 1).to_string()]);
    child.expect("held");
    let worker = sign_in(&site.store).await;
    assert_eq!(worker.0, bystander.0 + 1);
    assert_eq!(life(&site.store, worker).await, Some(Life::Unknown));
    child.kill();
    assert_eq!(
        life(&site.store, worker).await,
        Some(Life::Unknown),
        "not gone, now that nobody holds the byte"
    );
    assert_eq!(life(&site.store, bystander).await, Some(Life::Alive));
    site.is_well().await;
}

/// The store is dropped without a word while the database is locked: its workers must not look alive for as long as
/// the process lives.
#[tokio::test]
async fn a_closed_store_frees_its_bytes_even_beside_a_held_lock() {
    let site = Site::new().await;
    let other = site.another().await;
    let (left, signed_out) = (sign_in(&other).await, sign_in(&other).await);
    let foreign = site.raw();
    foreign.execute_batch("BEGIN IMMEDIATE").unwrap();
    other.unregister(signed_out);
    drop(other);
    // The kernel's table may leave locks out: what it says is waited for together with what the store says.
    let is_gone = async |worker| matches!(life(&site.store, worker).await, None | Some(Life::Gone));
    until("free", async || bytes_held(&site).is_empty() && is_gone(left).await && is_gone(signed_out).await)
        .await;
    foreign.execute_batch("COMMIT").unwrap();
    for worker in [left, signed_out] {
        let life = life(&site.store, worker).await;
        assert!(matches!(life, None | Some(Life::Gone)), "{worker}: {life:?}");
    }
    site.is_well().await;
}

/// A registration that is rolled back must leave no byte locked: the number goes to somebody else.
/// The program's own clock is asked on the writing thread too. Should it panic there, the store is closed, and who signed
/// in through it does not look alive for as long as the process lives.
#[tokio::test]
async fn a_writing_thread_that_panics_frees_its_bytes() {
    struct Broken(std::sync::atomic::AtomicBool);
    impl jobq::Clock for Broken {
        fn now(&self) -> Millis {
            assert!(!self.0.load(std::sync::atomic::Ordering::Relaxed), "the clock is broken");
            T0
        }
        fn steady(&self) -> Duration {
            Duration::ZERO
        }
        fn sleep_until(&self, _: Duration) -> jobq::time::Sleep<'_> {
            Box::pin(std::future::pending())
        }
    }
    let clock = Arc::new(Broken(false.into()));
    let site = Site::with(|options| options.clock(clock.clone())).await;
    let other = site.another().await;
    let worker = sign_in(&site.store).await;
    assert_eq!(life(&other, worker).await, Some(Life::Alive));
    clock.0.store(true, std::sync::atomic::Ordering::Relaxed);
    let error = soon(site.store.enqueue(jobs("a", 1), T0)).await.unwrap_err();
    assert!(matches!(error, StoreError::Closed), "{error}");
    until("the worker is gone", async || life(&other, worker).await == Some(Life::Gone)).await;
    assert_eq!(bytes_held(&site), [0u64; 0]);
    site.is_well().await;
}

#[tokio::test]
async fn a_registration_that_fails_holds_no_byte() {
    let site = Site::new().await;
    site.raw()
        .execute_batch(
            "CREATE TRIGGER refuse AFTER INSERT ON jobq_workers BEGIN SELECT raise(ABORT, 'refused'); END;
             CREATE TRIGGER refuse_late BEFORE INSERT ON jobs WHEN new.priority = 13
                BEGIN SELECT raise(ABORT, 'refused late'); END",
        )
        .unwrap();
    let new = || NewWorker { beat: DAY, queues: "default".into() };
    soon(site.store.register(new(), T0)).await.unwrap_err();
    assert!(bytes_held(&site).is_empty());
    site.raw().execute_batch("DROP TRIGGER refuse").unwrap();
    // In one transaction with an act that fails after it: done again, once.
    let foreign = site.raw();
    foreign.execute_batch("BEGIN IMMEDIATE").unwrap();
    let refused = NewJob { priority: 13, ..job("a", 1) };
    let (registered, refused, ()) = soon(async {
        tokio::join!(site.store.register(new(), T0), site.store.enqueue(vec![refused], T0), async {
            foreign.execute_batch("COMMIT").unwrap()
        })
    })
    .await;
    refused.unwrap_err();
    let registered = registered.unwrap();
    assert_eq!(bytes_held(&site), [registered.0 as u64]);
    assert_eq!(life(&site.store, registered).await, Some(Life::Alive));
    site.is_well().await;
}
