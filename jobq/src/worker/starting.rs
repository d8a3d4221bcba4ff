//! Starting jobs: a few tasks start all of them; only a job that waits for something goes on in a task of its own.
//!
//! Most of what a task costs is making it, and a handler that has nothing to wait for is over with its first poll. Each
//! starting task polls one job and goes to the end of its thread's queue, as a task of that job alone would; and while
//! jobs are left, it polls none unless another one is in that queue, where any free thread finds it: so a handler that
//! holds its thread holds up no other.

use super::core::Core;
use crate::{context::JobContext, executor::caught, job::JobId, registry::JobEntry};
use std::{
    collections::VecDeque,
    future::{Future, poll_fn},
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll, Waker},
    time::Duration,
};

/// A single poll of a handler that takes longer than this is named in a warning: it held a thread of the runtime.
const LONG_POLL: Duration = Duration::from_secs(1);

/// How long ends wait for those of the other jobs that are being started, to be told of together.
const TOGETHER: Duration = Duration::from_millis(1);

/// A job that was taken and is to be started.
pub(super) struct Taken {
    pub(super) entry: &'static JobEntry,
    pub(super) ctx: JobContext,
    pub(super) place: usize,
}

/// The jobs that are to be started, and who does it.
#[derive(Default)]
pub(super) struct Starting(Mutex<Queue>);

#[derive(Default)]
struct Queue {
    taken: VecDeque<Taken>,
    /// How many starting tasks wait for their turn with the runtime.
    waiting: usize,
    /// Since when, on the steady clock, there are ends that nobody was told of.
    ended: Option<Duration>,
}

impl Queue {
    /// A job has ended: whether it is to be told now.
    fn tells_of_end(&mut self, now: Duration) -> bool {
        let since = *self.ended.get_or_insert(now);
        let tells = self.taken.is_empty() || now.saturating_sub(since) >= TOGETHER;
        if tells {
            self.ended = None;
        }
        tells
    }
}

impl Starting {
    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Starts these jobs, in their order.
pub(super) fn start(core: &Arc<Core>, taken: impl IntoIterator<Item = Taken>) {
    let mut queue = core.starting.queue();
    queue.taken.extend(taken);
    let nobody = queue.waiting == 0 && !queue.taken.is_empty();
    queue.waiting += usize::from(nobody);
    drop(queue);
    if nobody {
        call(core);
    }
}

/// Makes one more starting task; it counts as waiting already.
fn call(core: &Arc<Core>) {
    let called = core.clone();
    let turns = poll_fn(move |cx| {
        let ended = turn(&called);
        if ended.is_pending() {
            cx.waker().wake_by_ref();
        }
        ended
    });
    tokio::spawn(core.surround(turns));
}

/// One turn of a starting task; ready when there is nothing left to do.
///
/// What it wakes or makes runs next on its thread and nowhere else: so it never does that and polls a job in one turn.
fn turn(core: &Arc<Core>) -> Poll<()> {
    let mut queue = core.starting.queue();
    queue.waiting -= 1;
    let alone = queue.waiting == 0 && queue.taken.len() > 1;
    let tells = queue.taken.len() == 1 && queue.ended.take().is_some();
    if alone || tells {
        queue.waiting += 1 + usize::from(alone);
        drop(queue);
        if alone {
            call(core);
        }
        if tells {
            core.tell_of_ends();
        }
        return Poll::Pending;
    }
    let Some(taken) = queue.taken.pop_front() else { return Poll::Ready(()) };
    drop(queue);
    // Whatever panics there is not to end the starting of the others.
    let ended = caught(|| begin(core, taken)).unwrap_or_default();
    let mut queue = core.starting.queue();
    let done = queue.taken.is_empty();
    queue.waiting += usize::from(!done);
    let tells = ended.is_some_and(|now| queue.tells_of_end(now));
    drop(queue);
    if tells {
        core.tell_of_ends();
    }
    if done { Poll::Ready(()) } else { Poll::Pending }
}

/// Polls a job for the first time, and has a task made for what is left of it. When it ended, if it did.
fn begin(core: &Arc<Core>, taken: Taken) -> Option<Duration> {
    let (id, entry) = (taken.ctx.id(), taken.entry);
    let begun = core.clock().steady();
    let mut run = Box::pin(core.clone().run(taken, begun));
    // Its own task polls it once more, so nobody needs to be woken here.
    let polled = run.as_mut().poll(&mut Context::from_waker(Waker::noop()));
    let now = core.clock().steady();
    watch(id, entry, now.saturating_sub(begun));
    if polled.is_ready() {
        return Some(now);
    }
    tokio::spawn(core.surround(go_on(core.clone(), id, entry, run)));
    None
}

/// The rest of a job that waits.
async fn go_on(core: Arc<Core>, id: JobId, entry: &JobEntry, mut run: Pin<Box<impl Future<Output = ()>>>) {
    let poll = |cx: &mut Context<'_>| {
        let begun = core.clock().steady();
        let polled = run.as_mut().poll(cx);
        let now = core.clock().steady();
        watch(id, entry, now.saturating_sub(begun));
        polled.map(|()| now)
    };
    let now = poll_fn(poll).await;
    let tells = core.starting.queue().tells_of_end(now);
    if tells {
        core.tell_of_ends();
    }
}

/// Says so when a poll has held its thread for long.
fn watch(id: JobId, entry: &JobEntry, held: Duration) {
    if held >= LONG_POLL {
        tracing::warn!(%id, job_type = entry.job_type, ?held, "a job held a thread of the runtime without awaiting; mark its function `blocking`");
    }
}
