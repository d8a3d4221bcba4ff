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
    let bystander = soon(store.enqueue(jobs("bystander", 1), T0)).await.unwrap()[0];
    let untouched = store.get(bystander).await.unwrap();
    let worker = sign_in(&store).await;
    let mut acknowledged = soon(store.enqueue(jobs("a", 50), T0)).await.unwrap();
    let taken = claim(&store, worker, &["a"], 50).await;

    // Something else fills the disk; what is left is used up by enqueues.
    let ballast = disk.0.path().join("ballast");
    let filled = std::fs::write(&ballast, vec![7u8; 16 << 20]);
    assert_eq!(filled.unwrap_err().kind(), std::io::ErrorKind::StorageFull);
    let big = || NewJob::new("b", format!("\"{}\"", "x".repeat(60_000)));
    let refusal = loop {
        match soon(store.enqueue(vec![big()], T0)).await {
            Ok(ids) => acknowledged.extend(ids),
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
    acknowledged.extend(soon(store.enqueue(vec![big()], T0)).await.unwrap());
    for id in &acknowledged {
        assert!(store.get(*id).await.unwrap().is_some(), "{id} was acknowledged");
    }
    assert_eq!(all(&store).await.len(), acknowledged.len() + 1);
    assert_eq!(store.get(bystander).await.unwrap(), untouched);
    let sound: Vec<String> = column(&rusqlite::Connection::open(&path).unwrap(), "PRAGMA integrity_check");
    assert_eq!(sound, ["ok"]);
}
