//! A program that forks with an open queue.

use super::*;
use crate::child::Child;
use jobq::store::Life;

async fn life(store: &SqliteStore, worker: &str) -> Life {
    let workers = soon(store.workers()).await.unwrap();
    workers.into_iter().find(|row| row.id.0.to_string() == worker).unwrap().life
}

/// The forked child is refused, may open anew, does not take over its parent's locks, and sees when they are gone.
#[tokio::test]
async fn a_forked_child_is_refused_and_the_parents_locks_survive() {
    let site = Site::new().await;
    let mut child = Child::start("fork", &[&site.path]);
    let worker = child.expect("worker");
    assert_eq!(child.expect("forked child:"), "refused, opened anew, sees its parent alive");
    assert_eq!(child.expect("parent drained"), "1000");
    assert_eq!(life(&site.store, &worker).await, Life::Alive);
    child.signal(nix::sys::signal::Signal::SIGKILL);
    assert_eq!(child.expect("forked child sees its parent"), "Gone");
    assert_eq!(life(&site.store, &worker).await, Life::Gone);
    assert_eq!(of_type(&site.store, "by the child").await.len(), 1);
    site.is_well().await;
}
