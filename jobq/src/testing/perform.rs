//! Performing: one job, run once by a worker of its own, and what its function returned, typed.

use super::TestQueue;
use crate::{
    context::JobContext,
    enqueue::CallJob,
    executor::Verdict,
    job::{AttemptOutcome, JobError},
    queue::JobQueue,
    registry::{Attempting, DataMap, DecodeError, JobEntry, Registry, decode},
    store::{Claimed, memory::MemoryStore},
    time::patiently,
    worker::Worker,
};
use std::{
    any::{Any, TypeId},
    collections::HashMap,
    panic::Location,
    pin::Pin,
    sync::{Arc, LazyLock, Mutex, PoisonError},
    time::Duration,
};

/// Runs this job once, and gives what its function returned: the typed output or the typed error.
///
/// The payload goes through JSON and back, a real context and the [`data`](Perform::data) are lent, and a worker runs it,
/// in a queue of its own in memory. What the job enqueues goes to the queue that surrounds the test (that of
/// `#[jobq::test]`, or of [`JobQueue::scope`]), or to that of [`on`](Perform::on).
///
/// ```standalone_crate
/// # use jobq::{prelude::*, testing::*};
/// #[derive(Debug, PartialEq)]
/// enum Declined { NoMoney }
/// # impl std::fmt::Display for Declined { fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result { f.write_str("no") } }
/// # impl std::error::Error for Declined {}
///
/// struct Bank { balance: u64 }
///
/// #[job]
/// async fn charge_in_perform_docs(#[data] bank: &Bank, cents: u64) -> Result<u64, Declined> {
///     bank.balance.checked_sub(cents).ok_or(Declined::NoMoney)
/// }
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() {
/// let charge = ChargeInPerformDocs { cents: 250 };
/// assert_eq!(perform(charge).data(Bank { balance: 100 }).await, Err(Declined::NoMoney));
/// # }
/// ```
///
/// # Panics
/// Awaiting it panics where the job does, where its payload does not come back from JSON, where it lacks its data.
#[track_caller]
pub fn perform<J: CallJob>(job: J) -> Perform<J> {
    let patience = Duration::from_secs(30);
    Perform { job, data: DataMap::default(), on: None, attempt: 1, patience, from: Location::caller() }
}

/// One job on its way to be run: [`perform`].
#[must_use = "nothing is performed until this is awaited"]
pub struct Perform<J> {
    job: J,
    data: DataMap,
    on: Option<JobQueue>,
    attempt: u32,
    patience: Duration,
    from: &'static Location<'static>,
}

impl<J: CallJob> Perform<J> {
    /// Lends `value` to the job's `#[data]` parameter of this type.
    pub fn data<T: Any + Send + Sync>(mut self, value: T) -> Self {
        self.data.insert(value);
        self
    }

    /// Where the job's own enqueues go.
    pub fn on(mut self, queue: &JobQueue) -> Self {
        self.on = Some(queue.clone());
        self
    }

    /// Performs this attempt, 1 = first run; those before it fail without running the function.
    pub fn attempt(mut self, attempt: u32) -> Self {
        self.attempt = attempt;
        self
    }

    /// How long the job may take in real time before the test fails; by default 30 s.
    pub fn patience(mut self, time: Duration) -> Self {
        self.patience = time;
        self
    }
}

impl<J: CallJob> IntoFuture for Perform<J> {
    type Output = J::Return;
    type IntoFuture = Pin<Box<dyn Future<Output = J::Return> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move {
            let from = self.from;
            self.run().await.unwrap_or_else(|why| panic!("{why}\nin perform of `{}` at {from}", J::TYPE))
        })
    }
}

impl<J: CallJob> Perform<J> {
    async fn run(self) -> Result<J::Return, String> {
        let Self { job, mut data, on, attempt, patience, .. } = self;
        let around = on.or_else(|| JobQueue::current().ok());
        let own = match &around {
            Some(around) => JobQueue::with_store(Arc::new(MemoryStore::new()), around.clock().clone()),
            None => TestQueue::new().queue,
        };
        let capture = Capture::<J> { attempt, around, returned: Arc::default() };
        let returned = capture.returned.clone();
        data.insert(capture);
        let known = Registry::of([captured::<J>()?]).map_err(|error| error.to_string())?;
        own.enqueue(job)
            .max_attempts(attempt.max(J::DEFAULTS.max_attempts.unwrap_or(3)))
            .await
            .map_err(|error| error.to_string())?;
        let ended = Arc::new(Mutex::new(None));
        let seen = ended.clone();
        let watch = Arc::new(move |_: &Claimed, verdict: &Verdict| {
            *seen.lock().unwrap_or_else(PoisonError::into_inner) = Some(verdict.clone());
        });
        let worker = Worker::watched(&own, known, data, watch);
        match patiently(worker.drain(), patience).await {
            None => return Err(format!("it still runs after {patience:?} of real time")),
            Some(drained) => drained.map_err(|error| error.to_string())?,
        };
        let returned = returned.lock().unwrap_or_else(PoisonError::into_inner).take();
        let ended = ended.lock().unwrap_or_else(PoisonError::into_inner).take();
        returned.ok_or_else(|| match ended {
            Some(Verdict::Fail { outcome: AttemptOutcome::Panicked, error, .. }) => {
                format!("the job {error}")
            }
            Some(Verdict::Fail { error, .. }) => error,
            other => format!("it did not run: {other:?}"),
        })
    }
}

/// Where the function's return goes, among the data that is lent.
struct Capture<J: CallJob> {
    attempt: u32,
    around: Option<JobQueue>,
    returned: Arc<Mutex<Option<J::Return>>>,
}

/// The entry of `J` as it is linked, but that what the function returns is kept.
fn captured<J: CallJob>() -> Result<&'static JobEntry, String> {
    static MADE: LazyLock<Mutex<HashMap<TypeId, &'static JobEntry>>> = LazyLock::new(Mutex::default);
    let linked = Registry::linked().map_err(|error| error.to_string())?;
    let entry = linked.get(J::TYPE).ok_or("its function is not linked into this program")?;
    let mut made = MADE.lock().unwrap_or_else(PoisonError::into_inner);
    // One of each type, for as long as the tests run.
    Ok(made
        .entry(TypeId::of::<J>())
        .or_insert_with(|| Box::leak(Box::new(JobEntry { run: run::<J>, ..*entry }))))
}

fn run<'a, J: CallJob>(
    text: &str,
    ctx: &'a JobContext,
    lent: &'a DataMap,
) -> Result<Attempting<'a>, DecodeError> {
    let job: J = decode(text)?;
    Ok(Box::pin(async move {
        let Some(capture) = lent.get::<Capture<J>>() else {
            return Err(JobError::dead("nobody waits for what it returns"));
        };
        if ctx.attempt() < capture.attempt {
            return Err(JobError::retry_in(Duration::ZERO, "an attempt before the one that is performed"));
        }
        let call = job.call(ctx, lent)?;
        let returned = match &capture.around {
            Some(around) => around.scope(call).await,
            None => call.await,
        };
        *capture.returned.lock().unwrap_or_else(PoisonError::into_inner) = Some(returned);
        Ok(None)
    }))
}
