//! Patterns and zones: what they mean minute by minute over the clock changes, what is refused, what is caught up.

use jobq::schedule::{CatchUp, Cron, CronError, Plan, next_runs, plan};
use std::time::{Duration, Instant};

mod changes;

fn cron(pattern: &str, zone: &str) -> Cron {
    Cron::parse(pattern, zone).unwrap_or_else(|why| panic!("{pattern} {zone}: {why}"))
}

fn millis(at: &str) -> i64 {
    at.parse::<chrono::DateTime<chrono::Utc>>().unwrap().timestamp_millis()
}

/// The next runs after an instant, as the zone's clock shows them.
fn runs(pattern: &str, zone: &str, after: &str, n: usize) -> Vec<String> {
    let runs = next_runs(pattern, zone, after.parse().unwrap(), n).unwrap();
    runs.iter().map(|run| run.format("%d %H:%M:%S %:z").to_string()).collect()
}

/// How long it takes at its quickest: other programs may be at work on the machine.
fn quickest(what: impl Fn()) -> Duration {
    let time = |_| {
        let began = Instant::now();
        what();
        began.elapsed()
    };
    (0..5).map(time).min().unwrap()
}

fn refused(pattern: &str) -> String {
    Cron::parse(pattern, "UTC").expect_err(pattern).to_string()
}

// ---- what a pattern means -----------------------------------------------------------------------

#[test]
fn five_fields_begin_with_the_minute_and_six_with_the_second() {
    let after = "2026-01-01T00:00:00Z";
    assert_eq!(runs("*/5 * * * *", "UTC", after, 2), ["01 00:05:00 +00:00", "01 00:10:00 +00:00"]);
    assert_eq!(runs("0 */5 * * * *", "UTC", after, 2), ["01 00:05:00 +00:00", "01 00:10:00 +00:00"]);
    assert_eq!(runs("*/20 * * * * *", "UTC", after, 2), ["01 00:00:20 +00:00", "01 00:00:40 +00:00"]);
}

#[test]
fn names_stand_for_numbers_and_words_for_whole_patterns() {
    let same = |one: &str, other: &str| {
        let after = "2026-02-27T11:22:33Z";
        assert_eq!(runs(one, "UTC", after, 20), runs(other, "UTC", after, 20), "{one} is {other}");
    };
    same("0 9 * jan-mar,DEC Mon-Fri", "0 9 * 1-3,12 1-5");
    same("0 0 * * SUN", "0 0 * * 7");
    same("0 0 * * FRI-SUN", "0 0 * * 5,6,0");
    for (word, pattern) in [
        ("@hourly", "0 * * * *"),
        ("@daily", "0 0 * * *"),
        ("@midnight", "0 0 * * *"),
        ("@weekly", "0 0 * * SUN"),
        ("@monthly", "0 0 1 * *"),
        ("@yearly", "0 0 1 1 *"),
        ("@annually", "0 0 1 1 *"),
        (" @Daily ", "0 0 * * *"),
    ] {
        same(word, pattern);
    }
}

#[test]
fn day_and_weekday_tick_on_either_and_the_signs_of_croner_are_known() {
    let days = |pattern| -> Vec<String> {
        let runs = next_runs(pattern, "UTC", "2026-02-01T12:00:00Z".parse().unwrap(), 3).unwrap();
        runs.iter().map(|run| run.format("%m-%d").to_string()).collect()
    };
    assert_eq!(days("0 0 13 * FRI"), ["02-06", "02-13", "02-20"]);
    assert_eq!(days("0 0 13 * +FRI"), ["02-13", "03-13", "11-13"]);
    assert_eq!(days("0 0 L * *"), ["02-28", "03-31", "04-30"]);
    assert_eq!(days("0 0 15W * *"), ["02-16", "03-16", "04-15"]);
    assert_eq!(days("0 0 * * FRI#2"), ["02-13", "03-13", "04-10"]);
    assert_eq!(days("0 0 * * FRI#L"), ["02-27", "03-27", "04-24"]);
    assert_eq!(days("0 0 29 2 *"), ["02-29"; 3]);
}

#[test]
fn a_time_that_the_clock_jumps_over_ticks_at_the_first_instant_after_it_and_once() {
    let day = "2026-03-29T00:00:00Z";
    assert_eq!(runs("30 2 * * *", "Europe/Warsaw", day, 2), ["29 03:00:00 +02:00", "30 02:30:00 +02:00"]);
    assert_eq!(
        runs("0,15,30 2,3 * * *", "Europe/Warsaw", day, 3),
        ["29 03:00:00 +02:00", "29 03:15:00 +02:00", "29 03:30:00 +02:00"]
    );
    // Before 4.0.3 croner ran a daily job of the hour before the gap a second time after it.
    assert_eq!(
        runs("0 0 * * *", "Europe/London", "2026-03-28T12:00:00Z", 2),
        ["29 00:00:00 +00:00", "30 00:00:00 +01:00"]
    );
    // Samoa had no 30 December 2011: a gap of a day, before which croner gives up.
    assert_eq!(runs("0 9 30 12 *", "Pacific/Apia", "2011-12-29T00:00:00Z", 1), ["31 00:00:00 +14:00"]);
}

#[test]
fn every_minute_of_the_repeated_hour_ticks_and_a_fixed_time_in_it_once() {
    let minutes = cron("* * * * *", "Europe/London");
    let (from, to) = (millis("2026-10-25T00:00:00Z"), millis("2026-10-25T02:00:00Z"));
    let mut ticks = vec![minutes.next_after(from - 1).unwrap()];
    while let Some(tick) = minutes.next_after(*ticks.last().unwrap()).filter(|tick| *tick < to) {
        ticks.push(tick);
    }
    assert_eq!(ticks.len(), 120);
    assert!(ticks.windows(2).all(|pair| pair[1] - pair[0] == 60_000), "one each minute");
    assert_eq!(
        runs("30 1 * * *", "Europe/London", "2026-10-24T12:00:00Z", 2),
        ["25 01:30:00 +01:00", "26 01:30:00 +00:00"]
    );
}

#[test]
fn ticks_are_whole_seconds_after_the_instant_and_no_instant_makes_it_panic() {
    let seconds = cron("* * * * * *", "Asia/Kathmandu");
    assert_eq!(seconds.next_after(1_767_225_600_000), Some(1_767_225_601_000));
    assert_eq!(seconds.next_after(1_767_225_600_001), Some(1_767_225_601_000));
    assert_eq!(seconds.next_after(1_767_225_599_999), Some(1_767_225_600_000));
    assert_eq!(seconds.next_after(-1), Some(0));
    for instant in [i64::MIN, i64::MIN + 1, i64::MAX, i64::MAX - 1, 95_000_000_000_000, -95_000_000_000_000] {
        for pattern in ["* * * * * *", "0 0 29 2 *", "59 59 23 31 12 *"] {
            for zone in ["UTC", "Pacific/Apia", "America/St_Johns"] {
                cron(pattern, zone).next_after(instant);
            }
        }
    }
}

// ---- what is refused ----------------------------------------------------------------------------

#[test]
fn what_is_wrong_is_said_with_the_field_and_what_to_write() {
    for (pattern, said) in [
        (
            "",
            "0 fields; write five, minute hour day month weekday: `*/5 * * * *`, or six, the second first: `0 */5 * * * *`",
        ),
        ("* * * *", "4 fields; "),
        ("* * * * * * *", "7 fields; "),
        ("every minute", "2 fields; "),
        ("60 * * * *", "minute `60`: `60` is no minute; write 0 to 59"),
        ("* 24 * * *", "hour `24`: `24` is no hour; write 0 to 23"),
        ("* * 0 * *", "day `0`: `0` is no day; write 1 to 31"),
        ("* * * JUNE *", "month `JUNE`: `JUNE` is no month; write JAN to DEC, or 1 to 12"),
        ("* * * * MOM", "weekday `MOM`: `MOM` is no weekday; write SUN to SAT, or 0 to 7"),
        ("MON * * * *", "minute `MON`: `MON` is no minute; write 0 to 59"),
        ("0 0/15 * * * *", "minute `0/15`: a step needs a range before it; write `*/15` or `0-59/15`"),
        ("/5 * * * *", "minute `/5`: nothing stands before the step; write `*/5`"),
        ("*/x * * * *", "minute `*/X`: `X` is no step; write a whole number after the `/`"),
        ("*/70 * * * *", "minute `*/70`: a step of 70 is longer than the field, which ends at 59"),
        ("1,,2 * * * *", "minute `1,,2`: nothing stands beside a comma"),
        ("* * * * 1#9", "weekday `1#9`: "),
        ("* 5L * * *", "hour `5L`: "),
        (
            "@dayly",
            "`@dayly` is no pattern; known are @hourly, @daily, @midnight, @weekly, @monthly, @yearly, @annually; did you mean `@daily`?",
        ),
        ("@reboot", "`@reboot` is no pattern; known are "),
        ("−5 * * * *", "minute `−5`: `−5` is no minute; write 0 to 59"),
        ("٣ * * * *", "minute `٣`: `٣` is no minute"),
        ("+5 * * * *", "minute `+5`: `+5` is no minute"),
    ] {
        let why = refused(pattern);
        assert!(why.starts_with(said), "{pattern:?}: {why}");
    }
}

#[test]
fn hostile_patterns_are_refused_in_under_ten_milliseconds_with_the_field_named() {
    let long = "*".repeat(1 << 20);
    let many = "1,".repeat(115) + "1-9-1 * * * *";
    for (pattern, said) in [
        ("0 0 1--100000000 * *", "day `1--100000000`: "),
        ("*/0 * * * *", "minute `*/0`: a step of 0 never moves on; write 1 or more"),
        ("5-1 * * * *", "minute `5-1`: `5-1` runs backwards; write the smaller one first"),
        ("0-4294967295 * * * *", "minute `0-4294967295`: `4294967295` is no minute; write 0 to 59"),
        ("*/99999999999999999999 * * * *", "minute `*/99999999999999999999`: "),
        ("0 0 1-100000000/1 * *", "day `1-100000000/1`: "),
        (&long, "a pattern of 1048576 bytes; at most 255 are read"),
        (&many, "minute `"),
    ] {
        let why = refused(pattern);
        assert!(quickest(|| drop(refused(pattern))) < Duration::from_millis(10), "{said}");
        assert!(why.starts_with(said) && why.len() < 1000, "{why}");
    }
}

#[test]
fn a_pattern_that_never_comes_is_refused_and_a_rare_one_is_not() {
    for pattern in ["0 0 30 2 *", "0 0 31 4 *", "0 0 31 2,4,6,9,11 *", "0 0 30 2 +MON"] {
        let why = refused(pattern);
        assert!(quickest(|| drop(refused(pattern))) < Duration::from_millis(10), "{pattern}");
        assert_eq!(why, format!("`{pattern}` never comes: no month of it has such a day"));
    }
    // Every 28 years, or 40.
    assert_eq!(runs("0 0 29 2 +MON", "UTC", "2026-01-01T00:00:00Z", 1), ["29 00:00:00 +00:00"]);
}

#[test]
fn an_unknown_zone_is_refused_with_what_may_be_meant() {
    let why = |zone: &str| Cron::parse("@daily", zone).unwrap_err();
    for (zone, said) in [
        ("Europe/Warsow", "there is no time zone `Europe/Warsow`; did you mean `Europe/Warsaw`?"),
        ("europe/warsaw", "there is no time zone `europe/warsaw`; did you mean `Europe/Warsaw`?"),
        ("Warsaw", "there is no time zone `Warsaw`; did you mean `Europe/Warsaw`?"),
        ("New York", "there is no time zone `New York`; did you mean `America/New_York`?"),
        ("+02:00", "there is no time zone `+02:00`; write its IANA name, such as `Europe/Warsaw`, or `UTC`"),
        ("", "there is no time zone ``; write its IANA name"),
    ] {
        let why = why(zone);
        assert!(why.is_of_zone() && why.to_string().starts_with(said), "{why}");
    }
    let CronError::UnknownZone { written, .. } = why(&"x".repeat(1 << 20)) else { panic!() };
    assert_eq!(written.len(), 64);
}

// ---- what is caught up --------------------------------------------------------------------------

const MINUTE: i64 = 60_000;
const HOUR: i64 = 60 * MINUTE;
/// 2026-01-01T00:00:00Z
const START: i64 = 1_767_225_600_000;

fn planned(pattern: &str, due: i64, now: i64, on_time: i64, catch_up: CatchUp) -> Option<Plan> {
    plan(&cron(pattern, "UTC"), (due, None), (now, on_time), catch_up)
}

fn ticks(pattern: &str, due: i64, now: i64, catch_up: CatchUp) -> Vec<i64> {
    planned(pattern, due, now, now + 1, catch_up).map_or(Vec::new(), |plan| plan.ticks)
}

#[test]
fn missed_ticks_are_made_once_with_the_latest_ones_time_within_an_hour() {
    assert_eq!(ticks("@daily", START, START + 30_000, CatchUp::Once), [START]);
    assert_eq!(ticks("@daily", START, START + HOUR, CatchUp::Once), [START]);
    assert_eq!(ticks("@daily", START, START + HOUR + 1, CatchUp::Once), [0; 0]);
    // One hour of every five seconds: one job, and then the rhythm.
    let plan = planned("*/5 * * * * *", START + 5000, START + HOUR + 1234, START + 2 * HOUR, CatchUp::Once);
    let next = START + HOUR + 5000;
    assert_eq!(plan, Some(Plan { ticks: vec![START + HOUR], missed: true, next }));
    let within = CatchUp::OnceWithin(Duration::from_secs(6 * 3600));
    assert_eq!(ticks("@daily", START, START + 6 * HOUR, within), [START]);
    assert_eq!(ticks("@daily", START, START + 6 * HOUR + 1, within), [0; 0]);
}

/// A hand may have written when a schedule ticks next.
#[test]
fn a_tick_that_no_schedule_ever_waited_for_is_planned_in_no_time() {
    for from in [i64::MIN, i64::MIN + 1, -1, 0] {
        for pattern in ["0 0 29 2 *", "* * * * * *", "@yearly"] {
            let began = std::time::Instant::now();
            let plan = planned(pattern, from, START, i64::MAX, CatchUp::All(1000)).expect("it is due");
            assert!(plan.next > START && plan.ticks.iter().all(|tick| *tick <= START), "{pattern} {from}");
            assert!(
                began.elapsed() < Duration::from_secs(5),
                "{pattern} from {from} took {:?}",
                began.elapsed()
            );
        }
    }
}

#[test]
fn all_missed_ticks_are_made_up_to_the_number_given_and_none_where_they_are_to_be_skipped() {
    let hours = |many: std::ops::RangeInclusive<i64>| many.map(|n| START + n * HOUR).collect::<Vec<_>>();
    assert_eq!(ticks("@hourly", START, START + 5 * HOUR, CatchUp::All(24)), hours(0..=5));
    assert_eq!(ticks("@hourly", START, START + 50 * HOUR, CatchUp::All(3)), hours(48..=50));
    assert_eq!(ticks("@hourly", START, START + 5 * HOUR + MINUTE + 1, CatchUp::Skip), [0; 0]);
    assert_eq!(ticks("@hourly", START, START + 5 * HOUR + MINUTE, CatchUp::Skip), hours(5..=5));
    let plan = planned("@hourly", START, START + 5 * HOUR + MINUTE + 1, i64::MAX, CatchUp::Skip).unwrap();
    assert_eq!((plan.missed, plan.next), (true, START + 6 * HOUR));
}

#[test]
fn a_late_look_of_a_worker_that_was_there_makes_every_tick() {
    for catch_up in [CatchUp::Once, CatchUp::Skip, CatchUp::All(5)] {
        let plan = planned("* * * * * *", START, START + 3500, START - 6500, catch_up).unwrap();
        assert_eq!(plan.ticks, [START, START + 1000, START + 2000, START + 3000]);
        assert_eq!((plan.missed, plan.next), (false, START + 4000));
    }
}

#[test]
fn no_tick_is_planned_up_to_the_latest_one_that_was_made() {
    let every = cron("*/5 * * * * *", "UTC");
    let at = |due, last, now| plan(&every, (due, Some(last)), (now, now - 10_000), CatchUp::Once);
    // The clock went back an hour, and the pattern was changed meanwhile.
    let plan = at(START, START + HOUR, START + 7000).unwrap();
    assert_eq!((plan.ticks, plan.next), (vec![], START + HOUR + 5000));
    assert_eq!(at(START + 5000, START, START + 4999), None, "not due");
}

#[test]
fn ten_years_of_every_second_are_planned_at_once() {
    let began = Instant::now();
    let now = START + 3650 * 24 * HOUR;
    assert_eq!(ticks("* * * * * *", START, now, CatchUp::Once), [now]);
    assert_eq!(ticks("* * * * * *", START, now, CatchUp::All(1000)).len(), 1000);
    assert_eq!(ticks("0 0 29 2 *", START, now, CatchUp::All(1000)).len(), 2);
    assert!(began.elapsed() < Duration::from_secs(2), "{:?}", began.elapsed());
}

#[test]
fn policies_are_read_as_they_are_written() {
    for policy in
        [CatchUp::Once, CatchUp::OnceWithin(Duration::from_secs(21_600)), CatchUp::All(24), CatchUp::Skip]
    {
        assert_eq!(policy.to_string().parse(), Ok(policy));
    }
    for wrong in ["", "twice", "all", "all()", "all(-1)", "all(99999999999)", "once(6h)"] {
        assert!(wrong.parse::<CatchUp>().is_err(), "{wrong}");
    }
}
