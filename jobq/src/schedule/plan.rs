//! Which ticks of a schedule are due, and which of those that nobody made in time are still to be made.

use super::{CatchUp, Cron, MOST_CAUGHT_UP};
use crate::time::{Millis, millis};
use std::time::Duration;

/// What is to be done at one look at a schedule.
#[derive(Debug, PartialEq, Eq)]
pub struct Plan {
    /// The ticks that have a job now, in order.
    pub ticks: Vec<Millis>,
    /// Whether ticks were due that have none.
    pub missed: bool,
    /// The first tick that is not due yet.
    pub next: Millis,
}

/// What is to be done at `now` with a schedule that waits for its tick `due`, where `last` was its latest: nothing where
/// `due` is still to come, or the pattern has ended.
///
/// Ticks from `on_time` on are not missed, however late the look is: the worker was there all the time, and a busy
/// machine costs nobody a tick. No tick is made twice or before one that was made: none up to `last`.
pub fn plan(
    cron: &Cron,
    (due, last): (Millis, Option<Millis>),
    (now, on_time): (Millis, Millis),
    catch_up: CatchUp,
) -> Option<Plan> {
    /// For a look that was a little late at a pattern of every second.
    const FEW: usize = 32;
    let next = cron.next_after(now.max(last.unwrap_or(Millis::MIN)))?;
    let most = match catch_up {
        CatchUp::All(most) => FEW.max(most.min(MOST_CAUGHT_UP) as usize),
        _ => FEW,
    };
    let from = last.map_or(due, |last| due.max(last + 1));
    if from > now {
        return (due <= now).then_some(Plan { ticks: Vec::new(), missed: false, next });
    }
    let all = latest(cron, from, now, most);
    let (mut missed, mut ticks): (Vec<_>, Vec<_>) = all.into_iter().partition(|tick| *tick < on_time);
    let in_time = |hour: Duration| move |tick: &Millis| now - *tick <= millis(hour);
    let caught_up: Vec<_> = match catch_up {
        CatchUp::All(most) => missed.split_off(missed.len().saturating_sub(most as usize)),
        _ if !ticks.is_empty() => Vec::new(),
        CatchUp::Skip => missed.pop().filter(in_time(Duration::from_secs(60))).into_iter().collect(),
        CatchUp::Once => missed.pop().filter(in_time(Duration::from_secs(3600))).into_iter().collect(),
        CatchUp::OnceWithin(time) => missed.pop().filter(in_time(time)).into_iter().collect(),
    };
    let missed = !missed.is_empty() || (caught_up.is_empty() && ticks.is_empty());
    ticks.splice(..0, caught_up);
    Some(Plan { ticks, missed, next })
}

/// The latest ticks from `from` to `now`, at most `most`, in order. The way back is found in growing steps, so that
/// years of every second cost no more than an hour of them.
fn latest(cron: &Cron, from: Millis, now: Millis, most: usize) -> Vec<Millis> {
    // No schedule is older than that; a hand may have written that one is.
    let from = from.max(0);
    let mut back = 1000;
    loop {
        let start = from.max(now.saturating_sub(back));
        let mut ticks = std::collections::VecDeque::new();
        let mut last = start - 1;
        while let Some(tick) = cron.next_after(last).filter(|tick| *tick <= now) {
            if ticks.len() == most {
                ticks.pop_front();
            }
            ticks.push_back(tick);
            last = tick;
        }
        if ticks.len() == most || start == from {
            return ticks.into();
        }
        back = back.saturating_mul(4);
    }
}
