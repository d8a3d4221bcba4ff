//! Threads for `blocking` jobs: reused while there is work, and no hindrance to the end of the process.

use std::{
    collections::VecDeque,
    io,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    thread,
    time::Duration,
};

/// How long a thread without work stays.
const IDLE: Duration = Duration::from_secs(10);

pub(super) type Work = Box<dyn FnOnce() + Send>;

/// As many threads as jobs run at once, not more than the worker's slots then. Not tokio's `spawn_blocking`: a runtime
/// waits for those at its end, these die with the process.
#[derive(Default)]
pub(super) struct Threads(Arc<Pool>);

#[derive(Default)]
struct Pool {
    state: Mutex<State>,
    ready: Condvar,
}

#[derive(Default)]
struct State {
    waiting: VecDeque<Work>,
    idle: usize,
    started: u64,
    closed: bool,
}

impl Threads {
    /// Runs `work` on a thread at once.
    pub(super) fn run(&self, work: Work) -> io::Result<()> {
        let mut state = self.0.lock();
        if state.idle > state.waiting.len() {
            state.waiting.push_back(work);
            drop(state);
            self.0.ready.notify_one();
            return Ok(());
        }
        state.started += 1;
        let name = format!("jobq-blocking-{}", state.started);
        drop(state);
        let pool = self.0.clone();
        thread::Builder::new().name(name).spawn(move || pool.serve(work)).map(drop)
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        self.0.lock().closed = true;
        self.0.ready.notify_all();
    }
}

impl Pool {
    fn serve(&self, first: Work) {
        let mut next = Some(first);
        while let Some(work) = next {
            // What a job does is caught before it comes here; this keeps the count of idle threads true.
            let _caught = super::caught(work);
            next = self.wait();
        }
    }

    fn wait(&self) -> Option<Work> {
        let mut state = self.lock();
        state.idle += 1;
        let wait =
            self.ready.wait_timeout_while(state, IDLE, |state| state.waiting.is_empty() && !state.closed);
        let (mut state, _) = wait.unwrap_or_else(PoisonError::into_inner);
        state.idle -= 1;
        state.waiting.pop_front()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
