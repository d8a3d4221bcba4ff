//! Events of every shape, and jobs that follow from several.
#![deny(missing_docs, warnings, clippy::all)]

use jobq::prelude::*;

/// A unit.
#[derive(Event)]
pub struct Started;

/// With fields that are neither `Clone` nor stored.
#[derive(Event)]
#[event(name = "shop:paid")]
pub struct Paid {
    /// Who.
    pub user: u64,
    /// What may not be cloned.
    pub lock: std::sync::Mutex<u64>,
}

/// An enum.
#[derive(Event)]
#[event(name = "shop:r#changed", crate = jobq)]
pub enum Changed {
    /// In.
    In(u64),
    /// Out.
    Out,
}

mod events {
    /// Named by its path.
    #[derive(jobq::Event)]
    #[allow(dead_code)]
    pub struct r#Moved(pub u64);
}

impl From<&Paid> for Ship {
    fn from(paid: &Paid) -> Self {
        Self { user: paid.user }
    }
}

impl From<&events::Moved> for Ship {
    fn from(moved: &events::Moved) -> Self {
        Self { user: moved.0 }
    }
}

/// Ships.
#[job(on = Paid, on = events::Moved, on(Changed, with = who), on(Changed, with = nobody,), on(self::Started, with = both))]
pub async fn ship(user: u64) {
    let _ = user;
}

fn who(changed: &Changed) -> Option<Ship> {
    match changed {
        Changed::In(user) => Some(Ship { user: *user }),
        Changed::Out => None,
    }
}

fn nobody(_: &Changed) -> [Ship; 0] {
    []
}

fn both(_: &Started) -> impl Iterator<Item = Ship> + use<> {
    (1..=2).map(|user| Ship { user })
}

fn main() {
    let linked = jobq::Registry::linked().unwrap();
    let events: Vec<_> = linked.subscriptions().map(|(_, on)| on.event).collect();
    assert_eq!(events, ["shop:paid", "Moved", "shop:r#changed", "shop:r#changed", "Started"]);
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let store = std::sync::Arc::new(jobq::MemoryStore::new());
    let queue = JobQueue::with_store(store, std::sync::Arc::new(jobq::SystemClock));
    runtime.block_on(async {
        let emitted = queue.emit(Paid { user: 7, lock: 0.into() }).await.unwrap();
        assert_eq!(emitted.of::<Ship>().count(), 1);
        assert_eq!(queue.emit(Started).await.unwrap().jobs().len(), 2);
    });
}
