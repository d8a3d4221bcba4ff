//! The news of a running job: how far it is, and the lines that it wrote, until its worker takes them to the store.
//!
//! A call of `progress` is a few atomic writes, whatever its number; the worker takes what was said last. Lines are kept
//! here in bounds: those that come when the first ones fill their part push one another out, and the latest of them are
//! there when the attempt ends.

use crate::{
    job::{Lease, LogLevel, MAX_LINE, MAX_OUTPUT, MAX_OUTPUT_LINES, OutputLine},
    store::{Claimed, Note, Progress},
    time::Millis,
};
use std::{
    collections::VecDeque,
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicI64, Ordering},
    },
};

/// The latest lines that are kept where not all are …
const LATEST_LINES: usize = 1_000;
/// … and how long they are together. One line fits in any case.
const LATEST: usize = 128 << 10;
/// The first lines that are kept; one more is the mark of what was left out.
const FIRST_LINES: usize = MAX_OUTPUT_LINES - LATEST_LINES - 1;
/// How long the first lines are together, with room left for the mark.
const FIRST: usize = MAX_OUTPUT - LATEST - 256;
/// The lines that one note carries at most, so that a write of one is short.
const LINES_A_NOTE: usize = 1_000;

const _: () = assert!(MAX_LINE <= LATEST);

/// What a running job said and nobody has taken yet.
#[derive(Debug, Default)]
pub(super) struct News {
    done: AtomicI64,
    total: AtomicI64,
    /// Whether `done` and `total` are news.
    moved: AtomicBool,
    /// Whether there is anything in `output` to be taken.
    wrote: AtomicBool,
    /// Whether there ever was.
    writes: AtomicBool,
    output: Mutex<Output>,
}

impl News {
    /// Whether this is the first news since they were taken.
    pub(super) fn progress(&self, done: i64, total: i64) -> bool {
        self.done.store(done, Ordering::Relaxed);
        self.total.store(total, Ordering::Relaxed);
        // Swapped and not looked at: a look could be answered before the two writes above are seen.
        !self.moved.swap(true, Ordering::AcqRel)
    }

    /// The same, for a line.
    pub(super) fn write(&self, at: Millis, level: LogLevel, text: String) -> bool {
        self.writes.store(true, Ordering::Relaxed);
        self.output().add(at, level, text);
        !self.wrote.swap(true, Ordering::AcqRel)
    }

    /// Takes the news of the attempt of `job`; the last ones say what was left out, and from then on there are none.
    pub(super) fn take(&self, job: &Claimed, last: bool, notes: &mut Vec<Note>) {
        // Most jobs have none: two looks are all that these cost.
        let moved = self.moved.load(Ordering::Relaxed) && self.moved.swap(false, Ordering::AcqRel);
        let wrote = match last {
            true => self.writes.load(Ordering::Relaxed),
            false => self.wrote.load(Ordering::Relaxed) && self.wrote.swap(false, Ordering::AcqRel),
        };
        if !moved && !wrote {
            return;
        }
        let progress = moved.then(|| Progress {
            done: self.done.load(Ordering::Relaxed),
            total: self.total.load(Ordering::Relaxed),
        });
        let mut lines = if wrote { self.output().take(job.lease, last) } else { Vec::new() };
        let mut note = Note { id: job.id, lease: job.lease, progress, lines: Vec::new() };
        while lines.len() > LINES_A_NOTE {
            let rest = lines.split_off(LINES_A_NOTE);
            notes.push(Note { lines: std::mem::replace(&mut lines, rest), ..note });
            note = Note { id: job.id, lease: job.lease, progress: None, lines: Vec::new() };
        }
        if note.progress.is_some() || !lines.is_empty() {
            notes.push(Note { lines, ..note });
        }
    }

    fn output(&self) -> MutexGuard<'_, Output> {
        self.output.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The lines of one attempt that wait to be taken.
#[derive(Debug, Default)]
struct Output {
    lines: i64,
    /// First lines, to be taken at any time.
    first: Vec<OutputLine>,
    first_bytes: usize,
    /// The lines after them, to be taken at the end.
    latest: VecDeque<OutputLine>,
    latest_bytes: usize,
    /// The place and time of the first line that was left out, and how many were.
    left_out: Option<(i64, Millis, u64)>,
    ended: bool,
}

impl Output {
    fn add(&mut self, at: Millis, level: LogLevel, text: String) {
        if self.ended {
            return;
        }
        let (seq, bytes) = (self.lines, text.len());
        self.lines += 1;
        let line = OutputLine { lease: 0, seq, at, level, text };
        let is_first = self.latest.is_empty() && self.left_out.is_none();
        if is_first && seq < FIRST_LINES as i64 && self.first_bytes + bytes <= FIRST {
            self.first_bytes += bytes;
            return self.first.push(line);
        }
        self.latest_bytes += bytes;
        self.latest.push_back(line);
        while self.latest.len() > LATEST_LINES || self.latest_bytes > LATEST {
            self.leave_out_one();
        }
    }

    fn leave_out_one(&mut self) {
        let Some(line) = self.latest.pop_front() else { return };
        self.latest_bytes -= line.text.len();
        match &mut self.left_out {
            Some((.., count)) => *count += 1,
            none => {
                *none = Some((line.seq, line.at, 1));
                let text = "… lines are left out from here on; the latest are kept when the attempt ends";
                self.first.push(mark(line.seq, line.at, text.into()));
            }
        }
    }

    fn take(&mut self, lease: Lease, last: bool) -> Vec<OutputLine> {
        let mut lines = std::mem::take(&mut self.first);
        if last {
            self.ended = true;
            if let Some((seq, at, count)) = self.left_out {
                // In the place of the mark that was there before.
                lines.retain(|line| line.seq != seq);
                lines.push(mark(seq, at, format!("… {count} lines left out")));
            }
            lines.extend(std::mem::take(&mut self.latest));
        }
        lines.iter_mut().for_each(|line| line.lease = lease);
        lines
    }
}

fn mark(seq: i64, at: Millis, text: String) -> OutputLine {
    OutputLine { lease: 0, seq, at, level: LogLevel::Warn, text }
}

/// A number of items: any integer. Below 0 counts as 0, beyond `i64` as its largest.
pub trait Amount: sealed::Amount {}

mod sealed {
    pub trait Amount {
        fn items(self) -> i64;
    }
}

macro_rules! amount {
    ($($integer:ty)*) => { $(
        impl Amount for $integer {}
        impl sealed::Amount for $integer {
            // Of some of the types all values fit.
            #[allow(irrefutable_let_patterns, unused_comparisons)]
            fn items(self) -> i64 {
                match i64::try_from(self) {
                    Ok(items) => items.max(0),
                    Err(_) if self < 0 => 0,
                    Err(_) => i64::MAX,
                }
            }
        }
    )* };
}
amount!(u8 u16 u32 u64 u128 usize i8 i16 i32 i64 i128 isize);

/// The number, within what is stored.
pub(super) fn items(amount: impl Amount) -> i64 {
    sealed::Amount::items(amount)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(output: &mut Output, last: bool) -> Vec<OutputLine> {
        output.take(7, last)
    }

    fn add(output: &mut Output, lines: std::ops::Range<u64>, text: impl Fn(u64) -> String) {
        lines.for_each(|n| output.add(n as Millis, LogLevel::Info, text(n)));
    }

    fn texts(lines: &[OutputLine]) -> Vec<&str> {
        lines.iter().map(|line| &*line.text).collect()
    }

    #[test]
    fn amounts_are_clamped() {
        assert_eq!((items(-1), items(0), items(7_u8), items(7_usize)), (0, 0, 7, 7));
        assert_eq!((items(u64::MAX), items(u128::MAX), items(i128::MIN)), (i64::MAX, i64::MAX, 0));
        assert_eq!((items(i64::MIN), items(i64::MAX)), (0, i64::MAX));
    }

    #[test]
    fn lines_within_the_limits_are_all_taken_in_order_and_once() {
        let mut output = Output::default();
        add(&mut output, 0..3, |n| n.to_string());
        assert_eq!(texts(&taken(&mut output, false)), ["0", "1", "2"]);
        add(&mut output, 3..4, |n| n.to_string());
        let last = taken(&mut output, true);
        assert_eq!((texts(&last), last[0].place()), (vec!["3"], (7, 3)));
        add(&mut output, 4..5, |n| n.to_string());
        assert_eq!(taken(&mut output, true), [], "what is written after the end is not kept");
    }

    #[test]
    fn as_many_lines_as_are_kept_are_kept_without_a_mark() {
        let mut output = Output::default();
        let most = (FIRST_LINES + LATEST_LINES) as u64;
        add(&mut output, 0..most, |n| n.to_string());
        let lines = taken(&mut output, true);
        assert_eq!(lines.len() as u64, most);
        assert!(lines.iter().zip(0..).all(|(line, n)| line.text == n.to_string() && line.seq == n));
    }

    #[test]
    fn of_a_million_lines_the_first_and_the_latest_are_kept_and_a_mark_says_how_many_are_not() {
        let mut output = Output::default();
        add(&mut output, 0..500_000, |n| n.to_string());
        let first = taken(&mut output, false);
        assert_eq!(first.len(), FIRST_LINES + 1);
        let mark = first.last().unwrap();
        assert!(mark.text.starts_with("… lines are left out from here on") && mark.level == LogLevel::Warn);
        add(&mut output, 500_000..1_000_000, |n| n.to_string());
        assert_eq!(taken(&mut output, false), []);
        let last = taken(&mut output, true);
        assert_eq!(last.len(), LATEST_LINES + 1);
        let left_out = 1_000_000 - FIRST_LINES - LATEST_LINES;
        assert_eq!(
            (last[0].place(), &*last[0].text),
            (mark.place(), &*format!("… {left_out} lines left out"))
        );
        assert_eq!((&*last[1].text, &*last[LATEST_LINES].text), ("999000", "999999"));
        assert_eq!(first.len() + last.len() - 1, MAX_OUTPUT_LINES);
    }

    #[test]
    fn a_mark_that_was_not_taken_yet_is_there_once() {
        let mut output = Output::default();
        add(&mut output, 0..20_000, |n| n.to_string());
        let lines = taken(&mut output, true);
        assert_eq!(lines.len(), MAX_OUTPUT_LINES);
        assert!(lines.is_sorted_by(|one, next| one.seq < next.seq));
        assert_eq!(lines[FIRST_LINES].text, "… 10001 lines left out");
    }

    #[test]
    fn long_lines_stay_within_the_bytes() {
        let mut output = Output::default();
        add(&mut output, 0..3_000, |n| format!("{n} {}", "x".repeat(MAX_LINE - 10)));
        let lines = taken(&mut output, true);
        let bytes: usize = lines.iter().map(|line| line.text.len()).sum();
        assert!((MAX_OUTPUT - 3 * MAX_LINE..=MAX_OUTPUT).contains(&bytes), "{bytes}");
        assert!(lines.last().unwrap().text.starts_with("2999 "));
        // A short line after a long one that did not fit is not taken for one of the first.
        let mut output = Output::default();
        add(&mut output, 0..60, |_| "x".repeat(MAX_LINE));
        add(&mut output, 60..61, |_| "short".into());
        let lines = taken(&mut output, true);
        assert!(lines.is_sorted_by(|one, next| one.seq < next.seq));
        assert_eq!(lines.last().unwrap().text, "short");
    }
}
