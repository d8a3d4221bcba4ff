//! Forwarding: what an application's own tokio broadcast carries is emitted, many events in one commit.

use super::{Event, EventBus, Follower, following, unlinked};
use crate::{
    enqueue::{Options, store},
    job::NewJob,
    maintenance::trouble_wait,
    store::StoreError,
};
use std::{
    future::{Future, IntoFuture},
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};
use tokio::{
    sync::{
        broadcast::{
            Receiver,
            error::{RecvError, TryRecvError},
        },
        watch,
    },
    task::JoinHandle,
};

/// Events of one commit at most.
const BATCH: usize = 256;
/// A lag is logged at most this often, in sum.
const LAG_LOG: Duration = Duration::from_secs(10);

/// What a broadcast may carry: an event that can be cloned, or an event in an `Arc`.
pub trait Shared: Clone + Send + 'static {
    /// The event.
    type Event: Event;
    /// The event, shared.
    fn shared(self) -> Arc<Self::Event>;
}

impl<E: Event + Clone> Shared for E {
    type Event = E;
    fn shared(self) -> Arc<E> {
        Arc::new(self)
    }
}

impl<E: Event> Shared for Arc<E> {
    type Event = E;
    fn shared(self) -> Self {
        self
    }
}

impl EventBus {
    /// Emits what an application's own broadcast carries, until its senders are gone or the answer is told to
    /// [`stop`](Forwarding::stop). Subscribe before the senders begin: `bus.forward(sender.subscribe())`.
    ///
    /// Between the sender and the queue lies the broadcast, which drops the oldest events where a receiver is too slow,
    /// and dies with the process. This one reads up to 256 events for each commit, waits out trouble of the storage, and
    /// tells of every event that it lost: in the log, and in [`Forwarded::lost`]. Where you can call
    /// [`emit`](Self::emit) in place of `send`, nothing lies between, and nothing can be lost.
    ///
    /// # Panics
    /// Outside of a tokio runtime, as `tokio::spawn` does.
    pub fn forward<T: Shared>(&self, events: Receiver<T>) -> Forwarding {
        let tally = Arc::new(Tally::default());
        let (stop, stopped) = watch::channel(false);
        let line = Line { bus: self.clone(), tally: tally.clone(), stopped, unlogged: 0, logged: None };
        Forwarding { task: tokio::spawn(line.run(events)), tally, stop }
    }
}

/// A broadcast that is being emitted: [`EventBus::forward`]. It goes on when this is dropped; awaiting it waits until the
/// senders are gone.
#[derive(Debug)]
pub struct Forwarding {
    task: JoinHandle<()>,
    tally: Arc<Tally>,
    stop: watch::Sender<bool>,
}

/// What became of the events of a broadcast so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Forwarded {
    /// Events that were emitted.
    pub emitted: u64,
    /// Jobs that followed from them.
    pub jobs: u64,
    /// Events that the broadcast dropped before they could be read.
    pub lost: u64,
    /// Events from which nothing followed since a payload could not be made or stored; the log says why.
    pub failed: u64,
}

#[derive(Debug, Default)]
struct Tally {
    emitted: AtomicU64,
    jobs: AtomicU64,
    lost: AtomicU64,
    failed: AtomicU64,
}

impl Tally {
    fn read(&self) -> Forwarded {
        let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
        Forwarded {
            emitted: read(&self.emitted),
            jobs: read(&self.jobs),
            lost: read(&self.lost),
            failed: read(&self.failed),
        }
    }
}

impl Forwarding {
    /// What became of the events so far.
    pub fn so_far(&self) -> Forwarded {
        self.tally.read()
    }

    /// Reads no more of the broadcast; what was read is stored first, unless the storage fails.
    pub async fn stop(self) -> Forwarded {
        self.stop.send_replace(true);
        self.await
    }
}

impl IntoFuture for Forwarding {
    type Output = Forwarded;
    type IntoFuture = Pin<Box<dyn Future<Output = Forwarded> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move {
            let Self { task, tally, stop } = self;
            if let Err(error) = task.await {
                tracing::error!(%error, "the forwarding of a broadcast ended before its time");
            }
            drop(stop);
            tally.read()
        })
    }
}

/// The task behind it.
struct Line {
    bus: EventBus,
    tally: Arc<Tally>,
    stopped: watch::Receiver<bool>,
    /// Events that were lost since the log was told.
    unlogged: u64,
    logged: Option<Duration>,
}

impl Line {
    async fn run<T: Shared>(mut self, mut events: Receiver<T>) {
        let mut stopped = self.stopped.clone();
        while let Some(batch) = self.read(&mut events, &mut stopped).await {
            self.emit(batch).await;
        }
        self.log_lag::<T>();
    }

    /// What is there, and waits for the first of it; `None` at the end.
    async fn read<T: Shared>(
        &mut self,
        events: &mut Receiver<T>,
        stopped: &mut watch::Receiver<bool>,
    ) -> Option<Vec<Arc<T::Event>>> {
        let first = tokio::select! {
            biased;
            // A handle that was dropped stops nothing.
            Ok(_) = stopped.wait_for(|stopped| *stopped) => return None,
            first = events.recv() => first,
        };
        let mut batch = Vec::new();
        match first {
            Ok(event) => batch.push(event.shared()),
            Err(RecvError::Lagged(lost)) => self.lag::<T>(lost),
            Err(RecvError::Closed) => return None,
        }
        while batch.len() < BATCH {
            match events.try_recv() {
                Ok(event) => batch.push(event.shared()),
                Err(TryRecvError::Lagged(lost)) => self.lag::<T>(lost),
                Err(TryRecvError::Empty | TryRecvError::Closed) => break,
            }
        }
        Some(batch)
    }

    /// Counts what was lost, and logs it in sum.
    fn lag<T: Shared>(&mut self, lost: u64) {
        self.tally.lost.fetch_add(lost, Ordering::Relaxed);
        self.unlogged += lost;
        let now = self.bus.queue().clock().steady();
        if self.logged.is_none_or(|last| now.saturating_sub(last) >= LAG_LOG) {
            self.logged = Some(now);
            self.log_lag::<T>();
        }
    }

    fn log_lag<T: Shared>(&mut self) {
        let lost = std::mem::take(&mut self.unlogged);
        if lost > 0 {
            tracing::warn!(
                event = T::Event::NAME,
                lost,
                "a broadcast dropped events before they could be emitted, and no job follows from them: give it a larger \
                 capacity, or emit them in place of sending them"
            );
        }
    }

    /// Everything that follows from these, in one commit; where that is refused, in one for each event.
    async fn emit<E: Event>(&mut self, events: Vec<Arc<E>>) {
        let followers: Vec<_> = events
            .into_iter()
            .filter_map(|event| match self.following(&*event) {
                Ok(followers) => Some((event, followers)),
                Err(error) => {
                    self.failed::<E>(1, &error);
                    None
                }
            })
            .collect();
        let all = followers.iter().flat_map(|(_, followers)| followers).map(|(_, job)| job.clone()).collect();
        match self.store(all).await {
            Ok(()) => {
                followers.iter().for_each(|(event, followers)| self.emitted(event, followers.len()));
            }
            Err(error) if followers.len() <= 1 || *self.stopped.borrow() => {
                self.failed::<E>(followers.len(), &error);
            }
            Err(_) => {
                for (event, followers) in followers {
                    let count = followers.len();
                    match self.store(followers.into_iter().map(|(_, job)| job).collect()).await {
                        Ok(()) => self.emitted(&event, count),
                        Err(error) => self.failed::<E>(1, &error),
                    }
                }
            }
        }
        unlinked::warn_of::<E>(self.bus.queue()).await;
    }

    fn following<E: Event>(&self, event: &E) -> Result<Vec<Follower>, super::EmitError> {
        let queue = self.bus.queue();
        following(event, &Options::on(queue), queue, queue.now())
    }

    /// Trouble that may end by itself is waited out: what was read is not in the broadcast any more.
    async fn store(&self, jobs: Vec<NewJob>) -> Result<(), StoreError> {
        let queue = self.bus.queue();
        let (mut failures, mut stopped) = (0, self.stopped.clone());
        while !jobs.is_empty() {
            match store(queue, jobs.clone(), queue.now(), None).await {
                Ok(_) => break,
                Err(error) if error.is_transient() && !*stopped.borrow() => {
                    failures += 1;
                    tracing::warn!(%error, failures, "events of a broadcast wait for the storage");
                    tokio::select! {
                        () = queue.clock().sleep(trouble_wait(failures)) => {}
                        Ok(_) = stopped.wait_for(|stopped| *stopped) => {}
                    }
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn emitted<E: Event>(&self, event: &Arc<E>, jobs: usize) {
        self.tally.emitted.fetch_add(1, Ordering::Relaxed);
        self.tally.jobs.fetch_add(jobs as u64, Ordering::Relaxed);
        self.bus.tell(event);
    }

    fn failed<E: Event>(&self, events: usize, error: &dyn std::fmt::Display) {
        self.tally.failed.fetch_add(events as u64, Ordering::Relaxed);
        tracing::error!(event = E::NAME, events, %error, "events of a broadcast came to nothing");
    }
}
