//! The guard before croner: a pattern's length, its fields, and each number in them, with errors that name the field.

use crate::{CronError, MAX_PATTERN};
use std::ops::RangeInclusive;

/// Words for whole patterns.
const NICKNAMES: [(&str, &str); 7] = [
    ("@hourly", "0 0 * * * *"),
    ("@daily", "0 0 0 * * *"),
    ("@midnight", "0 0 0 * * *"),
    ("@weekly", "0 0 0 * * SUN"),
    ("@monthly", "0 0 0 1 * *"),
    ("@yearly", "0 0 0 1 1 *"),
    ("@annually", "0 0 0 1 1 *"),
];

struct Field {
    name: &'static str,
    numbers: RangeInclusive<u32>,
    /// Names for its numbers, the first of them for the least.
    names: &'static [&'static str],
    /// Letters and signs with a meaning here that croner knows.
    signs: &'static str,
}

const MONTHS: [&str; 12] =
    ["JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"];
const WEEKDAYS: [&str; 7] = ["SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"];
const FIELDS: [Field; 6] = [
    Field { name: "second", numbers: 0..=59, names: &[], signs: "" },
    Field { name: "minute", numbers: 0..=59, names: &[], signs: "" },
    Field { name: "hour", numbers: 0..=23, names: &[], signs: "" },
    Field { name: "day", numbers: 1..=31, names: &[], signs: "LW?" },
    Field { name: "month", numbers: 1..=12, names: &MONTHS, signs: "" },
    Field { name: "weekday", numbers: 0..=7, names: &WEEKDAYS, signs: "L#?+" },
];

/// The six fields of a pattern, each checked.
pub(crate) fn read(pattern: &str) -> Result<Vec<String>, CronError> {
    if pattern.len() > MAX_PATTERN {
        return Err(CronError::TooLong { bytes: pattern.len() });
    }
    let pattern = pattern.trim();
    let pattern = if pattern.starts_with('@') { nickname(pattern)? } else { pattern };
    let mut fields: Vec<String> = pattern.split_whitespace().map(str::to_ascii_uppercase).collect();
    match fields.len() {
        5 => fields.insert(0, "0".into()),
        6 => {}
        found => return Err(CronError::Fields { found }),
    }
    for (spec, field) in FIELDS.iter().zip(&fields) {
        spec.check(field)?;
    }
    Ok(fields)
}

/// What croner refuses of fields that were checked.
pub(crate) fn refused(why: &croner::errors::CronError) -> CronError {
    CronError::Field { field: "pattern", written: String::new(), why: why.to_string() }
}

fn nickname(written: &str) -> Result<&'static str, CronError> {
    let known = NICKNAMES.iter().find(|(name, _)| name.eq_ignore_ascii_case(written));
    known.map(|(_, pattern)| *pattern).ok_or_else(|| {
        let likeness = |name: &str| strsim::jaro_winkler(name, &written.to_ascii_lowercase());
        let near = NICKNAMES.iter().map(|(name, _)| (likeness(name), *name));
        let nearest = near.reduce(|best, other| if other.0 > best.0 { other } else { best });
        let meant = nearest.filter(|(likeness, _)| *likeness > 0.85).map(|(_, name)| name);
        CronError::Nickname { written: written.to_owned(), meant }
    })
}

impl Field {
    fn check(&self, written: &str) -> Result<(), CronError> {
        let wrong = |why| CronError::Field { field: self.name, written: written.to_owned(), why };
        let items = written.strip_prefix('+').filter(|_| self.signs.contains('+')).unwrap_or(written);
        items.split(',').try_for_each(|item| self.check_item(item)).map_err(wrong)?;
        // What croner alone knows: which of its signs go together.
        let place = FIELDS.iter().position(|field| field.name == self.name).unwrap_or_default();
        let mut alone = ["*"; 6];
        alone[place] = written;
        let alone = alone.join(" ").parse::<croner::Cron>();
        alone.map(drop).map_err(|why| wrong(format!("{why}")))
    }

    fn check_item(&self, item: &str) -> Result<(), String> {
        let (base, step) = match item.split_once('/') {
            Some((base, step)) => (base, Some(step)),
            None => (item, None),
        };
        if base.is_empty() {
            return Err(match step {
                Some(step) => format!("nothing stands before the step; write `*/{step}`"),
                None => "nothing stands beside a comma".into(),
            });
        }
        if let Some(step) = step {
            self.check_step(base, step)?;
        }
        if base == "*" || (base == "?" && self.signs.contains('?')) {
            return Ok(());
        }
        if base.len() < 8 && base.contains(['L', 'W', '#']) && !self.signs.is_empty() && !self.is_name(base) {
            return Ok(());
        }
        match base.split_once('-') {
            None => self.number(base).map(drop),
            Some((from, to)) => {
                let (first, last) = (self.number(from)?, self.number(to)?);
                // Sunday is both ends of the week.
                let runs_backwards = first > last && to != "SUN";
                match runs_backwards {
                    true => Err(format!("`{base}` runs backwards; write the smaller one first")),
                    false => Ok(()),
                }
            }
        }
    }

    fn check_step(&self, base: &str, step: &str) -> Result<(), String> {
        let most = self.numbers.end();
        let steps = step.parse::<u32>().ok().filter(|_| step.bytes().all(|byte| byte.is_ascii_digit()));
        match steps {
            Some(0) => Err("a step of 0 never moves on; write 1 or more".into()),
            Some(steps) if steps > *most => {
                Err(format!("a step of {steps} is longer than the field, which ends at {most}"))
            }
            Some(_) if base != "*" && !base.contains('-') => {
                Err(format!("a step needs a range before it; write `*/{step}` or `{base}-{most}/{step}`"))
            }
            Some(_) => Ok(()),
            None => Err(format!("`{step}` is no step; write a whole number after the `/`")),
        }
    }

    fn is_name(&self, word: &str) -> bool {
        self.names.contains(&word)
    }

    fn number(&self, word: &str) -> Result<u32, String> {
        let (least, most) = (*self.numbers.start(), *self.numbers.end());
        if let Some(place) = self.names.iter().position(|name| *name == word) {
            return Ok(least + place as u32);
        }
        let number = word.parse().ok().filter(|_| word.bytes().all(|byte| byte.is_ascii_digit()));
        number.filter(|number| self.numbers.contains(number)).ok_or_else(|| {
            let names = match (self.names.first(), self.names.last()) {
                (Some(first), Some(last)) => format!("{first} to {last}, or "),
                _ => String::new(),
            };
            format!("`{word}` is no {}; write {names}{least} to {most}", self.name)
        })
    }
}
