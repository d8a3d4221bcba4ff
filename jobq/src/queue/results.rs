//! Results: what a job returned, now, or as soon as it has ended in whatever process.
//!
//! Whoever waits leaves the job's id with the queue. While anybody waits, one thread looks for all of them, in one read,
//! whenever the store has changed; a handler that holds the runtime holds up nobody who waits elsewhere.

use super::{Inner, JobQueue};
use crate::{
    job::{Job, JobId, Output, Readable},
    registry::Registry,
    state::JobState,
    store::{Outcome, Store, StoreError},
    time::patiently,
};
use std::{
    collections::BTreeMap,
    fmt,
    future::Future,
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
    thread,
    time::{Duration, Instant},
};
use tokio::{
    sync::{Notify, oneshot},
    time::{sleep, timeout},
};

/// Between two looks there is at least this, …
const APART: Duration = Duration::from_millis(2);
/// … and so many times as long as the last one took: looking takes a quarter of one reading thread at most.
const REST: u32 = 3;
/// How often is looked although nothing was heard of the store.
const POLL: Duration = Duration::from_millis(500);
/// How long the thread stays when nobody waits any more.
const LINGER: Duration = Duration::from_secs(1);
/// How often trouble of the store is told of.
const COMPLAIN: Duration = Duration::from_secs(10);

// ---- what a person calls ---------------------------------------------------------------------------------------

/// A wait for the end of one job; awaiting it gives what the job returned.
///
/// It ends when the job is completed, dead or cancelled, whatever process ran it, or when the job is deleted. A job that
/// nobody runs, since it is paused or no worker knows it, is waited for: give a [`timeout`](Self::timeout) where that may
/// be. The job itself is touched neither by the wait nor by its end.
///
/// # Errors
/// Awaiting it gives a [`WaitError`].
///
/// # Cancel safety
/// May be dropped at will, and begun again.
#[must_use = "a wait does nothing until it is awaited"]
pub struct Wait<J: Job> {
    queue: JobQueue,
    id: JobId,
    timeout: Option<Duration>,
    read: Reading<J>,
}

/// An output from its JSON. Whoever has one knows that there is a way.
type Reading<J> = fn(&str) -> serde_json::Result<Output<J>>;

impl<J: Job> Wait<J> {
    /// Waits at most this long, on the queue's clock; then the answer is [`WaitError::TimedOut`], and the job goes on.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }
}

impl<J: Job> fmt::Debug for Wait<J> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Wait({} {})", J::TYPE, self.id)
    }
}

impl<J: Job> IntoFuture for Wait<J> {
    type Output = Result<Output<J>, WaitError>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        let Self { queue, id, timeout, read } = self;
        Box::pin(async move {
            let end = queue.end_of(id);
            let ended = async {
                match timeout {
                    None => Ok(end.await?),
                    Some(after) => tokio::select! {
                        biased;
                        outcome = end => Ok(outcome?),
                        () = queue.clock().sleep(after) => Err(timed_out(&queue, id, after).await),
                    },
                }
            };
            let outcome = match queue.attached::<Patience>().get() {
                None => ended.await?,
                Some(after) => {
                    patiently(ended, after).await.unwrap_or(Err(WaitError::StoodStill { id, after }))?
                }
            };
            // Only a job that has ended is told of.
            output::<J>(id, outcome.as_deref(), read)?.ok_or(WaitError::Store(StoreError::Closed))
        })
    }
}

async fn timed_out(queue: &JobQueue, id: JobId, after: Duration) -> WaitError {
    let row = queue.store().get(id).await.ok().flatten();
    WaitError::TimedOut { id, after, state: row.map(|row| row.state) }
}

/// What a job waits for that stands there.
fn stood(state: Option<JobState>) -> &'static str {
    match state {
        Some(JobState::Scheduled) => ": it is scheduled for later",
        Some(JobState::Pending) => {
            ": it is due and waits for a free worker that knows it, or its queue or type is paused or at its limit"
        }
        Some(JobState::Running) => ": it runs",
        _ => "",
    }
}

/// How long any wait on a queue may take in real time; for tests, whose clock stands still.
#[derive(Default)]
struct Patience(Mutex<Option<Duration>>);

impl Patience {
    fn get(&self) -> Option<Duration> {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl JobQueue {
    /// Waits on this queue end after so long in real time, with an error that says so to a test.
    pub(crate) fn set_patience(&self, time: Duration) {
        let patience = self.attached::<Patience>();
        *patience.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(time);
    }

    /// What a job returned, as far as is known now; `None`: it has not ended. To wait for it, see
    /// [`JobHandle::wait`](crate::enqueue::JobHandle::wait).
    ///
    /// # Errors
    /// As for a wait, [`WaitError`], but for `TimedOut`.
    pub async fn result<J: Job>(&self, job: impl Into<JobId>) -> Result<Option<Output<J>>, WaitError>
    where
        Output<J>: Readable,
    {
        let id = job.into();
        output::<J>(id, self.outcome(id).await?.as_ref(), |json| serde_json::from_str(json))
    }

    /// Starts to wait for a job of this type.
    pub(crate) fn wait<J: Job>(&self, id: JobId) -> Wait<J>
    where
        Output<J>: Readable,
    {
        Wait { queue: self.clone(), id, timeout: None, read: |json| serde_json::from_str(json) }
    }

    /// That there is such a job, and of this type.
    pub(crate) async fn expect_type<J: Job>(&self, id: JobId) -> Result<(), WaitError> {
        let outcome = self.outcome(id).await?;
        check_type::<J>(id, &outcome.ok_or(WaitError::Gone { id })?)
    }

    async fn outcome(&self, id: JobId) -> Result<Option<Outcome>, StoreError> {
        Ok(self.0.store.outcomes(vec![id]).await?.pop().flatten())
    }

    /// How a job has ended, as soon as it has; `None`: it is not there.
    async fn end_of(&self, id: JobId) -> End {
        let (_seat, told) = Seat::take(self, id)?;
        // Where nobody tells any more, the thread that looks has ended by a panic of the store.
        told.await.unwrap_or(Err(StoreError::Closed))
    }
}

/// What a job returned; `None`: it has not ended.
fn output<J: Job>(
    id: JobId,
    outcome: Option<&Outcome>,
    read: Reading<J>,
) -> Result<Option<Output<J>>, WaitError> {
    let outcome = outcome.ok_or(WaitError::Gone { id })?;
    check_type::<J>(id, outcome)?;
    let Outcome { state, attempts, error, result, .. } = outcome;
    match state {
        JobState::Scheduled | JobState::Pending | JobState::Running => Ok(None),
        JobState::Dead => {
            Err(WaitError::Dead { id, error: error.clone().unwrap_or_default(), attempts: *attempts })
        }
        JobState::Cancelled => Err(WaitError::Cancelled { id, error: error.clone() }),
        JobState::Completed => {
            let json = result.as_deref().unwrap_or("null");
            read(json).map(Some).map_err(|why| {
                let why = Arc::new(why);
                WaitError::Undecodable { id, job_type: J::TYPE, why }
            })
        }
    }
}

fn check_type<J: Job>(id: JobId, outcome: &Outcome) -> Result<(), WaitError> {
    let stored = &*outcome.job_type;
    let entry = || Registry::linked().ok()?.get(stored);
    if stored == J::TYPE || entry().is_some_and(|entry| entry.job_type == J::TYPE) {
        return Ok(());
    }
    Err(WaitError::OtherType { id, stored: stored.to_owned(), asked: J::TYPE })
}

/// Why there is no result.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WaitError {
    /// The job is dead: out of attempts, or never to be tried again. A person may still retry it.
    #[error("job {id} is dead after attempt {attempts}: {error}")]
    Dead {
        /// The job.
        id: JobId,
        /// Why its latest attempt failed.
        error: String,
        /// How many attempts it has had.
        attempts: u32,
    },
    /// The job was taken back, by a person or by its own handler.
    #[error("job {id} was cancelled{}{}", if error.is_some() { ": " } else { "" }, error.as_deref().unwrap_or_default())]
    Cancelled {
        /// The job.
        id: JobId,
        /// Why its handler took it back, or why an attempt before had failed.
        error: Option<String>,
    },
    /// There is no such job: it was deleted or pruned, its transaction is not committed, or it never was in this queue.
    #[error(
        "there is no job {id} in this queue: it was deleted, or pruned after its retention, or the transaction that \
         enqueued it has not committed"
    )]
    Gone {
        /// The job.
        id: JobId,
    },
    /// The job had not ended in time; it goes on.
    #[error("job {id} had not ended after {after:?}{}; it goes on", stood(*state))]
    TimedOut {
        /// The job.
        id: JobId,
        /// How long was waited.
        after: Duration,
        /// Where it stood then; `None`: it is not there yet, or the store did not say.
        state: Option<JobState>,
    },
    /// In a test, whose clock stands still: the job had not ended after so long in real time.
    #[error(
        "job {id} had not ended after {after:?} of real time, and the clock of a test's queue stands still: what ends it? \
         `drain()` before the wait, or at the same time with `tokio::join!`; where a handler waits for a job, \
         `drain().concurrency(2).jobs((one, other))` lets both run"
    )]
    StoodStill {
        /// The job.
        id: JobId,
        /// How long was waited.
        after: Duration,
    },
    /// The job has completed, and its stored result is not what this build's function returns.
    #[error("the result of job {id} is not what `{job_type}` of this build returns: {why}")]
    Undecodable {
        /// The job.
        id: JobId,
        /// The stored name of the function.
        job_type: &'static str,
        /// What serde says.
        why: Arc<serde_json::Error>,
    },
    /// The job is one of another function.
    #[error("job {id} is of type `{stored}`, not `{asked}`")]
    OtherType {
        /// The job.
        id: JobId,
        /// The stored name of its function.
        stored: String,
        /// The stored name of the function that was asked for.
        asked: &'static str,
    },
    /// The storage failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

// ---- who waits, and who looks for them -------------------------------------------------------------------------

/// How a job has ended; `None`: it is not there.
type End = Result<Option<Arc<Outcome>>, StoreError>;

/// Who waits for which job.
#[derive(Default)]
pub(super) struct Lobby {
    guests: Mutex<Guests>,
    /// Somebody has come or gone.
    cue: Notify,
}

#[derive(Default)]
struct Guests {
    waiting: BTreeMap<JobId, Vec<(u64, oneshot::Sender<End>)>>,
    last: u64,
    /// Whether the thread is there that looks for them.
    attended: bool,
}

impl Lobby {
    fn lock(&self) -> MutexGuard<'_, Guests> {
        self.guests.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The jobs that are waited for.
    fn asked(&self) -> Vec<JobId> {
        self.lock().waiting.keys().copied().collect()
    }

    /// Tells those whose job has ended, or is not there.
    fn tell(&self, ids: &[JobId], outcomes: Vec<Option<Outcome>>) {
        let mut guests = self.lock();
        for (id, outcome) in ids.iter().zip(outcomes) {
            if outcome.as_ref().is_none_or(|outcome| outcome.state.is_terminal()) {
                let outcome = outcome.map(Arc::new);
                for (_, guest) in guests.waiting.remove(id).unwrap_or_default() {
                    guest.send(Ok(outcome.clone())).ok();
                }
            }
        }
    }

    /// Tells all that they wait for nothing.
    fn dismiss(&self, why: &StoreError) {
        for (_, guest) in std::mem::take(&mut self.lock().waiting).into_values().flatten() {
            guest.send(Err(why.clone())).ok();
        }
    }
}

/// The place of one who waits; given back when dropped.
struct Seat {
    lobby: Arc<Lobby>,
    id: JobId,
    number: u64,
}

impl Seat {
    /// Waits from now on; whoever comes first has the thread started.
    fn take(queue: &JobQueue, id: JobId) -> Result<(Self, oneshot::Receiver<End>), StoreError> {
        let lobby = queue.0.lobby.clone();
        let (tell, told) = oneshot::channel();
        let number = {
            let mut guests = lobby.lock();
            if !guests.attended {
                let (queue, lobby) = (Arc::downgrade(&queue.0), lobby.clone());
                let looking = thread::Builder::new().name("jobq-wait".into());
                looking
                    .spawn(move || attend(&queue, &lobby))
                    .map_err(|error| StoreError::Backend(Arc::new(error)))?;
                guests.attended = true;
            }
            guests.last += 1;
            let number = guests.last;
            guests.waiting.entry(id).or_default().push((number, tell));
            number
        };
        lobby.cue.notify_one();
        Ok((Self { lobby, id, number }, told))
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let mut guests = self.lobby.lock();
        if let Some(of_this_job) = guests.waiting.get_mut(&self.id) {
            of_this_job.retain(|(number, _)| *number != self.number);
            if of_this_job.is_empty() {
                guests.waiting.remove(&self.id);
                self.lobby.cue.notify_one();
            }
        }
    }
}

/// However the thread ends: who waits is not left waiting, and the next one has it started anew.
struct Leaving<'a>(&'a Lobby);

impl Drop for Leaving<'_> {
    fn drop(&mut self) {
        let mut guests = self.0.lock();
        guests.attended = false;
        guests.waiting.clear();
    }
}

/// The thread: looks while anybody waits, and stays a little after that. It keeps the store open only while it looks.
fn attend(queue: &Weak<Inner>, lobby: &Lobby) {
    let leaving = Leaving(lobby);
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_time().build() {
        Ok(runtime) => runtime,
        Err(error) => return lobby.dismiss(&StoreError::Backend(Arc::new(error))),
    };
    runtime.block_on(async {
        loop {
            if let Some(queue) = queue.upgrade() {
                look_for_all(&*queue.store, lobby).await;
            }
            let came = timeout(LINGER, lobby.cue.notified()).await.is_ok();
            let mut guests = lobby.lock();
            if !came && guests.waiting.is_empty() {
                guests.attended = false;
                // Whoever comes from here on is another thread's.
                std::mem::forget(leaving);
                return;
            }
        }
    });
}

/// Looks whenever the store has changed, until nobody waits any more.
async fn look_for_all(store: &dyn Store, lobby: &Lobby) {
    let mut attention = None;
    let mut changed = store.changed();
    let mut complained: Option<Instant> = None;
    loop {
        let ids = lobby.asked();
        if ids.is_empty() {
            return;
        }
        // Before the look: what is committed after it is heard of.
        attention.get_or_insert_with(|| store.attend());
        changed.mark_unchanged();
        let began = Instant::now();
        let pause = match store.outcomes(ids.clone()).await {
            Ok(outcomes) => {
                lobby.tell(&ids, outcomes);
                APART.max(began.elapsed() * REST)
            }
            Err(error) if error.is_transient() => {
                if complained.is_none_or(|at| at.elapsed() >= COMPLAIN) {
                    complained = Some(Instant::now());
                    tracing::warn!(%error, jobs = ids.len(), "whether jobs that are waited for have ended could not be read; it is tried again");
                }
                POLL
            }
            Err(error) => {
                lobby.dismiss(&error);
                continue;
            }
        };
        if lobby.lock().waiting.is_empty() {
            return;
        }
        sleep(pause).await;
        tokio::select! {
            Ok(()) = changed.changed() => {}
            () = lobby.cue.notified() => {}
            () = sleep(POLL) => {}
        }
    }
}
