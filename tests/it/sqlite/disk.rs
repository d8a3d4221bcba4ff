//! A full disk: told by name, kept by the caller, and over when there is room again.

use super::*;
use nix::mount::{MsFlags, mount, umount};

/// 8 MB of a disk of its own; `None` where this user may not mount one.
struct SmallDisk(TempDir);

impl SmallDisk {
    fn mounted() -> Option<Self> {
        let dir = tempfile::tempdir().unwrap();
        let size = Some("size=8m");
        match mount(Some("tmpfs"), dir.path(), Some("tmpfs"), MsFlags::empty(), size) {
            Ok(()) => Some(Self(dir)),
            Err(error) => {
                eprintln!("NOT RUN: no small disk can be mounted here ({error}); needs root");
                None
            }
        }
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        umount(self.0.path()).ok();
    }
}

#[tokio::test]
async fn a_full_disk_is_named_and_work_goes_on_when_there_is_room() {
    let Some(disk) = SmallDisk::mounted() else { return };
    let path = disk.0.path().join("app.db");
    let store = SqliteStore::open(SqliteOptions::new(&path)).await.unwrap();
    let bystander = soon(store.enqueue(jobs("bystander", 1), T0)).await.unwrap()[0].id;
    let untouched = store.get(bystander).await.unwrap();
    let worker = sign_in(&store).await;
    let mut acknowledged = soon(store.enqueue(jobs("a", 50), T0)).await.unwrap().ids();
    let taken = claim(&store, worker, &["a"], 50).await;

    // Something else fills the disk; what is left is used up by enqueues.
    let ballast = disk.0.path().join("ballast");
    let filled = std::fs::write(&ballast, vec![7u8; 16 << 20]);
    assert_eq!(filled.unwrap_err().kind(), std::io::ErrorKind::StorageFull);
    let big = || NewJob::new("b", format!("\"{}\"", "x".repeat(60_000)));
    let refusal = loop {
        match soon(store.enqueue(vec![big()], T0)).await {
            Ok(some) => acknowledged.extend(some.ids()),
            Err(refusal) => break refusal,
        }
    };
    assert!(refusal.to_string().contains("disk is full"), "{refusal}");
    assert!(refusal.is_transient());
    // A result is refused in the same words, and its caller has it still.
    let big_result = |job: &Claimed| Completion { result: Some("y".repeat(60_000)), ..completion(job) };
    let refused = soon(store.complete(taken.iter().map(big_result).collect(), T0)).await.unwrap_err();
    assert!(refused.to_string().contains("disk is full"), "{refused}");
    // Readers go on, and nothing half-written shows.
    for job in &taken {
        assert_eq!(state(&store, job.id).await, Some(JobState::Running));
    }

    std::fs::remove_file(&ballast).unwrap();
    let settled = soon(store.complete(taken.iter().map(big_result).collect(), T0)).await.unwrap();
    assert!(settled.iter().all(|answer| *answer == Settled::Applied));
    acknowledged.extend(soon(store.enqueue(vec![big()], T0)).await.unwrap().ids());
    for id in &acknowledged {
        assert!(store.get(*id).await.unwrap().is_some(), "{id} was acknowledged");
    }
    assert_eq!(all(&store).await.len(), acknowledged.len() + 1);
    assert_eq!(store.get(bystander).await.unwrap(), untouched);
    let sound: Vec<String> = column(&rusqlite::Connection::open(&path).unwrap(), "PRAGMA integrity_check");
    assert_eq!(sound, ["ok"]);
}

/// Case 017, with a worker: its results meet the full disk and wait; when there is room it goes on without a restart.
#[tokio::test]
async fn a_worker_on_a_full_disk_keeps_its_results_and_goes_on_when_there_is_room() {
    let Some(disk) = SmallDisk::mounted() else { return };
    let path = disk.0.path().join("app.db");
    let store = Arc::new(SqliteStore::open(SqliteOptions::new(&path)).await.unwrap());
    let bystander = soon(store.enqueue(jobs("bystander", 1), T0)).await.unwrap()[0].id;
    let untouched = store.get(bystander).await.unwrap();
    let queue = jobq::JobQueue::with_store(store.clone(), Arc::new(jobq::SystemClock));
    let gate = Gate::default();
    let worker = jobq::Worker::new(&queue).data(gate.clone()).jobs((fills,)).concurrency(4);
    let worker = worker.start().await.unwrap();
    queue.enqueue_all((0..8).map(|_| Fills {})).await.unwrap();
    soon(async {
        while worker.stats().running < 4 {
            tokio::task::yield_now().await
        }
    })
    .await;

    let ballast = disk.0.path().join("ballast");
    std::fs::write(&ballast, vec![7u8; 16 << 20]).unwrap_err();
    let big = || NewJob::new("b", format!("\"{}\"", "x".repeat(60_000)));
    while soon(store.enqueue(vec![big()], T0)).await.is_ok() {}
    gate.open.add_permits(4);
    soon(async {
        while worker.stats().unsettled < 4 {
            tokio::task::yield_now().await
        }
    })
    .await;
    let refused = soon(store.enqueue(vec![big()], T0)).await.unwrap_err();
    assert!(refused.to_string().contains("disk is full"), "{refused}");
    assert_eq!((worker.stats().completed, worker.stats().unsettled), (0, 4));

    std::fs::remove_file(&ballast).unwrap();
    gate.open.add_permits(4);
    soon(async {
        while worker.stats().completed < 8 {
            tokio::task::yield_now().await
        }
    })
    .await;
    assert_eq!(gate.started.load(std::sync::atomic::Ordering::SeqCst), 8, "no handler ran again");
    for row in of_type(&store, "fills").await {
        assert_eq!((row.state, row.attempts), (JobState::Completed, 1));
    }
    assert_eq!(store.get(bystander).await.unwrap(), untouched);
    worker.stop().await.unwrap();
    let sound: Vec<String> = column(&rusqlite::Connection::open(&path).unwrap(), "PRAGMA integrity_check");
    assert_eq!(sound, ["ok"]);
}

#[derive(Clone)]
struct Gate {
    open: Arc<tokio::sync::Semaphore>,
    started: Arc<std::sync::atomic::AtomicUsize>,
}

impl Default for Gate {
    fn default() -> Self {
        Self { open: Arc::new(tokio::sync::Semaphore::new(0)), started: Arc::default() }
    }
}

/// Has a large result when its gate lets it.
#[jobq::job]
async fn fills(#[data] gate: &Gate) -> Result<String, jobq::JobError> {
    gate.started.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
    gate.open.acquire().await?.forget();
    Ok("y".repeat(60_000))
}
