//! What jobq is to reach, and whether it does: ratios and bounds within one run.

use crate::{
    results::{Case, Results, grouped},
    subjects::{Role, Subject},
};
use serde::Serialize;

/// One thing to reach.
#[derive(Debug, PartialEq, Serialize)]
pub struct Target {
    /// What is looked at.
    pub what: String,
    /// What was measured.
    pub value: f64,
    /// What it is to be.
    pub wanted: String,
    /// Whether it is.
    pub met: bool,
}

impl Target {
    fn at_least(what: String, value: Option<f64>, bound: f64) -> Option<Self> {
        value.map(|value| Self { what, value, wanted: format!("≥ {bound}"), met: value >= bound })
    }

    fn at_most(what: String, value: Option<f64>, bound: f64, unit: &str) -> Option<Self> {
        value.map(|value| Self { what, value, wanted: format!("≤ {bound} {unit}"), met: value <= bound })
    }
}

/// The medians, seen from jobq.
struct View<'a> {
    subjects: &'a [Subject],
    results: &'a Results,
}

/// All of the targets for which there are figures.
pub fn targets(subjects: &[Subject], results: &Results) -> Vec<Target> {
    let view = View { subjects, results };
    let all =
        [view.against_the_limit(), view.against_the_peers(), view.latencies(), view.scale(), view.costs()];
    all.into_iter().flatten().flatten().collect()
}

impl View<'_> {
    fn of(&self, role: Role, case: Case, figure: &str) -> Option<f64> {
        let subject = self.subjects.iter().position(|subject| subject.role == role)?;
        self.results.median(subject, case, figure)
    }

    fn ours(&self, case: Case, figure: &str) -> Option<f64> {
        self.of(Role::Ours, case, figure)
    }

    /// The best of the peers that pass, at whatever durability.
    fn best(
        &self,
        case: Case,
        figure: &str,
        best: fn(f64, f64) -> f64,
        pass: fn(&Subject) -> bool,
    ) -> Option<f64> {
        let peers =
            self.subjects.iter().enumerate().filter(|(_, subject)| subject.peer.is_some() && pass(subject));
        peers.filter_map(|(peer, _)| self.results.median(peer, case, figure)).reduce(best)
    }

    fn against_the_limit(&self) -> Vec<Option<Target>> {
        let wanted =
            [(Case::One, 0.9), (Case::Tasks, 0.8), (Case::Bulk, 0.6), (Case::Drain, 0.6), (Case::Both, 0.8)];
        let target = |(case, bound)| {
            let share = ratio(self.ours(case, "rate"), self.of(Role::Limit, case, "rate"));
            Target::at_least(format!("{case}: jobq FULL / limit FULL"), share, bound)
        };
        wanted.into_iter().map(target).collect()
    }

    fn against_the_peers(&self) -> Vec<Option<Target>> {
        let best = |case, pass| self.best(case, "rate", f64::max, pass);
        let ours = |case, what: &str, rival, bound| {
            Target::at_least(
                format!("{case}: jobq FULL / {what}"),
                ratio(self.ours(case, "rate"), rival),
                bound,
            )
        };
        let mut targets = vec![
            ours(Case::Drain, "best peer", best(Case::Drain, |_| true), 1.0),
            ours(Case::Drain, "best peer with workers", best(Case::Drain, Subject::has_workers), 2.0),
            ours(Case::Both, "best peer", best(Case::Both, |_| true), 1.3),
        ];
        for case in [Case::Tasks, Case::Bulk, Case::Drain, Case::Both] {
            let normal = self.of(Role::OursNormal, case, "rate");
            let what = format!("{case}: jobq NORMAL / best peer");
            targets.push(Target::at_least(what, ratio(normal, best(case, |_| true)), 1.0));
        }
        targets
    }

    fn latencies(&self) -> Vec<Option<Target>> {
        let mut targets = Vec::new();
        for (case, figure, name, bound) in [
            (Case::Same, "p50_ms", "p50", 1.0),
            (Case::Same, "p99_ms", "p99", 2.2),
            (Case::Across, "p50_ms", "p50", 1.6),
            (Case::Across, "p99_ms", "p99", 3.0),
        ] {
            let ours = self.ours(case, figure);
            targets.push(Target::at_most(format!("{case}: jobq FULL, {name}"), ours, bound, "ms"));
            let share = ratio(self.best(case, figure, f64::min, |_| true), ours);
            targets.push(Target::at_least(format!("{case}: best peer's {name} / jobq FULL's"), share, 1.0));
        }
        targets
    }

    /// The small case is the better one of the two smallest: that with 1,000 waiting has the start of a worker in each
    /// of its drains.
    fn scale(&self) -> Vec<Option<Target>> {
        let cases: Vec<Case> = self.results.cases(6).into_iter().collect();
        let small = |case: &Case| matches!(case, Case::Waiting(rows) if *rows <= 20_000);
        let rates = cases.iter().filter(|case| small(case)).filter_map(|case| self.ours(*case, "rate"));
        let least = rates.reduce(f64::max);
        let large = cases.iter().filter(|case| !small(case));
        let target = |case: &Case| {
            let what = format!("{case}: jobq FULL / its small case");
            Target::at_least(what, ratio(self.ours(*case, "rate"), least), 0.9)
        };
        large.map(target).collect()
    }

    fn costs(&self) -> Vec<Option<Target>> {
        let one = self.ours(Case::Processes(1), "rate");
        let four = ratio(self.ours(Case::Processes(4), "rate"), one);
        let ours = self.subjects.iter().position(|subject| subject.role == Role::Ours);
        let longest = ours.and_then(|ours| self.results.max(ours, Case::Killed, "seconds"));
        vec![
            Target::at_most(
                "W7 idle: CPU of one core".into(),
                self.ours(Case::Idle, "cpu_percent"),
                0.5,
                "%",
            ),
            Target::at_most("W7 idle: memory".into(), self.ours(Case::Idle, "rss_mb"), 25.0, "MB"),
            Target::at_least("W8: jobq FULL, 4 processes / 1".into(), four, 0.7),
            Target::at_most("W9: longest time from kill to start".into(), longest, 5.0, "s"),
        ]
    }
}

fn ratio(value: Option<f64>, to: Option<f64>) -> Option<f64> {
    Some(value? / to.filter(|to| *to > 0.0)?)
}

/// The value as it is shown: never rounded across its bound.
pub fn shown(target: &Target) -> String {
    let text = grouped(target.value);
    if target.met || !target.wanted.ends_with(text.trim_end_matches('0').trim_end_matches('.')) {
        return text;
    }
    format!("{:.4}", target.value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::child::Answer;
    use std::path::PathBuf;

    fn subject(name: &'static str, role: Role) -> Subject {
        let peer = matches!(role, Role::Peer { .. } | Role::Other).then_some(name);
        let (version, program) = (String::new(), PathBuf::new());
        let (durability, settings, promises) = ("", "", "");
        Subject { name, peer, durability, version, arguments: &[], settings, promises, role, program }
    }

    fn judged(figures: &[(usize, Case, &str, f64)]) -> Vec<Target> {
        let across = Role::Peer { across: true };
        let subjects = [
            subject("limit", Role::Limit),
            subject("jobq", Role::Ours),
            subject("honker", across),
            subject("effectum", across),
        ];
        let mut results = Results::default();
        for (subject, case, figure, value) in figures {
            results.add(*subject, *case, Answer::from([((*figure).to_owned(), *value)]));
        }
        targets(&subjects, &results)
    }

    fn found<'t>(targets: &'t [Target], what: &str) -> Option<&'t Target> {
        targets.iter().find(|target| target.what.contains(what))
    }

    #[test]
    fn rates_are_compared_with_the_limit_and_the_right_peers() {
        let drain = |subject, rate| (subject, Case::Drain, "rate", rate);
        let targets = judged(&[drain(0, 200.0), drain(1, 100.0), drain(2, 80.0), drain(3, 50.0)]);
        let of = |what| found(&targets, what).map(|target| (target.value, target.met));
        assert_eq!(of("jobq FULL / limit FULL"), Some((0.5, false)));
        assert_eq!(of("jobq FULL / best peer"), Some((1.25, true)), "honker's is the best");
        assert_eq!(of("best peer with workers"), Some((2.0, true)), "honker has none");
        assert_eq!(of("NORMAL"), None, "it was not measured");
    }

    #[test]
    fn bounds_are_met_from_below() {
        let targets = judged(&[
            (1, Case::Same, "p50_ms", 1.1),
            (1, Case::Same, "p99_ms", 2.0),
            (2, Case::Same, "p50_ms", 0.9),
            (1, Case::Killed, "seconds", 1.0),
            (1, Case::Killed, "seconds", 5.5),
        ]);
        let of = |what| found(&targets, what).map(|target| (target.value, target.met));
        assert_eq!(of("jobq FULL, p50"), Some((1.1, false)));
        assert_eq!(of("jobq FULL, p99"), Some((2.0, true)));
        assert_eq!(of("best peer's p50").map(|(_, met)| met), Some(false));
        assert_eq!(of("W9"), Some((5.5, false)), "the longest counts, not the median");
    }

    #[test]
    fn the_small_case_is_the_better_one_of_the_smallest() {
        let rate = |case, rate| (1, case, "rate", rate);
        let targets = judged(&[
            rate(Case::Waiting(1_000), 70.0),
            rate(Case::Waiting(20_000), 100.0),
            rate(Case::Waiting(1_000_000), 85.0),
            rate(Case::Future, 95.0),
        ]);
        let of = |what| found(&targets, what).map(|target| (target.value, target.met));
        assert_eq!(of("1,000,000 waiting"), Some((0.85, false)));
        assert_eq!(of("future"), Some((0.95, true)));
        assert_eq!(targets.len(), 2);
    }

    #[test]
    fn a_value_just_beyond_its_bound_does_not_look_like_it() {
        let target = |value| Target::at_least(String::new(), Some(value), 0.9).unwrap();
        assert_eq!(shown(&target(0.8994)), "0.8994");
        assert_eq!(shown(&target(0.9)), "0.90");
        assert_eq!(shown(&target(0.85)), "0.85");
    }
}
