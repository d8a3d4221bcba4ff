//! The door to the writing thread: what it can be told, and who waits for the answer.

use super::desk::{Desk, Leave};
use crate::{
    job::{AttemptOutcome, WorkerId},
    store::{Answer, Claim, Claimed, StoreError},
    time::Millis,
};
use std::{
    future::{Future, ready},
    pin::Pin,
    sync::mpsc::Sender,
    task::{Context, Poll},
    time::{Duration, Instant},
};
use tokio::sync::oneshot;

/// What the writing thread is told.
pub(super) enum Message {
    /// Something to write.
    Act(Queued),
    /// A claim.
    Want(Want),
    /// No more claims of this worker.
    Withdraw(WorkerId),
    /// Beat for this worker, this often.
    Beat(WorkerId, Duration),
    /// This worker signs out.
    Leave(WorkerId),
    /// The -wal file was written.
    Poke,
    /// End, after what was said before.
    Close,
}

/// Something to write, and who waits for it.
pub(super) struct Queued {
    pub(super) act: Box<dyn Act>,
    pub(super) rows: usize,
    pub(super) since: Instant,
    pub(super) deadline: Option<Instant>,
}

/// A claim that waits for work.
pub(super) struct Want {
    pub(super) claim: Claim,
    pub(super) now: Millis,
    /// Not tried yet.
    pub(super) fresh: bool,
    pub(super) found: Result<Vec<Claimed>, StoreError>,
    pub(super) reply: oneshot::Sender<Result<Vec<Claimed>, StoreError>>,
}

/// What is done within a transaction, and answered after it.
pub(super) trait Act: Send {
    fn apply(&mut self, desk: &mut Desk) -> rusqlite::Result<()>;
    fn answer(self: Box<Self>, failure: Option<StoreError>);
}

struct Task<T, F> {
    run: F,
    done: Option<T>,
    reply: oneshot::Sender<Result<T, StoreError>>,
}

impl<T: Send, F: FnMut(&mut Desk) -> rusqlite::Result<T> + Send> Act for Task<T, F> {
    fn apply(&mut self, desk: &mut Desk) -> rusqlite::Result<()> {
        self.done = Some((self.run)(desk)?);
        Ok(())
    }

    fn answer(self: Box<Self>, failure: Option<StoreError>) {
        let answer = match (failure, self.done) {
            (None, Some(done)) => Ok(done),
            (failure, _) => Err(failure.unwrap_or(StoreError::Closed)),
        };
        // Nobody waits any more where the caller's future was dropped; the write stands all the same.
        self.reply.send(answer).ok();
    }
}

/// The door to the writing thread.
#[derive(Clone)]
pub(super) struct Inbox {
    pub(super) to_writer: Sender<Message>,
    opened_by: u32,
}

impl Inbox {
    pub(super) fn new(to_writer: Sender<Message>) -> Self {
        Self { to_writer, opened_by: std::process::id() }
    }

    /// Hands `run` to the next transaction. It may run more than once, where the transaction it ran in was rolled
    /// back. `deadline`: how long to wait for the write lock; `None`: as long as it takes.
    pub(super) fn write<T: Send + 'static>(
        &self,
        rows: usize,
        deadline: Option<Duration>,
        run: impl FnMut(&mut Desk) -> rusqlite::Result<T> + Send + 'static,
    ) -> Answer<'static, T> {
        let (reply, answer) = oneshot::channel();
        let since = Instant::now();
        let act = Box::new(Task { run, done: None, reply });
        let queued = Queued { act, rows, since, deadline: deadline.and_then(|wait| since.checked_add(wait)) };
        self.send(Message::Act(queued), async { answer.await.unwrap_or(Err(StoreError::Closed)) })
    }

    pub(super) fn claim(&self, claim: Claim, now: Millis) -> Answer<'static, Vec<Claimed>> {
        let (reply, answer) = oneshot::channel();
        let want = Want { claim, now, fresh: true, found: Ok(Vec::new()), reply };
        let claiming = Claiming { answer, to_writer: self.to_writer.clone(), now };
        self.send(Message::Want(want), claiming)
    }

    /// A forked child has the queue's memory, but none of its threads and locks.
    pub(super) fn is_here(&self) -> Result<(), StoreError> {
        let opened_by = self.opened_by;
        if std::process::id() == opened_by { Ok(()) } else { Err(StoreError::Forked { opened_by }) }
    }

    fn send<T: Send + 'static>(
        &self,
        message: Message,
        answer: impl Future<Output = Result<T, StoreError>> + Send + 'static,
    ) -> Answer<'static, T> {
        if let Err(forked) = self.is_here() {
            return Box::pin(ready(Err(forked)));
        }
        let sent = self.to_writer.send(message);
        Box::pin(async move {
            sent.map_err(|_| StoreError::Closed)?;
            answer.await
        })
    }
}

/// The answer of a claim. Dropped before it was taken, it gives back what it holds.
struct Claiming {
    answer: oneshot::Receiver<Result<Vec<Claimed>, StoreError>>,
    to_writer: Sender<Message>,
    now: Millis,
}

impl Future for Claiming {
    type Output = Result<Vec<Claimed>, StoreError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.answer).poll(cx).map(|answer| answer.unwrap_or(Err(StoreError::Closed)))
    }
}

impl Drop for Claiming {
    fn drop(&mut self) {
        self.answer.close();
        if let Ok(Ok(undelivered)) = self.answer.try_recv() {
            give_back(&self.to_writer, undelivered, self.now);
        }
    }
}

/// Jobs whose claimer has vanished go back as if it had released them.
pub(super) fn give_back(to_writer: &Sender<Message>, jobs: Vec<Claimed>, now: Millis) {
    let leaves: Vec<Leave> = jobs
        .into_iter()
        .map(|job| Leave {
            id: job.id,
            lease: job.lease,
            outcome: AttemptOutcome::Released,
            error: None,
            next: None,
            ties: job.ties,
            on_dead: None,
        })
        .collect();
    if !leaves.is_empty() {
        let rows = leaves.len();
        drop(Inbox::new(to_writer.clone()).write(rows, None, move |desk| desk.leave(&leaves, now)));
    }
}
