//! Jobs that follow from an event in other programs, and not in this one: seen before somebody misses them.

use super::{Event, links};
use crate::{
    queue::JobQueue,
    store::{StoreError, Subscribed},
    time::date,
};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Mutex, PoisonError},
    time::Duration,
};

/// How often an emitting program looks at most, for each event.
const EVERY: Duration = Duration::from_secs(60);
/// What a program has not said again for 90 days is not believed.
const BELIEVED: i64 = 90 * 24 * 3_600_000;

/// When was looked last, for each event, and what was told.
#[derive(Default)]
struct Watch(Mutex<Seen>);

#[derive(Default)]
struct Seen {
    looked: BTreeMap<&'static str, Duration>,
    told: BTreeSet<(String, String, String)>,
}

/// Warns of each such job once.
pub(super) async fn warn_of<E: Event>(queue: &JobQueue) {
    let watch = queue.attached::<Watch>();
    let lock = || watch.0.lock().unwrap_or_else(PoisonError::into_inner);
    let now = queue.clock().steady();
    match lock().looked.entry(E::NAME) {
        std::collections::btree_map::Entry::Occupied(looked) if now.saturating_sub(*looked.get()) < EVERY => {
            return;
        }
        looked => *looked.or_default() = now,
    }
    let unlinked = match read::<E>(queue).await {
        Ok(unlinked) => unlinked,
        Err(error) => {
            tracing::debug!(event = E::NAME, %error, "which jobs of other programs follow could not be read");
            return;
        }
    };
    for Subscribed { event, job_type, program, seen_at } in unlinked {
        if lock().told.insert((event.clone(), job_type.clone(), program.clone())) {
            let seen_at = date(seen_at).to_rfc3339();
            tracing::warn!(
                event,
                job_type,
                program,
                seen_at,
                "an event was emitted without a job that follows from it in another program: link the crate that has \
                 it, as in `use that_crate as _;`"
            );
        }
    }
}

pub(super) async fn read<E: Event>(queue: &JobQueue) -> Result<Vec<Subscribed>, StoreError> {
    // Two events of one name were told already, by the emit.
    let linked: BTreeSet<&str> =
        links::<E>().unwrap_or_default().iter().flat_map(|(entry, _)| entry.names()).collect();
    let now = queue.now();
    let is_missing = |said: &Subscribed| {
        said.event == E::NAME
            && !linked.contains(&*said.job_type)
            && now.saturating_sub(said.seen_at) <= BELIEVED
    };
    Ok(queue.store().subscriptions().await?.into_iter().filter(is_missing).collect())
}
