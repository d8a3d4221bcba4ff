//! What was measured: the figures of every round by subject and case, their medians and spreads.

use crate::child::Answer;
use serde_json::{Value, json};
use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};

/// One thing that is measured; the works, some in several cases.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Case {
    /// W1 from one task.
    One,
    /// W1 from 64 tasks.
    Tasks,
    /// W2.
    Bulk,
    /// W3.
    Drain,
    /// W4.
    Both,
    /// W5 in one process.
    Same,
    /// W5 across processes.
    Across,
    /// W6 with so many waiting.
    Waiting(u64),
    /// W6 with finished rows beside them.
    Finished,
    /// W6 with rows of tomorrow and of higher priority.
    Future,
    /// W6 with rows of a type that nobody runs.
    Unknown,
    /// W7.
    Idle,
    /// W8 with so many processes.
    Processes(u64),
    /// W9.
    Killed,
}

impl Case {
    /// The number of its work.
    pub fn work(self) -> u8 {
        match self {
            Self::One | Self::Tasks => 1,
            Self::Bulk => 2,
            Self::Drain => 3,
            Self::Both => 4,
            Self::Same | Self::Across => 5,
            Self::Waiting(_) | Self::Finished | Self::Future | Self::Unknown => 6,
            Self::Idle => 7,
            Self::Processes(_) => 8,
            Self::Killed => 9,
        }
    }
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::One => f.write_str("W1 one task"),
            Self::Tasks => f.write_str("W1 64 tasks"),
            Self::Bulk => f.write_str("W2 bulk of 1,000"),
            Self::Drain => f.write_str("W3 drain"),
            Self::Both => f.write_str("W4 end to end"),
            Self::Same => f.write_str("W5 same process"),
            Self::Across => f.write_str("W5 other process"),
            Self::Waiting(rows) => write!(f, "W6 {} waiting", whole(*rows)),
            Self::Finished => f.write_str("W6 beside finished rows"),
            Self::Future => f.write_str("W6 beside future rows"),
            Self::Unknown => f.write_str("W6 beside rows of an unknown type"),
            Self::Idle => f.write_str("W7 idle"),
            Self::Processes(1) => f.write_str("W8 1 process"),
            Self::Processes(count) => write!(f, "W8 {count} processes"),
            Self::Killed => f.write_str("W9 killed worker"),
        }
    }
}

/// Everything that was measured; subjects are named by their place in the list.
#[derive(Default)]
pub struct Results {
    rounds: BTreeMap<(usize, Case), Vec<Answer>>,
    cut_off: BTreeSet<(usize, Case)>,
    /// What went wrong, in words.
    pub troubles: Vec<String>,
}

impl Results {
    /// Takes the figures of one more round.
    pub fn add(&mut self, subject: usize, case: Case, answer: Answer) {
        self.rounds.entry((subject, case)).or_default().push(answer);
    }

    /// Notes that the case's time limit ended at least one of its rounds.
    pub fn mark_cut_off(&mut self, subject: usize, case: Case) {
        self.cut_off.insert((subject, case));
    }

    /// Whether the time limit ended one of its rounds.
    pub fn is_cut_off(&self, subject: usize, case: Case) -> bool {
        self.cut_off.contains(&(subject, case))
    }

    /// Whether anything of a work was measured.
    pub fn has(&self, work: u8) -> bool {
        self.rounds.keys().any(|(_, case)| case.work() == work)
    }

    /// The cases that were measured, in order.
    pub fn cases(&self, work: u8) -> BTreeSet<Case> {
        self.rounds.keys().map(|(_, case)| *case).filter(|case| case.work() == work).collect()
    }

    /// The subjects that were put to a work.
    pub fn subjects(&self, work: u8) -> BTreeSet<usize> {
        self.rounds.keys().filter(|(_, case)| case.work() == work).map(|(subject, _)| *subject).collect()
    }

    fn values(&self, subject: usize, case: Case, figure: &str) -> Vec<f64> {
        let rounds = self.rounds.get(&(subject, case)).into_iter().flatten();
        rounds.filter_map(|answer| answer.get(figure).copied()).collect()
    }

    /// The median over the rounds.
    pub fn median(&self, subject: usize, case: Case, figure: &str) -> Option<f64> {
        median(&self.values(subject, case, figure))
    }

    /// The largest of the rounds.
    pub fn max(&self, subject: usize, case: Case, figure: &str) -> Option<f64> {
        self.values(subject, case, figure).into_iter().reduce(f64::max)
    }

    /// How many rounds have the figure.
    pub fn count(&self, subject: usize, case: Case, figure: &str) -> usize {
        self.values(subject, case, figure).len()
    }

    /// All of it, for programs.
    pub fn json(&self, name: impl Fn(usize) -> String) -> Value {
        let row = |(&(subject, case), rounds): (&(usize, Case), &Vec<Answer>)| {
            let names: BTreeSet<&String> = rounds.iter().flat_map(BTreeMap::keys).collect();
            let figures: BTreeMap<_, _> = names
                .into_iter()
                .map(|figure| (figure, spread(&self.values(subject, case, figure))))
                .collect();
            json!({
                "subject": name(subject), "work": format!("W{}", case.work()), "case": case.to_string(),
                "cut_off": self.is_cut_off(subject, case), "figures": figures,
            })
        };
        self.rounds.iter().map(row).collect()
    }
}

fn spread(values: &[f64]) -> Value {
    let (min, max) = (values.iter().copied().reduce(f64::min), values.iter().copied().reduce(f64::max));
    json!({ "median": median(values), "min": min, "max": max, "rounds": values })
}

/// The middle one, or the mean of the two in the middle.
pub fn median(values: &[f64]) -> Option<f64> {
    let mut values = values.to_vec();
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.len() {
        0 => None,
        count if count % 2 == 1 => Some(values[middle]),
        _ => Some((values[middle - 1] + values[middle]) / 2.0),
    }
}

/// A figure for people: two decimals, or from a hundred on a whole number with its thousands apart.
pub fn grouped(value: f64) -> String {
    if value < 99.5 { format!("{value:.2}") } else { whole(value.round() as u64) }
}

/// A number for people: its thousands apart.
pub fn whole(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_the_middle() {
        assert_eq!(median(&[]), None);
        assert_eq!(median(&[7.0]), Some(7.0));
        assert_eq!(median(&[9.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(&[10.0, 1.0, 3.0, 2.0]), Some(2.5));
    }

    #[test]
    fn rounds_are_kept_apart_by_subject_and_case() {
        let mut results = Results::default();
        for (subject, case, rate) in
            [(0, Case::One, 3.0), (0, Case::One, 1.0), (0, Case::Tasks, 9.0), (1, Case::One, 5.0)]
        {
            results.add(subject, case, Answer::from([("rate".into(), rate)]));
        }
        results.mark_cut_off(1, Case::One);
        assert_eq!(results.median(0, Case::One, "rate"), Some(2.0));
        assert_eq!(results.max(0, Case::One, "rate"), Some(3.0));
        assert_eq!(results.median(1, Case::One, "rate"), Some(5.0));
        assert_eq!(results.median(0, Case::One, "p50_ms"), None);
        assert_eq!(results.subjects(1), BTreeSet::from([0, 1]));
        let json = results.json(|subject| format!("s{subject}"));
        assert_eq!(
            json[0]["figures"]["rate"],
            json!({"median": 2.0, "min": 1.0, "max": 3.0, "rounds": [3.0, 1.0]})
        );
        assert_eq!((&json[2]["subject"], &json[2]["cut_off"]), (&json!("s1"), &json!(true)));
    }

    #[test]
    fn thousands_are_set_apart() {
        let texts =
            [(0.123, "0.12"), (99.0, "99.00"), (99.7, "100"), (999.6, "1,000"), (1_234_567.0, "1,234,567")];
        for (value, text) in texts {
            assert_eq!(grouped(value), text);
        }
        assert_eq!((whole(60), whole(1_000)), ("60".into(), "1,000".into()));
    }
}
