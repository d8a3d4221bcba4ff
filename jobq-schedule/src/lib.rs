//! What a cron pattern in a time zone means: when it ticks, and what is wrong with it; pure.
//!
//! The attribute checks patterns with it when a program is compiled, and workers tick by it, so that both mean the
//! same. croner reads the fields and finds the next wall-clock time that they name. Everything about time zones is
//! decided here: croner is never shown one.
//!
//! # When a pattern ticks
//! **When its zone's clock first shows a time of the pattern, or has jumped over one.** So a time that a spring change
//! leaves out ticks at the first instant after it, once, however many were left out, and a time that an autumn change
//! repeats ticks the first time. **Interval patterns tick both times**: those with a `*` or a `/` in second, minute or
//! hour, or with every hour of the day. They mean "this often", the others mean "at these times".

use chrono::{
    DateTime, Datelike, FixedOffset, MappedLocalTime, NaiveDate, NaiveDateTime, Offset, TimeDelta, TimeZone,
    Utc,
};
use chrono_tz::Tz;

mod error;
mod field;

pub use error::CronError;

/// The longest pattern, in bytes.
pub const MAX_PATTERN: usize = 255;
/// No zone has ever been further from UTC than this.
const FARTHEST: TimeDelta = TimeDelta::hours(26);
/// croner looks no further than the year 5000; nothing is asked of it near that.
const LAST_SECOND: i64 = 90_000_000_000;

/// A pattern in a time zone.
///
/// ```
/// use jobq_schedule::Cron;
///
/// let nightly = Cron::parse("30 2 * * *", "Europe/Warsaw").unwrap();
/// let before = "2026-03-28T12:00:00Z".parse().unwrap();
/// let runs: Vec<_> = nightly.runs(before).take(2).map(|run| run.to_rfc3339()).collect();
/// // 02:30 does not exist on the 29th: the clock goes from 02:00 to 03:00.
/// assert_eq!(runs, ["2026-03-29T03:00:00+02:00", "2026-03-30T02:30:00+02:00"]);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cron {
    pattern: croner::Cron,
    zone: Tz,
    interval: bool,
}

impl Cron {
    /// Reads a pattern of five fields, `minute hour day month weekday`, or six, with the second first; or `@hourly`,
    /// `@daily`, `@midnight`, `@weekly`, `@monthly`, `@yearly`, `@annually`. Names of months and weekdays may stand for
    /// their numbers. Where day and weekday are both given, either of them ticks. `L` is the last day of the month,
    /// `15W` the working day nearest to the 15th, `FRI#2` the second Friday, `FRI#L` the last one.
    ///
    /// The zone is a name of the IANA database, `Europe/Warsaw`.
    ///
    /// # Errors
    /// What is wrong, where, and what to write.
    pub fn parse(pattern: &str, zone: &str) -> Result<Self, CronError> {
        let cron = Self::of_pattern(pattern)?;
        Ok(Self { zone: read_zone(zone)?, ..cron })
    }

    fn of_pattern(written: &str) -> Result<Self, CronError> {
        let fields = field::read(written)?;
        let pattern = fields.join(" ").parse::<croner::Cron>().map_err(|why| field::refused(&why))?;
        let every_hour = pattern.pattern.hours.values().len() == 24;
        let interval = every_hour || fields[..3].iter().any(|field| field.contains(['*', '/']));
        match comes(&pattern.pattern) {
            true => Ok(Self { pattern, zone: Tz::UTC, interval }),
            false => Err(CronError::Never { pattern: written.trim().to_owned() }),
        }
    }

    /// Whether it means "this often" rather than "at these times".
    pub fn is_interval(&self) -> bool {
        self.interval
    }

    /// The zone's name.
    pub fn zone(&self) -> &'static str {
        self.zone.name()
    }

    /// The first tick after an instant, both in Unix milliseconds; always a whole second. `None` beyond the year 4800.
    pub fn next_after(&self, instant: i64) -> Option<i64> {
        let after = instant.div_euclid(1000);
        if !(-LAST_SECOND..LAST_SECOND).contains(&after) {
            return None;
        }
        let first = self.first_pass(after)?;
        let tick = self.second_pass(after).map_or(first, |second| second.min(first));
        Some(tick * 1000)
    }

    /// The ticks after an instant, as the zone's clock shows them.
    pub fn runs(&self, after: DateTime<Utc>) -> impl Iterator<Item = DateTime<FixedOffset>> + use<'_> {
        let mut last = after.timestamp_millis();
        std::iter::from_fn(move || {
            last = self.next_after(last)?;
            let tick = self.zone.from_utc_datetime(&DateTime::from_timestamp_millis(last)?.naive_utc());
            Some(tick.with_timezone(&tick.offset().fix()))
        })
    }

    /// The next wall-clock time that the pattern names.
    fn next(&self, wall: NaiveDateTime) -> Option<NaiveDateTime> {
        self.pattern.find_next_occurrence(&wall, false).ok()
    }

    /// The first tick after `after` (Unix seconds) of the wall-clock times that are still to come then.
    fn first_pass(&self, after: i64) -> Option<i64> {
        let mut wall = self.wall(after)?;
        loop {
            wall = self.next(wall)?;
            let shown = self.zone.from_local_datetime(&wall);
            let first = match &shown {
                MappedLocalTime::Single(at) | MappedLocalTime::Ambiguous(at, _) => at.timestamp(),
                MappedLocalTime::None => self.jump_over(wall)?,
            };
            if first > after {
                return Some(first);
            }
            if let MappedLocalTime::Ambiguous(_, again) = shown
                && self.interval
                && again.timestamp() > after
            {
                return Some(again.timestamp());
            }
        }
    }

    /// For an interval pattern, where `after` lies in hours that the clock will show again: the first tick of these.
    fn second_pass(&self, after: i64) -> Option<i64> {
        if !self.interval {
            return None;
        }
        let MappedLocalTime::Ambiguous(first, again) = self.zone.from_local_datetime(&self.wall(after)?)
        else {
            return None;
        };
        if first.timestamp() != after {
            return None;
        }
        let now = self.offset(after);
        let back = first_where(after, again.timestamp(), |at| self.offset(at) != now);
        let wall = self.next(self.wall(back)? - TimeDelta::seconds(1))?;
        match self.zone.from_local_datetime(&wall) {
            MappedLocalTime::Single(at) | MappedLocalTime::Ambiguous(_, at) => Some(at.timestamp()),
            MappedLocalTime::None => self.jump_over(wall),
        }
    }

    /// The instant at which the clock jumps over `wall`, which it never shows.
    fn jump_over(&self, wall: NaiveDateTime) -> Option<i64> {
        let near = wall.and_utc().timestamp();
        let far = FARTHEST.num_seconds();
        let over = first_where(near - far, near + far, |at| self.wall(at).is_some_and(|shown| shown > wall));
        Some(over)
    }

    /// What the zone's clock shows at an instant.
    fn wall(&self, at: i64) -> Option<NaiveDateTime> {
        let utc = DateTime::from_timestamp(at, 0)?.naive_utc();
        Some(self.zone.from_utc_datetime(&utc).naive_local())
    }

    fn offset(&self, at: i64) -> Option<i32> {
        let utc = DateTime::from_timestamp(at, 0)?.naive_utc();
        Some(self.zone.offset_from_utc_datetime(&utc).fix().local_minus_utc())
    }
}

/// The next `n` ticks of a pattern after an instant, as the zone's clock shows them: for people who want to see what
/// they wrote.
///
/// ```
/// let after = "2026-10-24T12:00:00Z".parse().unwrap();
/// let runs = jobq_schedule::next_runs("0 9 * * MON-FRI", "Europe/London", after, 2).unwrap();
/// assert_eq!(runs[0].to_rfc3339(), "2026-10-26T09:00:00+00:00");
///
/// let why = jobq_schedule::next_runs("0 9 * * MOM", "Europe/London", after, 2).unwrap_err();
/// assert_eq!(why.to_string(), "weekday `MOM`: `MOM` is no weekday; write SUN to SAT, or 0 to 7");
/// ```
///
/// # Errors
/// As [`Cron::parse`].
pub fn next_runs(
    pattern: &str,
    zone: &str,
    after: DateTime<Utc>,
    n: usize,
) -> Result<Vec<DateTime<FixedOffset>>, CronError> {
    Ok(Cron::parse(pattern, zone)?.runs(after).take(n).collect())
}

/// The first number after `low`, up to `high`, for which `holds` does, where it does from some number on.
fn first_where(mut low: i64, mut high: i64, holds: impl Fn(i64) -> bool) -> i64 {
    while high - low > 1 {
        let middle = low + (high - low) / 2;
        if holds(middle) { high = middle } else { low = middle }
    }
    high
}

/// Whether there is a day that the pattern names. Whatever kinds of years there are, leap or not and beginning with each
/// weekday, are among 28 of them; croner itself looks until the year 5000.
fn comes(pattern: &croner::CronPattern) -> bool {
    let first = NaiveDate::from_ymd_opt(2000, 1, 1);
    let mut days = first.into_iter().flat_map(|day| day.iter_days().take(28 * 366));
    days.any(|day| {
        let weekday = croner::Weekday::from_days_from_sunday(day.weekday().num_days_from_sunday());
        pattern.month_match(day.month()).unwrap_or(false)
            && pattern.day_match(day.year(), day.month(), day.day(), weekday).unwrap_or(false)
    })
}

fn read_zone(written: &str) -> Result<Tz, CronError> {
    /// Longer than any zone's name.
    const LONGEST: usize = 64;
    if let Ok(zone) = written.parse() {
        return Ok(zone);
    }
    let shown: String = written.chars().take(LONGEST).collect();
    let near = |zone: &Tz| {
        let likeness = strsim::jaro_winkler(&zone.name().to_lowercase(), &shown.to_lowercase());
        (likeness >= 0.85).then_some((likeness, zone.name()))
    };
    let city = |zone: &Tz| {
        let last = zone.name().rsplit('/').next()?;
        last.eq_ignore_ascii_case(&shown.replace(' ', "_")).then_some((1.0, zone.name()))
    };
    let meant = chrono_tz::TZ_VARIANTS.iter().filter_map(|zone| city(zone).or_else(|| near(zone)));
    let meant = meant.reduce(|best, other| if other.0 > best.0 { other } else { best });
    Err(CronError::UnknownZone { written: shown, meant: meant.map(|(_, name)| name) })
}
