//! What every store does, each law a fact, tried on each store of one list with bystanders that must stay as they were.

mod brought;
mod cancels;
mod claim;
mod edges;
mod fence;
mod flows;
mod ground;
mod history;
mod limits;
mod list;
mod notes;
mod outcomes;
mod pausing;
mod payloads;
mod people;
mod schedules;
mod standing;
mod steps;
mod subscriptions;
mod text;
mod unique;
mod workers;

/// The laws of one room, tried on every store. A law that is left out of the list is dead code, and so an error.
macro_rules! on_every_store {
    ($($law:ident),* $(,)?) => {
        on_every_store!(memory: $($law),*);
        on_every_store!(sqlite: $($law),*);
    };
    // One line above for each store; its name is that of the function in `ground` that opens it.
    ($store:ident: $($law:ident),*) => {
        mod $store {
            $(#[test]
            fn $law() {
                crate::laws::ground::try_law(crate::laws::ground::$store, |ground| Box::pin(super::$law(ground)));
            })*
        }
    };
}
use on_every_store;

pub(crate) use ground::foreign;

use jobq::{
    job::NewJob,
    store::{Completion, Life, NewWorker, Store, StoreError, Ties, memory::MemoryStore},
};

/// The one thing that a store need not have.
#[tokio::test]
async fn the_store_in_memory_has_no_transactions_and_says_so() {
    use sqlx::Connection;
    let store = MemoryStore::new();
    let mut connection = sqlx::SqliteConnection::connect("sqlite::memory:").await.unwrap();
    let answer = store.enqueue_in((&mut connection).into(), vec![NewJob::new("a", "1")], ground::NOW).await;
    assert!(matches!(answer, Err(StoreError::NoTransactions)), "{answer:?}");
    let id = "00000000-0000-7000-8000-000000000000".parse().unwrap();
    let ended = Completion { id, lease: 1, result: None, ties: Ties::NONE };
    let answer = store.complete_in((&mut connection).into(), ended).await;
    assert!(matches!(answer, Err(StoreError::NoTransactions)), "{answer:?}");
    assert_eq!(store.promised(id, 1).await.unwrap(), None);
    assert_eq!(store.counts().await.unwrap(), []);
}

#[tokio::test]
async fn the_store_in_memory_lets_tests_say_who_lives() {
    let store = MemoryStore::new();
    let mut workers = Vec::new();
    for _ in 0..2 {
        let worker = NewWorker { beat: std::time::Duration::from_secs(1), queues: String::new() };
        workers.push(store.register(worker, ground::NOW).await.unwrap());
    }
    store.kill(workers[0]);
    store.beat(workers[1], ground::NOW + 5);
    let rows = store.clone().workers().await.unwrap();
    assert_eq!((rows[0].life, rows[0].beats, rows[0].heartbeat_at), (Life::Gone, 0, ground::NOW));
    assert_eq!((rows[1].life, rows[1].beats, rows[1].heartbeat_at), (Life::Alive, 1, ground::NOW + 5));
    store.set_life(workers[0], Life::Unknown);
    assert_eq!(store.workers().await.unwrap()[0].life, Life::Unknown);
}
