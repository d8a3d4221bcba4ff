//! Events: what happened is told once, and every subscribed job is enqueued in one commit.
//!
//! A service that emits names no job: the jobs name the event. Which jobs follow is known from the linked
//! [registry](mod@crate::registry), so nothing is listed and nothing is spawned; the guide's chapter
//! [events](crate::guide::events) shows it whole.

use crate::{
    enqueue::{EnqueueError, JobHandle, Options, job_of, store},
    executor::caught,
    job::{Job, JobId, NewJob},
    queue::{JobQueue, NoQueue},
    registry::{JobEntry, Registry, RegistryError, Subscription},
    store::{Enqueued, Landed, StoreError, Tx},
    time::Millis,
};
use chrono::{DateTime, Utc};
use std::{
    any::{TypeId, type_name},
    collections::HashMap,
    fmt,
    future::{Future, IntoFuture},
    marker::PhantomData,
    ops::Deref,
    pin::Pin,
    sync::{Arc, LazyLock},
    time::Duration,
};

mod bus;
mod forward;
mod unlinked;

pub use bus::{EventBus, MAX_BEHIND, Missed, Subscriber};
pub use forward::{Forwarded, Forwarding, Shared};

/// Something that happened, from which jobs follow. Written by `#[derive(Event)]`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not an event",
    label = "not an event",
    note = "a type becomes an event by `#[derive(Event)]`"
)]
pub trait Event: Send + Sync + 'static {
    /// The name by which the programs that share a queue know it.
    const NAME: &'static str;
}

/// Starts to emit an event in the queue of the running job, of the scope or the installed one; awaiting the builder does
/// it. See [`JobQueue::emit`].
pub fn emit<E: Event>(event: E) -> Emit<'static, E> {
    Emit { event, options: Options::default(), tx: None, answer: PhantomData }
}

impl JobQueue {
    /// Starts to emit an event in this queue; awaiting the builder enqueues every job that follows from it, in one
    /// commit: all of them, or none.
    ///
    /// No channel lies between: when the answer comes the jobs are as safe as any enqueued job is, and however slow the
    /// workers are, none is lost. Jobs of crates that are not linked into this program are not seen; where another
    /// program that shares the queue has told of some, a warning names them.
    pub fn emit<E: Event>(&self, event: E) -> Emit<'static, E> {
        emit(event).on(self)
    }

    /// The event bus of this queue: subscribers in this process, and what connects it to a bus of the application's.
    pub fn bus(&self) -> EventBus {
        EventBus::of(self)
    }
}

/// An event on its way. Awaiting it enqueues what follows; dropping it before does nothing.
///
/// Each job is enqueued as its attribute says, and as its own `enqueue` would: what is set here holds for all of them.
///
/// # Errors
/// Awaiting it gives an [`EmitError`]; then nothing is stored and no subscriber is told.
///
/// # Cancel safety
/// Dropping it while it is awaited loses the answer: the jobs are stored, all or none, and the subscribers in this process
/// may not be told.
#[must_use = "an event does nothing until it is awaited"]
pub struct Emit<'t, E, R = Emitted<E>> {
    event: E,
    options: Options,
    tx: Option<Tx<'t>>,
    answer: PhantomData<fn() -> R>,
}

impl<'t, E: Event, R> Emit<'t, E, R> {
    /// Enqueues inside the caller's own transaction on the same database: the jobs are there when it commits, and never
    /// there when it does not. So what happened, and what follows from it, are one.
    ///
    /// [Subscribers](EventBus::subscribe) in this process are not told, for nobody knows yet that it will commit: call
    /// [`EmittedInTx::announce`] after the commit.
    pub fn in_tx<'u>(self, tx: impl Into<Tx<'u>>) -> Emit<'u, E, EmittedInTx<E>> {
        let Self { event, options, .. } = self;
        Emit { event, options, tx: Some(tx.into()), answer: PhantomData }
    }

    /// Larger runs first: for all jobs that follow, whatever their types say.
    pub fn priority(mut self, priority: i16) -> Self {
        self.options.set_priority(priority);
        self
    }

    /// Jobs that follow do not run before this long after the emit. Subscribers in this process are told at once.
    pub fn delay(mut self, delay: Duration) -> Self {
        self.options.set_delay(delay);
        self
    }

    /// Jobs that follow do not run before this instant; one in the past means now.
    pub fn run_at(mut self, at: DateTime<Utc>) -> Self {
        self.options.set_run_at(at);
        self
    }

    /// The queue to emit in, whatever is installed or in scope.
    pub fn on(mut self, queue: &JobQueue) -> Self {
        self.options.set_on(queue);
        self
    }
}

impl<'t, E: Event, R: From<Emitted<E>> + 'static> IntoFuture for Emit<'t, E, R> {
    type Output = Result<R, EmitError>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send + 't>>;

    fn into_future(self) -> Self::IntoFuture {
        let Self { event, mut options, tx, .. } = self;
        Box::pin(async move {
            let queue = options.target()?;
            let in_tx = tx.is_some();
            let now = queue.now();
            let followers = following(&event, &options, &queue, now)?;
            let event = Arc::new(event);
            let jobs = match followers.is_empty() && !in_tx {
                true => Vec::new(),
                false => stored(&queue, followers, now, tx).await?,
            };
            if !in_tx {
                queue.bus().tell(&event);
            }
            unlinked::warn_of::<E>(&queue).await;
            Ok(Emitted { jobs, queue, untold: in_tx.then_some(event) }.into())
        })
    }
}

/// A job to be, and the entry it is of.
type Follower = (&'static JobEntry, NewJob);

async fn stored(
    queue: &JobQueue,
    followers: Vec<Follower>,
    now: Millis,
    tx: Option<Tx<'_>>,
) -> Result<Vec<Follow>, StoreError> {
    let (entries, jobs): (Vec<_>, Vec<_>) = followers.into_iter().unzip();
    let answers = store(queue, jobs, now, tx).await?;
    let follow =
        |(entry, Enqueued { id, landed }): (&JobEntry, _)| Follow { job_type: entry.job_type, id, landed };
    Ok(entries.into_iter().zip(answers).map(follow).collect())
}

/// The jobs that follow from this event, in the order of their types; nothing is stored yet.
fn following<E: Event>(
    event: &E,
    options: &Options,
    queue: &JobQueue,
    now: Millis,
) -> Result<Vec<Follower>, EmitError> {
    let mut followers = Vec::new();
    for &(entry, subscription) in links::<E>()? {
        let job_type = entry.job_type;
        let failed = |error| EmitError::Job { event: E::NAME, job_type, error };
        let payloads = caught(|| (subscription.map)(event))
            .map_err(|panic| EmitError::Panicked { event: E::NAME, job_type, panic })?
            .map_err(|why| failed(EnqueueError::Unwritable { job_type, why: Arc::new(why) }))?;
        for payload in payloads {
            let job = job_of(entry, payload, options.clone(), queue, now).map_err(failed)?;
            followers.push((entry, job));
        }
    }
    Ok(followers)
}

/// A job, and that it follows from an event.
type Link = (&'static JobEntry, &'static Subscription);

/// All links of this program, by the name of the event.
static LINKS: LazyLock<Result<HashMap<&'static str, Vec<Link>>, RegistryError>> = LazyLock::new(|| {
    let mut links: HashMap<_, Vec<_>> = HashMap::new();
    for link in Registry::linked()?.subscriptions() {
        links.entry(link.1.event).or_default().push(link);
    }
    Ok(links)
});

/// The jobs of this program that follow from `E`.
fn links<E: Event>() -> Result<&'static [Link], EmitError> {
    let all = LINKS.as_ref().map_err(Clone::clone)?;
    let links = all.get(E::NAME).map(Vec::as_slice).unwrap_or_default();
    match links.iter().find(|(_, on)| (on.id)() != TypeId::of::<E>()) {
        None => Ok(links),
        Some((_, on)) => {
            Err(EmitError::TwoEvents { event: E::NAME, one: type_name::<E>(), other: (on.type_name)() })
        }
    }
}

/// What followed from an event.
pub struct Emitted<E> {
    jobs: Vec<Follow>,
    queue: JobQueue,
    /// What to tell subscribers of after the commit of the caller's transaction.
    untold: Option<Arc<E>>,
}

/// One job that followed from an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Follow {
    /// The stored name of its function.
    pub job_type: &'static str,
    /// Its name.
    pub id: JobId,
    /// Whether it is a new one, or one that was there and holds the unique key.
    pub landed: Landed,
}

impl Follow {
    /// Whether the emit added this job.
    pub fn is_new(&self) -> bool {
        self.landed == Landed::New
    }
}

impl<E> Emitted<E> {
    /// All jobs that followed, in the order of their types.
    pub fn jobs(&self) -> &[Follow] {
        &self.jobs
    }

    /// Those of one type.
    pub fn of<J: Job>(&self) -> impl Iterator<Item = JobHandle<J>> + '_ {
        let of_type = self.jobs.iter().filter(|follow| follow.job_type == J::TYPE);
        of_type.map(|&Follow { id, landed, .. }| JobHandle::new(self.queue.clone(), Enqueued { id, landed }))
    }
}

/// What followed from an event that was emitted in a transaction. Subscribers in this process have not heard of it.
#[must_use = "subscribers in this process hear of the event by `.announce()`, called after the commit"]
pub struct EmittedInTx<E>(Emitted<E>);

impl<E: Event> EmittedInTx<E> {
    /// Tells the subscribers in this process. Call it when the transaction has committed.
    pub fn announce(self) {
        if let Some(event) = self.0.untold {
            self.0.queue.bus().tell(&event);
        }
    }
}

impl<E> From<Emitted<E>> for EmittedInTx<E> {
    fn from(emitted: Emitted<E>) -> Self {
        Self(emitted)
    }
}

impl<E> fmt::Debug for EmittedInTx<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl<E> Deref for EmittedInTx<E> {
    type Target = Emitted<E>;

    fn deref(&self) -> &Emitted<E> {
        &self.0
    }
}

impl<E> fmt::Debug for Emitted<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Emitted").field("jobs", &self.jobs).finish_non_exhaustive()
    }
}

/// Why nothing followed from an event: nothing was stored, and no subscriber was told.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EmitError {
    /// No queue is meant where none is named.
    #[error(transparent)]
    NoQueue(#[from] NoQueue),
    /// Two types are events of one name, so nobody could tell whose jobs are meant.
    #[error(
        "two events are named `{event}`: `{one}` and `{other}`; give one of them a name of its own, \
         `#[event(name = \"…\")]`"
    )]
    TwoEvents {
        /// The name.
        event: &'static str,
        /// The type that was emitted.
        one: &'static str,
        /// The type that a job follows from.
        other: &'static str,
    },
    /// The code that makes a job's payload of the event panicked.
    #[error(
        "nothing was enqueued for event `{event}`: making the payload of job `{job_type}` panicked: {panic}"
    )]
    Panicked {
        /// The name of the event.
        event: &'static str,
        /// The stored name of the job's function.
        job_type: &'static str,
        /// What the panic said.
        panic: String,
    },
    /// One of the jobs can't be enqueued.
    #[error("nothing was enqueued for event `{event}`: job `{job_type}`: {error}")]
    Job {
        /// The name of the event.
        event: &'static str,
        /// The stored name of the job's function.
        job_type: &'static str,
        /// Why.
        error: EnqueueError,
    },
    /// The linked jobs can't be told apart.
    #[error(transparent)]
    Registry(#[from] RegistryError),
    /// The storage did not take it.
    #[error(transparent)]
    Store(#[from] StoreError),
}
