//! What a running job writes for people: lines with their time and level, each within a limit.

use super::{Lease, rfc3339};
use crate::time::Millis;
use serde::{Deserialize, Serialize};
use std::fmt::{self, Write};

/// The longest line of output, in bytes; longer ones are cut, and the cut is marked.
pub const MAX_LINE: usize = 16 << 10;
/// The lines of output that are kept of one attempt: the first ones, a line that says how many were left out, and the
/// latest ones.
pub const MAX_OUTPUT_LINES: usize = 10_000;
/// The same in bytes.
pub const MAX_OUTPUT: usize = 1 << 20;
/// The claims of a job back from the one that writes, itself included, whose output is kept.
pub const OUTPUTS_KEPT: Lease = 10;

/// How much a line of output matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LogLevel {
    /// For whoever looks for a fault step by step.
    Trace,
    /// For whoever looks for a fault.
    Debug,
    /// What happens.
    Info,
    /// Something is not as it should be.
    Warn,
    /// Something failed.
    Error,
}

impl LogLevel {
    /// All of them; the place is the stored number.
    pub const ALL: [Self; 5] = [Self::Trace, Self::Debug, Self::Info, Self::Warn, Self::Error];

    /// The stored number.
    pub const fn code(self) -> i64 {
        self as i64
    }

    /// The level with this stored number.
    pub fn from_code(code: i64) -> Option<Self> {
        usize::try_from(code).ok().and_then(|code| Self::ALL.get(code)).copied()
    }

    /// The word for it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Trace => "trace",
            Self::Debug => "debug",
            Self::Info => "info",
            Self::Warn => "warn",
            Self::Error => "error",
        }
    }
}

impl fmt::Display for LogLevel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl From<tracing::Level> for LogLevel {
    fn from(level: tracing::Level) -> Self {
        match level {
            tracing::Level::TRACE => Self::Trace,
            tracing::Level::DEBUG => Self::Debug,
            tracing::Level::INFO => Self::Info,
            tracing::Level::WARN => Self::Warn,
            tracing::Level::ERROR => Self::Error,
        }
    }
}

/// One line that a job wrote while it ran.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct OutputLine {
    /// The claim that it was written under; [`Attempt::lease`](super::Attempt::lease) names the same.
    pub lease: Lease,
    /// Its place in the output of that attempt, from 0; places of lines that were left out are skipped.
    pub seq: i64,
    /// When it was written.
    #[serde(serialize_with = "rfc3339")]
    pub at: Millis,
    /// How much it matters.
    pub level: LogLevel,
    /// As it was written, line breaks and control characters too, but for NUL; at most [`MAX_LINE`] bytes.
    pub text: String,
}

impl OutputLine {
    /// Where it stands in the output of its job: what comes after it, is read with this.
    pub fn place(&self) -> (Lease, i64) {
        (self.lease, self.seq)
    }
}

/// `text` as a line of output. However long it is, no more of it than fits is ever held.
pub(crate) fn line(text: impl fmt::Display) -> String {
    let mut line = Line::default();
    // Only a Display that fails by itself is an error here; what it wrote until then is the line.
    let _ = write!(line, "{text}");
    line.end()
}

/// A line while it is written.
#[derive(Default)]
struct Line {
    text: String,
    /// What did not fit, in bytes.
    cut: usize,
}

impl Line {
    fn end(mut self) -> String {
        const ROOM: usize = 40;
        if self.cut > 0 {
            let end = self.text.floor_char_boundary(MAX_LINE - ROOM);
            self.cut += self.text.len() - end;
            self.text.truncate(end);
            let _ = write!(self.text, " … [{} bytes cut]", self.cut);
        }
        self.text
    }

    fn push(&mut self, part: &str) {
        let room = if self.cut > 0 { 0 } else { MAX_LINE - self.text.len() };
        let end = part.floor_char_boundary(room);
        self.text.push_str(&part[..end]);
        self.cut += part.len() - end;
    }
}

impl Write for Line {
    fn write_str(&mut self, part: &str) -> fmt::Result {
        // NUL ends a text in some of SQLite's functions.
        for (place, part) in part.split('\0').enumerate() {
            if place > 0 {
                self.push("\u{fffd}");
            }
            self.push(part);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_that_fits_is_kept_as_it_is() {
        for text in ["", "one\ttwo\r\nthree", "\u{1b}[31mred\u{1b}[0m", "10 %\r20 %\r", "äöü €😀"] {
            assert_eq!(line(text), text);
        }
        let full = "x".repeat(MAX_LINE);
        assert_eq!(line(&full), full);
        assert_eq!(line("a\0b\0"), "a\u{fffd}b\u{fffd}");
    }

    #[test]
    fn a_longer_line_is_cut_on_a_character_and_says_what_is_missing() {
        for character in ["x", "é", "€", "😀"] {
            for more in [1, 2, 100, 1_000_000] {
                let text = character.repeat(MAX_LINE / character.len() + more);
                let short = line(&text);
                let (kept, mark) = short.rsplit_once(" … [").expect("a mark");
                assert!(short.len() <= MAX_LINE && text.starts_with(kept) && kept.len() > MAX_LINE - 50);
                assert_eq!(mark, format!("{} bytes cut]", text.len() - kept.len()));
            }
        }
    }

    /// Writes for ever, in pieces.
    struct Endless;

    impl fmt::Display for Endless {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            (0..10_000).try_for_each(|_| f.write_str("0123456789abcdef€"))
        }
    }

    #[test]
    fn no_more_of_a_line_is_held_than_fits() {
        let mut held = Line::default();
        write!(held, "{Endless}").unwrap();
        assert!(held.text.capacity() <= 2 * MAX_LINE);
        let text = held.end();
        assert!(text.len() <= MAX_LINE);
        assert!(text.contains("bytes cut]"));
    }
}
