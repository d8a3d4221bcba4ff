//! EventBus: subscribers in this process, told after the commit of what follows.

use super::{Emit, Event, unlinked};
use crate::{
    queue::{JobQueue, QueueError},
    store::Subscribed,
};
use std::{
    any::{Any, TypeId},
    collections::HashMap,
    fmt,
    sync::{Arc, PoisonError, RwLock},
};
use tokio::sync::broadcast::{self, Sender, error::RecvError};

/// A subscriber may be this many events behind; then it misses the oldest.
pub const MAX_BEHIND: usize = 1024;

/// The event bus of a queue. Cloning it is cheap and gives the same bus; so does [`JobQueue::bus`].
///
/// It has two kinds of listeners. Jobs, by `#[job(on = …)]`, are stored with the emit's commit and lose nothing.
/// [Subscribers](Self::subscribe) are for what needs no storing, such as a cache of this process or a page that shows what
/// goes on: they hear what this process emits through this queue, from their subscription on, and only what was stored.
#[derive(Clone)]
pub struct EventBus(JobQueue);

/// The senders to the subscribers, by the event's type: each a `Sender<Arc<E>>`.
#[derive(Default)]
struct Senders(RwLock<HashMap<TypeId, Box<dyn Any + Send + Sync>>>);

impl EventBus {
    pub(super) fn of(queue: &JobQueue) -> Self {
        Self(queue.clone())
    }

    pub(super) fn queue(&self) -> &JobQueue {
        &self.0
    }

    /// Starts to emit an event: [`JobQueue::emit`].
    pub fn emit<E: Event>(&self, event: E) -> Emit<'static, E> {
        self.0.emit(event)
    }

    /// Hears each `E` that this process emits through this queue, from now on.
    ///
    /// It hears of an event once the commit of the jobs that follow has been acknowledged; of one that was emitted
    /// [in a transaction](Emit::in_tx) only where the emitter [announces](super::EmittedInTx::announce) it after the commit.
    /// Each subscriber hears every event, in the order in which the commits were acknowledged. One that falls
    /// [1,024 events](MAX_BEHIND) behind loses the oldest and is told how many: what must not be lost is a job.
    pub fn subscribe<E: Event>(&self) -> Subscriber<E> {
        let senders = self.0.attached::<Senders>();
        let mut senders = senders.0.write().unwrap_or_else(PoisonError::into_inner);
        let sender = senders
            .entry(TypeId::of::<E>())
            .or_insert_with(|| Box::new(broadcast::channel::<Arc<E>>(MAX_BEHIND).0));
        let sender = sender.downcast_ref::<Sender<Arc<E>>>();
        Subscriber(sender.map_or_else(|| broadcast::channel(1).1, Sender::subscribe))
    }

    /// Tells the subscribers.
    pub(super) fn tell<E: Event>(&self, event: &Arc<E>) {
        let senders = self.0.attached::<Senders>();
        let senders = senders.0.read().unwrap_or_else(PoisonError::into_inner);
        let sender =
            senders.get(&TypeId::of::<E>()).and_then(|sender| sender.downcast_ref::<Sender<Arc<E>>>());
        if let Some(sender) = sender {
            // Nobody listens any more: as well.
            sender.send(event.clone()).ok();
        }
    }

    /// Reads which jobs of other programs follow from `E` and are not linked into this one: an `E` that is emitted here
    /// does not enqueue them. Programs say so when they [open](JobQueue::open) the queue; what one of them has not said
    /// again for 90 days is left out.
    ///
    /// # Errors
    /// [`QueueError::Store`].
    pub async fn unlinked<E: Event>(&self) -> Result<Vec<Subscribed>, QueueError> {
        Ok(unlinked::read::<E>(&self.0).await?)
    }
}

impl fmt::Debug for EventBus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("EventBus").field(&self.0).finish()
    }
}

/// Hears events in this process: [`EventBus::subscribe`]. Dropping it ends the subscription.
pub struct Subscriber<E>(broadcast::Receiver<Arc<E>>);

impl<E> Subscriber<E> {
    /// The next event; [`Missed`] where this subscriber was too slow for some; `None` once the queue is gone.
    ///
    /// # Cancel safety
    /// Dropping the future loses no event.
    pub async fn recv(&mut self) -> Option<Result<Arc<E>, Missed>> {
        match self.0.recv().await {
            Ok(event) => Some(Ok(event)),
            Err(RecvError::Lagged(events)) => Some(Err(Missed(events))),
            Err(RecvError::Closed) => None,
        }
    }
}

impl<E: Event> fmt::Debug for Subscriber<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Subscriber({})", E::NAME)
    }
}

/// A subscriber was too slow, and this many events were lost to it; the next one is the oldest that is still there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0} events were missed: this subscriber was more than {MAX_BEHIND} behind")]
pub struct Missed(pub u64);
