//! CronError: what is wrong with a pattern or a zone, where, and what to write.

use crate::MAX_PATTERN;

/// What is wrong with a pattern or a zone.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CronError {
    /// More text than any pattern needs; it was not looked into.
    #[error("a pattern of {bytes} bytes; at most {MAX_PATTERN} are read")]
    TooLong {
        /// How long it is.
        bytes: usize,
    },
    /// Neither five fields nor six.
    #[error(
        "{found} {}; write five, minute hour day month weekday: `*/5 * * * *`, or six, the second first: `0 */5 * * * *`",
        if *found == 1 { "field" } else { "fields" }
    )]
    Fields {
        /// How many there are.
        found: usize,
    },
    /// A word with an `@` that is none.
    #[error("`{written}` is no pattern; known are @hourly, @daily, @midnight, @weekly, @monthly, @yearly, @annually{}",
        .meant.map(|meant| format!("; did you mean `{meant}`?")).unwrap_or_default())]
    Nickname {
        /// As it was written.
        written: String,
        /// What may have been meant.
        meant: Option<&'static str>,
    },
    /// A field that can't be read.
    #[error("{field} `{written}`: {why}")]
    Field {
        /// Which one: second, minute, hour, day, month or weekday.
        field: &'static str,
        /// As it was written.
        written: String,
        /// What is wrong with it and what to write.
        why: String,
    },
    /// All fields can be read, and no moment fits them.
    #[error("`{pattern}` never comes: no month of it has such a day")]
    Never {
        /// As it was written.
        pattern: String,
    },
    /// No zone of this name.
    #[error("there is no time zone `{written}`{}",
        .meant.map_or("; write its IANA name, such as `Europe/Warsaw`, or `UTC`".into(), |meant| format!("; did you mean `{meant}`?")))]
    UnknownZone {
        /// As it was written, cut to 64 characters.
        written: String,
        /// What may have been meant.
        meant: Option<&'static str>,
    },
}

impl CronError {
    /// Whether it is the zone that is wrong, and not the pattern.
    pub fn is_of_zone(&self) -> bool {
        matches!(self, Self::UnknownZone { .. })
    }
}
