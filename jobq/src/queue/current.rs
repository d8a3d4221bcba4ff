//! Which queue is meant where an enqueue names none: the running job's, the scope's, the installed one.

use super::JobQueue;
use std::{
    future::Future,
    sync::{
        PoisonError, RwLock,
        atomic::{AtomicBool, Ordering},
    },
};

tokio::task_local! {
    static HERE: Here;
}

/// What surrounds a task: a scope of a test, or the worker whose job it is.
#[derive(Clone)]
struct Here {
    queue: JobQueue,
    /// The key of the worker whose handler this is.
    worker: Option<u64>,
}

static SCOPED: AtomicBool = AtomicBool::new(false);
static INSTALLED: RwLock<Option<JobQueue>> = RwLock::new(None);

/// Where an enqueue names no queue with `on(&queue)`, it goes to the queue of the innermost scope or running job that
/// it is in, else to the installed default.
impl JobQueue {
    /// Makes this queue the program's default. A later call replaces it, and any [`scope`](Self::scope), which is for
    /// tests, switches it off.
    pub fn install(&self) {
        *INSTALLED.write().unwrap_or_else(PoisonError::into_inner) = Some(self.clone());
    }

    /// Runs `future` with this queue in place of the default, for that future alone: parallel tests never share one.
    /// It is for tests: from the first scope on, the [installed](Self::install) default is off outside of scopes, in the
    /// whole program and for good.
    ///
    /// A task that `future` starts with `tokio::spawn` is outside; [`spawn`] keeps it inside. Once any scope was
    /// entered, an enqueue outside of all is answered with [`NoQueue::OutsideScope`] and never goes to a default that
    /// may not be meant.
    pub async fn scope<F: Future>(&self, future: F) -> F::Output {
        SCOPED.store(true, Ordering::Relaxed);
        HERE.scope(Here { queue: self.clone(), worker: worker_here() }, future).await
    }

    /// Surrounds a handler of the worker with this key: what it enqueues goes to this queue, and
    /// [`worker_here`] knows it.
    pub(crate) fn enter<F: Future>(self, worker: u64, handler: F) -> impl Future<Output = F::Output> {
        HERE.scope(Here { queue: self, worker: Some(worker) }, handler)
    }

    /// The queue that an enqueue without `on(&queue)` goes to here and now.
    ///
    /// # Errors
    /// [`NoQueue`] says what to write.
    pub fn current() -> Result<Self, NoQueue> {
        if let Ok(queue) = HERE.try_with(|here| here.queue.clone()) {
            return Ok(queue);
        }
        if SCOPED.load(Ordering::Relaxed) {
            return Err(NoQueue::OutsideScope);
        }
        let installed = INSTALLED.read().unwrap_or_else(PoisonError::into_inner);
        installed.clone().ok_or(NoQueue::NoneInstalled)
    }
}

/// The key of the worker whose handler calls this.
pub(crate) fn worker_here() -> Option<u64> {
    HERE.try_with(|here| here.worker).ok().flatten()
}

/// `tokio::spawn` that keeps the queue of the running job or of the scope that it is called in.
///
/// # Panics
/// Outside of a tokio runtime, as `tokio::spawn` does.
pub fn spawn<F>(future: F) -> tokio::task::JoinHandle<F::Output>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    match HERE.try_with(|here| here.queue.clone()) {
        // The worker waits for its handler, not for what that has spawned.
        Ok(queue) => tokio::spawn(HERE.scope(Here { queue, worker: None }, future)),
        Err(_) => tokio::spawn(future),
    }
}

/// No queue is meant where an enqueue names none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoQueue {
    /// Nothing was installed.
    #[error(
        "no queue to enqueue in: call `queue.install()` once at the start of the program, or name the queue with \
         `.on(&queue)`"
    )]
    NoneInstalled,
    /// This program gives queues to scopes, and this task is in none of them.
    #[error(
        "this task is outside of every queue's scope: start it with `jobq::spawn` instead of `tokio::spawn`, enter \
         one with `queue.scope(future)`, or name the queue with `.on(&queue)`"
    )]
    OutsideScope,
}
