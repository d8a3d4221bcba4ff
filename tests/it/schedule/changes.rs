//! Eight zones over their clock changes, minute by minute, against the rule in its simplest form.

use chrono::{DateTime, Datelike, NaiveDateTime, TimeDelta, TimeZone, Timelike};
use chrono_tz::Tz;
use jobq::schedule::Cron;
use std::collections::HashSet;

const ZONES: [Tz; 8] = [
    Tz::Europe__London,
    Tz::America__New_York,
    Tz::Australia__Lord_Howe, // half an hour
    Tz::America__St_Johns,    // at a minute past midnight, until 2011
    Tz::Asia__Kathmandu,      // once, a quarter of an hour
    Tz::Pacific__Apia,        // and a whole day
    Tz::Africa__Casablanca,   // back for Ramadan
    Tz::America__Sao_Paulo,   // at midnight
];

/// Whether a wall-clock time fits a pattern, written out by hand.
type Fits = fn(u32, u32, NaiveDateTime) -> bool;

/// A pattern, whether it means "this often", and which hours and minutes of which days it names.
const PATTERNS: [(&str, bool, Fits); 16] = [
    ("* * * * *", true, |_, _, _| true),
    ("*/5 * * * *", true, |_, m, _| m % 5 == 0),
    ("0 * * * *", true, |_, m, _| m == 0),
    ("20 * * * *", true, |_, m, _| m == 20),
    ("0 0-23 * * *", true, |_, m, _| m == 0),
    ("0 */2 * * *", true, |h, m, _| h % 2 == 0 && m == 0),
    ("*/20 1,2 * * *", true, |h, m, _| (1..=2).contains(&h) && m % 20 == 0),
    ("10-50/15 0-3 * * *", true, |h, m, _| h <= 3 && [10, 25, 40].contains(&m)),
    ("30 1 * * *", false, |h, m, _| (h, m) == (1, 30)),
    ("15 2 * * *", false, |h, m, _| (h, m) == (2, 15)),
    ("0 0 * * *", false, |h, m, _| (h, m) == (0, 0)),
    ("10,45 0,2,23 * * *", false, |h, m, _| [0, 2, 23].contains(&h) && [10, 45].contains(&m)),
    ("0-59 1-3 * * *", false, |h, _, _| (1..=3).contains(&h)),
    ("45 1 * * SUN", false, |h, m, d| (h, m) == (1, 45) && d.weekday().num_days_from_sunday() == 0),
    ("0 12 30 12 *", false, |h, m, d| (h, m, d.day(), d.month()) == (12, 0, 30, 12)),
    ("59 23 L * *", false, |h, m, d| (h, m) == (23, 59) && (d + TimeDelta::days(1)).day() == 1),
];

fn wall(zone: Tz, at: i64) -> NaiveDateTime {
    zone.from_utc_datetime(&DateTime::from_timestamp(at, 0).unwrap().naive_utc()).naive_local()
}

/// The instants at which the zone's clock is set, from 2005 to 2030; of Nepal, which has left its clock alone since, in
/// 1986.
fn changes(zone: Tz) -> Vec<i64> {
    let offset = |at: i64| (wall(zone, at).and_utc().timestamp()) - at;
    let years =
        if zone == Tz::Asia__Kathmandu { 500_000_000..520_000_000 } else { 1_104_537_600..1_924_992_000 };
    let looks: Vec<i64> = years.step_by(4 * 3600).collect();
    let changed = looks.windows(2).filter(|pair| offset(pair[0]) != offset(pair[1]));
    let minute =
        |pair: &[i64]| (1..).map(|n| pair[0] / 60 * 60 + 60 * n).find(|at| offset(*at) != offset(pair[0]));
    changed.map(|pair| minute(pair).unwrap()).collect()
}

/// One minute of a zone.
struct Minute {
    at: i64,
    wall: NaiveDateTime,
    /// Its clock shows this for the first time.
    first: bool,
    /// What its clock has jumped over just before.
    over: Vec<NaiveDateTime>,
}

fn minutes(zone: Tz, from: i64, to: i64) -> Vec<Minute> {
    let walls: Vec<_> = (from - 60..to).step_by(60).map(|at| (at, wall(zone, at))).collect();
    let mut shown = HashSet::new();
    let minute = |pair: &[(i64, NaiveDateTime)]| {
        let [(_, before), (at, wall)] = *pair else { unreachable!() };
        let over = (1..).map(|n| before + TimeDelta::minutes(n)).take_while(|over| *over < wall).collect();
        Minute { at, wall, first: shown.insert(wall), over }
    };
    walls.windows(2).map(minute).collect()
}

impl Minute {
    /// The rule: a time ticks when the clock first shows it or has jumped over it, one of an interval pattern also when
    /// the clock shows it again.
    fn ticks(&self, interval: bool, fits: Fits) -> bool {
        let fits = |wall: &NaiveDateTime| fits(wall.hour(), wall.minute(), *wall);
        (fits(&self.wall) && (self.first || interval)) || self.over.iter().any(fits)
    }
}

#[test]
fn every_cell_of_eight_zones_over_their_changes_is_as_the_rule_says() {
    const DAY: i64 = 86_400;
    const SIDE: i64 = 14 * 3600;
    let (mut cells, mut wrong, mut count) = (0, Vec::new(), 0);
    for zone in ZONES {
        let crons = PATTERNS.map(|(pattern, ..)| Cron::parse(pattern, zone.name()).unwrap());
        for change in changes(zone) {
            let (from, to) = (change - SIDE, change + SIDE);
            // A day more before it, so that it is known what the clock has shown.
            let mut minutes = minutes(zone, from - DAY, to);
            minutes.retain(|minute| minute.at >= from);
            for (cron, (pattern, interval, fits)) in crons.iter().zip(PATTERNS) {
                let ruled =
                    minutes.iter().filter(|minute| minute.ticks(interval, fits)).map(|minute| minute.at);
                let ruled: Vec<_> = ruled.collect();
                let found: Vec<_> = ticks(cron, from, to);
                cells += 1;
                count += ruled.len();
                if found != ruled {
                    let place = found.iter().zip(&ruled).position(|(one, other)| one != other);
                    let place = place.unwrap_or(found.len().min(ruled.len()));
                    let show = |at: Option<&i64>| at.map(|at| format!("{at} = {}", wall(zone, *at)));
                    let (one, other) = (show(found.get(place)), show(ruled.get(place)));
                    wrong.push(format!("{pattern} in {zone} over {change}: found {one:?}, ruled {other:?}"));
                }
            }
        }
    }
    println!("{} of {cells} cells are right, {count} ticks", cells - wrong.len());
    assert!(cells > 4000, "{cells}");
    let shown = &wrong[..wrong.len().min(20)];
    assert!(wrong.is_empty(), "{} of {cells} cells are wrong:\n{}", wrong.len(), shown.join("\n"));
}

fn ticks(cron: &Cron, from: i64, to: i64) -> Vec<i64> {
    let mut last = from * 1000 - 1;
    let next = || {
        last = cron.next_after(last)?;
        Some(last / 1000).filter(|tick| *tick < to)
    };
    std::iter::from_fn(next).collect()
}

#[test]
fn patterns_say_whether_they_mean_this_often_or_at_these_times() {
    for (pattern, interval, _) in PATTERNS {
        assert_eq!(Cron::parse(pattern, "UTC").unwrap().is_interval(), interval, "{pattern}");
    }
}
