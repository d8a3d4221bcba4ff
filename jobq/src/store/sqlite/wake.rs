//! Wake-up by other connections' commits: the kernel tells when the -wal file is written.
//!
//! It tells before the commit can be seen, and it tells of our own commits too, so an event only makes the writing
//! thread look at `PRAGMA data_version` again, a few times within 200 ms.

use super::{files::beside, inbox::Message};
use std::{
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
        mpsc::Sender,
    },
    thread,
    time::Duration,
};

/// What the watching thread and the writing thread say to each other.
#[derive(Default)]
pub(super) struct Gate {
    /// A claim stands unanswered or somebody listens, so events matter.
    pub(super) hungry: AtomicBool,
    /// An event was sent and not yet looked at.
    pub(super) poked: AtomicBool,
    /// Who wants to hear of other connections' commits beside the claims.
    pub(super) listeners: AtomicUsize,
    /// The store is closing.
    pub(super) closed: AtomicBool,
}

/// Somebody who wants to hear of other connections' commits.
pub(super) struct Listener {
    gate: Arc<Gate>,
    to_writer: Sender<Message>,
}

impl Listener {
    pub(super) fn new(gate: Arc<Gate>, to_writer: Sender<Message>) -> Self {
        gate.listeners.fetch_add(1, Ordering::AcqRel);
        // The writing thread looks once, for what came before, and takes up the new timers.
        to_writer.send(Message::Poke).ok();
        Self { gate, to_writer }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.gate.listeners.fetch_sub(1, Ordering::AcqRel);
        self.to_writer.send(Message::Poke).ok();
    }
}

/// After an event, `data_version` is read at these times: as a rule the first or second tells; the last ones are for a
/// disk that takes its time with the commit.
pub(super) const LOOKS: [Duration; 11] = [
    Duration::ZERO,
    Duration::from_micros(200),
    Duration::from_micros(500),
    Duration::from_millis(1),
    Duration::from_millis(2),
    Duration::from_millis(5),
    Duration::from_millis(10),
    Duration::from_millis(20),
    Duration::from_millis(50),
    Duration::from_millis(100),
    Duration::from_millis(200),
];

/// The place of the next look once one has seen a commit: a moment later, and more seldom from there.
pub(super) const AFTER_A_COMMIT: usize = 4;

/// Starts the watching thread; `None` where the system has no file notification, or no more of it to give.
pub(super) fn watch(database: &Path, gate: Arc<Gate>, inbox: Sender<Message>) -> Option<thread::Thread> {
    #[cfg(target_os = "linux")]
    match linux::spawn(&beside(database, "-wal"), gate, inbox) {
        Ok(thread) => return Some(thread),
        Err(error) => {
            tracing::warn!(%error, "no file notification; other processes' jobs are looked for every 20 ms")
        }
    }
    #[cfg(not(target_os = "linux"))]
    {
        let _ = (beside(database, "-wal"), gate, inbox);
        tracing::info!(
            "no file notification on this system; other processes' jobs are looked for every 20 ms"
        );
    }
    None
}

#[cfg(target_os = "linux")]
mod linux {
    use super::*;
    use nix::{
        poll::{PollFd, PollFlags, PollTimeout, poll},
        sys::inotify::{AddWatchFlags, InitFlags, Inotify},
    };
    use std::{io, os::fd::AsFd};

    pub(super) fn spawn(wal: &Path, gate: Arc<Gate>, inbox: Sender<Message>) -> io::Result<thread::Thread> {
        let inotify = Inotify::init(InitFlags::IN_CLOEXEC | InitFlags::IN_NONBLOCK)?;
        inotify.add_watch(wal, AddWatchFlags::IN_MODIFY)?;
        let watching =
            thread::Builder::new().name("jobq-watch".into()).spawn(move || run(&inotify, &gate, &inbox))?;
        Ok(watching.thread().clone())
    }

    fn run(inotify: &Inotify, gate: &Gate, inbox: &Sender<Message>) {
        while !gate.closed.load(Ordering::Acquire) {
            if !gate.hungry.load(Ordering::Acquire) {
                thread::park_timeout(Duration::from_secs(1));
                continue;
            }
            let mut wait = [PollFd::new(inotify.as_fd(), PollFlags::POLLIN)];
            if !matches!(poll(&mut wait, PollTimeout::from(1000u16)), Ok(1..))
                || inotify.read_events().is_err()
            {
                continue;
            }
            if !gate.poked.swap(true, Ordering::AcqRel) && inbox.send(Message::Poke).is_err() {
                return;
            }
        }
    }
}
