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
    static HERE: JobQueue;
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
        self.enter(future).await
    }

    /// Runs a job of this queue: what it enqueues goes to this queue too.
    pub(crate) async fn enter<F: Future>(&self, future: F) -> F::Output {
        HERE.scope(self.clone(), future).await
    }

    /// The queue that an enqueue without `on(&queue)` goes to here and now.
    ///
    /// # Errors
    /// [`NoQueue`] says what to write.
    pub fn current() -> Result<Self, NoQueue> {
        if let Ok(queue) = HERE.try_with(Self::clone) {
            return Ok(queue);
        }
        if SCOPED.load(Ordering::Relaxed) {
            return Err(NoQueue::OutsideScope);
        }
        let installed = INSTALLED.read().unwrap_or_else(PoisonError::into_inner);
        installed.clone().ok_or(NoQueue::NoneInstalled)
    }
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
    match HERE.try_with(JobQueue::clone) {
        Ok(queue) => tokio::spawn(HERE.scope(queue, future)),
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
