//! What is counted while a work runs, and how it is told.

use crate::Payload;
use std::{
    collections::BTreeMap,
    fmt, fs,
    future::Future,
    sync::{
        Mutex,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::{Duration, SystemTime, UNIX_EPOCH},
};

static DONE: AtomicU64 = AtomicU64::new(0);
static LAST_AT: AtomicU64 = AtomicU64::new(0);
static ERRORS: AtomicU64 = AtomicU64::new(0);
static LATENCIES: Mutex<Vec<u64>> = Mutex::new(Vec::new());

/// The handler of every queue: counts, and takes a sample where the job is stamped.
pub fn handle(job: &Payload) {
    let now = now_ns();
    if job.t > 0 {
        LATENCIES.lock().expect("nobody panics with it").push(now.saturating_sub(job.t));
    }
    LAST_AT.fetch_max(now, Relaxed);
    DONE.fetch_add(1, Relaxed);
}

/// How many handlers ran.
pub fn done() -> u64 {
    DONE.load(Relaxed)
}

pub(crate) fn last_at() -> u64 {
    LAST_AT.load(Relaxed)
}

pub(crate) fn errors() -> u64 {
    ERRORS.load(Relaxed)
}

/// Awaits what may fail; the first failure is shown, all are counted.
pub(crate) async fn counted(result: impl Future<Output = Result<(), String>>) {
    if let Err(error) = result.await
        && ERRORS.fetch_add(1, Relaxed) == 0
    {
        eprintln!("first error: {error}");
    }
}

/// Nanoseconds of Unix time.
///
/// # Panics
/// Where the clock is before 1970 or after 2554.
pub fn now_ns() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("the clock is past 1970");
    u64::try_from(now.as_nanos()).expect("the clock is before 2554")
}

/// Figures by name. As text: one line of JSON.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Figures(pub BTreeMap<String, f64>);

impl Figures {
    pub(crate) fn of(name: &str, value: f64) -> Self {
        Self(BTreeMap::from([(name.to_owned(), value)]))
    }

    pub(crate) fn rate(jobs: u64, took: Duration) -> Self {
        let mut figures = Self::of("rate", jobs as f64 / took.as_secs_f64());
        figures.set("jobs", jobs as f64);
        figures
    }

    /// Notes a figure.
    pub fn set(&mut self, name: &str, value: f64) {
        self.0.insert(name.to_owned(), value);
    }
}

impl fmt::Display for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&serde_json::to_string(&self.0).map_err(|_| fmt::Error)?)
    }
}

/// The latencies' median and 99th of 100, in milliseconds, and how many there are.
pub(crate) fn samples() -> Figures {
    let mut samples = LATENCIES.lock().expect("nobody panics with it").clone();
    samples.sort_unstable();
    let mut figures = Figures::of("samples", samples.len() as f64);
    for (name, share) in [("p50_ms", 0.50), ("p99_ms", 0.99)] {
        if let Some(time) = quantile_ms(&samples, share) {
            figures.set(name, time);
        }
    }
    figures
}

/// What this share of the sorted nanoseconds does not exceed, in milliseconds.
pub fn quantile_ms(sorted: &[u64], share: f64) -> Option<f64> {
    let last = sorted.len().checked_sub(1)?;
    Some(sorted[(last as f64 * share).round() as usize] as f64 / 1e6)
}

/// What this program has run so far, the threads that have ended included.
pub(crate) fn cpu_time() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: it writes to that place and to no other.
    let answer = unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &raw mut time) };
    assert_eq!(answer, 0, "Linux has that clock");
    Duration::new(time.tv_sec.cast_unsigned(), u32::try_from(time.tv_nsec).expect("less than a second"))
}

/// Memory of this program, in MB of 1,000,000 bytes.
pub(crate) fn resident_mb() -> f64 {
    let status = fs::read_to_string("/proc/self/status").expect("Linux");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("a line VmRSS");
    let kib: f64 = line.trim().trim_end_matches(" kB").parse().expect("a number of kB");
    kib * 1_024.0 / 1e6
}
