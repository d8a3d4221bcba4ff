//! How a worker ends: the graceful stop, and the signals that ask for it.

use super::{
    Worker, WorkerError, WorkerHandle,
    core::{Core, Stop},
};
use crate::executor::Order;
use std::{sync::Arc, time::Duration};
use tokio::signal::unix::{Signal, SignalKind, signal};

/// The exit code of a process whose handlers held threads of the runtime and could not be stopped; see
/// [`Worker::run`].
pub const EXIT_STUCK: i32 = 70;

/// How long cancelled handlers may take to end by themselves …
const AFTER_CANCEL: Duration = Duration::from_millis(1400);
/// … and where the end is wanted at once.
const AFTER_CANCEL_NOW: Duration = Duration::from_millis(1000);
/// How long dropped handlers may take to be gone.
const AFTER_DROP: Duration = Duration::from_millis(150);
/// How long the last ends may take to be stored.
const LAST_WRITES: Duration = Duration::from_millis(250);
/// How long the sign-out may take to be stored …
const SIGN_OUT: Duration = Duration::from_millis(500);
/// … and where the time is up.
const SIGN_OUT_NOW: Duration = Duration::from_millis(100);

/// Lets running jobs finish for the grace, cancels them, drops them, gives them back; all ends are stored when it
/// returns, or named in the log. Then signs out. What it takes after the grace is less than 2 s.
pub(super) async fn wind_down(core: &Core) {
    core.ask_stop(Stop::Graceful);
    core.store().withdraw(core.identity().id());
    let settled = tokio::select! {
        biased;
        () = core.all_done() => true,
        () = core.stop_asked(Stop::Now) => false,
        () = core.clock().sleep(core.settings().grace) => false,
    };
    if settled {
        return sign_out(core, SIGN_OUT).await;
    }
    if core.stop() < Stop::Dropped {
        cancel(core).await;
    }
    core.order(Order::Drop);
    within(core, AFTER_DROP).await;
    for held in core.let_go() {
        tracing::warn!(id = %held.id(), job_type = held.entry.job_type, blocking = held.entry.blocking, "a job did not end when it was told to; it is given back while its handler still runs");
    }
    if !within(core, LAST_WRITES).await {
        let ids = core.unsettled();
        tracing::error!(
            jobs = ids.len(),
            ?ids,
            "the worker ends although ends or releases of these jobs could not be stored; they will be rescued and run again"
        );
    }
    sign_out(core, SIGN_OUT_NOW).await;
}

/// Signs out, and waits a little until that is stored: the process may be about to exit, and whoever looks then is not
/// to find a lost worker.
async fn sign_out(core: &Core, patience: Duration) {
    let ids = core.identity().all();
    for id in &ids {
        core.store().withdraw(*id);
        core.store().unregister(*id);
    }
    tokio::select! {
        biased;
        _ = core.store().bury(ids, core.clock().now()) => {}
        () = core.clock().sleep(patience) => {}
    }
}

/// Fires `cancelled()` everywhere and waits a little for handlers to end by themselves.
async fn cancel(core: &Core) {
    let hurried = core.stop() >= Stop::Now;
    core.order(Order::Cancel);
    let wait = if hurried { AFTER_CANCEL_NOW } else { AFTER_CANCEL };
    tokio::select! {
        biased;
        _ = within(core, wait) => {}
        () = core.stop_asked(Stop::Now), if !hurried => {}
    }
}

/// Whether all is done within this time.
async fn within(core: &Core, time: Duration) -> bool {
    tokio::select! {
        biased;
        () = core.all_done() => true,
        () = core.clock().sleep(time) => false,
    }
}

impl Worker {
    /// Runs until SIGTERM, SIGINT (ctrl-c) or SIGHUP (unless the process was started to ignore it, as by `nohup`),
    /// then stops gracefully: see [`WorkerHandle::stop`]. A second signal ends it within 2 s.
    ///
    /// From here on these signals no longer end the process by themselves, also when this has returned.
    ///
    /// An async handler that holds a thread of the runtime without awaiting can't be stopped, and would keep the process
    /// for ever at the end of `main`. When that is so after a signal, its job is given back, and the process exits here
    /// with the code [`EXIT_STUCK`]. Mark such a function `blocking`.
    ///
    /// # Errors
    /// As [`start`](Self::start), and [`WorkerError::Store`] when the storage can't be used any more, such as a
    /// database file that was replaced under the running program.
    pub async fn run(self) -> Result<(), WorkerError> {
        let mut signals = Signals::listen().map_err(|error| WorkerError::Signals(Arc::new(error)))?;
        let worker = tokio::select! {
            started = self.start() => started?,
            name = signals.next() => {
                tracing::info!(signal = name, "the worker ends before it has started");
                return Ok(());
            }
        };
        tokio::select! {
            ended = worker.ended() => return ended,
            name = signals.next() => {
                let running = worker.stats().running;
                tracing::info!(signal = name, running, "the worker stops; a second signal hurries it");
            }
        }
        worker.core.ask_stop(Stop::Graceful);
        let ended = tokio::select! {
            ended = worker.ended() => ended,
            name = signals.next() => {
                tracing::info!(signal = name, "the worker stops now");
                worker.stop_now().await
            }
        };
        worker.exit_if_stuck();
        ended
    }
}

impl WorkerHandle {
    fn exit_if_stuck(&self) {
        let stuck = self.core.stuck_threads();
        if stuck > 0 {
            tracing::error!(
                stuck,
                "handlers hold threads of the runtime and can't be stopped: the process exits"
            );
            std::process::exit(EXIT_STUCK);
        }
    }
}

/// The signals that ask a worker to stop.
struct Signals {
    term: Signal,
    int: Signal,
    hup: Option<Signal>,
}

impl Signals {
    fn listen() -> std::io::Result<Self> {
        Ok(Self {
            term: signal(SignalKind::terminate())?,
            int: signal(SignalKind::interrupt())?,
            hup: if ignores_hangup() { None } else { Some(signal(SignalKind::hangup())?) },
        })
    }

    async fn next(&mut self) -> &'static str {
        let hup = async {
            match &mut self.hup {
                Some(hup) => hup.recv().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            _ = self.term.recv() => "SIGTERM",
            _ = self.int.recv() => "SIGINT",
            _ = hup => "SIGHUP",
        }
    }
}

/// Whether the process was started with SIGHUP ignored; known on Linux alone.
fn ignores_hangup() -> bool {
    let Ok(status) = std::fs::read_to_string("/proc/self/status") else { return false };
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    ignored.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).is_some_and(|mask| mask & 1 != 0)
}
