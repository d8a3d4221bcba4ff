//! Wall time, steady time and sleep, as one thing that tests can hold in their hand.

use chrono::{DateTime, Utc};
use std::{
    collections::BTreeMap,
    future::Future,
    pin::Pin,
    sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll, Waker},
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

/// An instant: Unix milliseconds, UTC.
pub type Millis = i64;

/// A future that ends at a steady time.
pub type Sleep<'a> = Pin<Box<dyn Future<Output = ()> + Send + 'a>>;

/// Where jobq takes the time from.
///
/// The wall clock stamps rows and decides what is due; the steady clock measures how long something took and can
/// not be stepped. [`SystemClock`] is the real one, [`ManualClock`] moves only when a test says so.
pub trait Clock: Send + Sync + 'static {
    /// The wall clock.
    fn now(&self) -> Millis;
    /// Time since some fixed point, never going back.
    fn steady(&self) -> Duration;
    /// Ends when [`steady`](Self::steady) has reached `until`.
    fn sleep_until(&self, until: Duration) -> Sleep<'_>;
    /// Ends when `duration` has passed on the steady clock.
    fn sleep(&self, duration: Duration) -> Sleep<'_> {
        self.sleep_until(self.steady().saturating_add(duration))
    }
}

/// The machine's clocks.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

/// A century ahead is never, and within what instants, timers and factors can hold.
pub(crate) const NEVER: Duration = Duration::from_secs(100 * 365 * 24 * 3600);

static START: LazyLock<Instant> = LazyLock::new(Instant::now);

impl Clock for SystemClock {
    fn now(&self) -> Millis {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Millis::try_from(since.as_millis()).unwrap_or(Millis::MAX)
    }

    fn steady(&self) -> Duration {
        START.elapsed()
    }

    fn sleep_until(&self, until: Duration) -> Sleep<'_> {
        Box::pin(tokio::time::sleep_until((*START + until.min(NEVER)).into()))
    }
}

/// A clock that stands still until it is advanced. Clones share one time.
#[derive(Clone, Debug)]
pub struct ManualClock(Arc<Mutex<Manual>>);

#[derive(Debug)]
struct Manual {
    wall: Millis,
    steady: Duration,
    sleepers: BTreeMap<(Duration, u64), Waker>,
    tickets: u64,
}

impl ManualClock {
    /// A clock that shows `wall`, Unix milliseconds.
    pub fn at(wall: Millis) -> Self {
        let steady = Duration::from_secs(1);
        Self(Arc::new(Mutex::new(Manual { wall, steady, sleepers: BTreeMap::new(), tickets: 0 })))
    }

    /// Moves both clocks on and wakes everything that slept until then.
    pub fn advance(&self, by: Duration) {
        let due = {
            let mut clock = self.lock();
            clock.wall += by.as_millis() as Millis;
            clock.steady += by;
            let now = clock.steady;
            let later = clock.sleepers.split_off(&(now, u64::MAX));
            std::mem::replace(&mut clock.sleepers, later)
        };
        due.into_values().for_each(Waker::wake);
    }

    /// Steps the wall clock alone, as an administrator or a time server does.
    pub fn step_wall(&self, by: Millis) {
        self.lock().wall += by;
    }

    /// How many sleeps wait for this clock: a test's way to know that a loop has come to rest.
    pub fn sleepers(&self) -> usize {
        self.lock().sleepers.len()
    }

    fn lock(&self) -> MutexGuard<'_, Manual> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Default for ManualClock {
    /// 2026-01-01T00:00:00Z.
    fn default() -> Self {
        Self::at(1_767_225_600_000)
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Millis {
        self.lock().wall
    }

    fn steady(&self) -> Duration {
        self.lock().steady
    }

    fn sleep_until(&self, until: Duration) -> Sleep<'_> {
        Box::pin(ManualSleep { clock: self.clone(), until, ticket: None })
    }
}

struct ManualSleep {
    clock: ManualClock,
    until: Duration,
    ticket: Option<u64>,
}

impl Future for ManualSleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let this = &mut *self;
        let mut clock = this.clock.lock();
        if clock.steady >= this.until {
            return Poll::Ready(());
        }
        let ticket = *this.ticket.get_or_insert_with(|| {
            clock.tickets += 1;
            clock.tickets
        });
        clock.sleepers.insert((this.until, ticket), cx.waker().clone());
        Poll::Pending
    }
}

impl Drop for ManualSleep {
    fn drop(&mut self) {
        if let Some(ticket) = self.ticket {
            self.clock.lock().sleepers.remove(&(self.until, ticket));
        }
    }
}

/// Waits for this long in real time, also where the timers of tokio are paused.
pub(crate) async fn patiently<F: Future>(work: F, patience: Duration) -> Option<F::Output> {
    let mut work = std::pin::pin!(work);
    let begun = Instant::now();
    while let Some(left) = patience.checked_sub(begun.elapsed()).filter(|left| !left.is_zero()) {
        if let Ok(worked) = tokio::time::timeout(left, &mut work).await {
            return Some(worked);
        }
    }
    None
}

/// `n` seconds.
pub const fn secs(n: u64) -> Duration {
    Duration::from_secs(n)
}

/// `n` minutes; what is longer than a `Duration` can be is its longest.
pub const fn mins(n: u64) -> Duration {
    secs(n.saturating_mul(60))
}

/// `n` hours, likewise.
pub const fn hours(n: u64) -> Duration {
    mins(n.saturating_mul(60))
}

/// `n` times 24 hours, likewise.
pub const fn days(n: u64) -> Duration {
    hours(n.saturating_mul(24))
}

/// The first whole millisecond that is not before `at`.
pub(crate) fn whole_millis(at: DateTime<Utc>) -> Millis {
    let begun = !at.timestamp_subsec_nanos().is_multiple_of(1_000_000);
    at.timestamp_millis().saturating_add(begun.into())
}

/// `millis` as a date, for people and JSON; an instant outside chrono's range is shown as its nearest end.
pub(crate) fn date(millis: Millis) -> DateTime<Utc> {
    let end = if millis < 0 { DateTime::<Utc>::MIN_UTC } else { DateTime::<Utc>::MAX_UTC };
    DateTime::from_timestamp_millis(millis).unwrap_or(end)
}

/// A duration as whole milliseconds, capped far above any real one so that sums never overflow.
pub(crate) fn millis(duration: Duration) -> Millis {
    const CENTURIES: Millis = 1 << 45;
    Millis::try_from(duration.as_millis()).unwrap_or(CENTURIES).min(CENTURIES)
}
