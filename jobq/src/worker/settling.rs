//! The settling task: writes news and what ended meanwhile in one call a kind, and again until it is stored.

use super::core::{Batch, Core, Stop, is_final, while_it_grows};
use crate::{
    executor::following,
    job::{AttemptOutcome, JobId, Lease, NewJob},
    maintenance::{answered, trouble_wait},
    store::{Answer, Completion, Failure, Next, Note, Release, Settled, Snooze, Store, StoreError, Ties},
    time::Millis,
};
use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

/// While the worker stops, the store is not waited for longer than this between two tries.
const LAST_TRIES: Duration = Duration::from_millis(200);

/// Settles until the worker has ended and everything is stored.
pub(super) async fn settle(core: Arc<Core>) {
    loop {
        core.outbox.notified().await;
        // Jobs that end together are written together.
        while_it_grows(core.half(), || core.outbox_len()).await;
        while let Some(batch) = core.take_outbox() {
            write(&core, &batch).await;
            core.written();
        }
        if core.is_over() {
            return;
        }
    }
}

async fn write(core: &Core, batch: &Batch) {
    let now = core.clock().now();
    let counters = &core.counters;
    // Handed over in this order, so that a job's news go before its end, usually into one commit with it.
    tokio::join!(
        biased;
        tell(core, &batch.notes),
        store_all(core, &batch.completions, now, &counters.completed),
        store_all(core, &batch.failures, now, &counters.failed),
        store_all(core, &batch.snoozes, now, &counters.snoozed),
        store_all(core, &batch.releases, now, &counters.released),
    );
}

/// One kind of end.
trait End: Clone + Send + 'static {
    fn id(&self) -> JobId;
    fn lease(&self) -> Lease;
    fn ties(&self) -> Ties;
    /// The edge of this kind.
    fn store(store: &dyn Store, ends: Vec<Self>, now: Millis) -> Answer<'_, Vec<Settled>>;
}

macro_rules! end {
    ($($end:ident $method:ident;)*) => { $(
        impl End for $end {
            fn id(&self) -> JobId {
                self.id
            }
            fn lease(&self) -> Lease {
                self.lease
            }
            fn ties(&self) -> Ties {
                self.ties
            }
            fn store(store: &dyn Store, ends: Vec<Self>, now: Millis) -> Answer<'_, Vec<Settled>> {
                store.$method(ends, now)
            }
        }
    )* };
}
end! {
    Completion complete;
    Failure fail;
    Snooze snooze;
    Release release;
}

/// Stores these ends: in one call, and where the store takes them so not for one of them, one by one.
async fn store_all<E: End>(core: &Core, ends: &[E], now: Millis, counter: &AtomicU64) {
    if ends.is_empty() || store_until_taken(core, ends, now, counter).await {
        return;
    }
    if ends.len() == 1 {
        return refused(core, &ends[0], now).await;
    }
    for end in ends.chunks(1) {
        if !store_until_taken(core, end, now, counter).await {
            refused(core, &end[0], now).await;
        }
    }
}

/// Tries until the store has taken them. `false`: it will never take them as they are.
async fn store_until_taken<E: End>(core: &Core, ends: &[E], now: Millis, counter: &AtomicU64) -> bool {
    let mut failures = 0;
    loop {
        let error = match answered(async { E::store(&**core.store(), ends.to_vec(), now).await }).await {
            Ok(settled) => {
                count(core, ends, &settled, counter);
                return true;
            }
            Err(error) => error,
        };
        if is_final(&error) {
            let ids: Vec<_> = ends.iter().map(E::id).collect();
            tracing::error!(%error, ?ids, "ends of jobs are lost, the store is closed to them");
            return true;
        }
        if !error.is_transient() {
            return false;
        }
        failures += 1;
        wait_out(core, &error, ends.len(), failures, "ends").await;
        drop(core.telling.lock().await);
    }
}

/// Waits before the next try to store the ends or news of some jobs.
async fn wait_out(core: &Core, error: &StoreError, jobs: usize, failures: u32, what: &str) {
    let wait = trouble_wait(failures);
    let wait = if core.stop() > Stop::No { wait.min(LAST_TRIES) } else { wait };
    if let Some(left_out) = core.quiet().turn() {
        tracing::warn!(%error, jobs, failures, ?wait, left_out, "{what} of jobs could not be stored and will be tried again");
    }
    core.clock().sleep(wait).await;
}

/// Stores the news of jobs, until the store has taken them. Those of a job that has gone to another worker are refused,
/// and missed by nobody.
async fn tell(core: &Core, notes: &[Note]) {
    if notes.is_empty() {
        return;
    }
    let _turn = core.telling.lock().await;
    let mut failures = 0;
    loop {
        let Err(error) = answered(async { core.store().note(notes.to_vec()).await }).await else { return };
        if !error.is_transient() {
            if let Some(left_out) = core.quiet().turn() {
                let jobs = notes.len();
                tracing::warn!(%error, jobs, left_out, "progress and output of jobs are lost, the store does not take them");
            }
            return;
        }
        failures += 1;
        wait_out(core, &error, notes.len(), failures, "news").await;
    }
}

fn count<E: End>(core: &Core, ends: &[E], settled: &[Settled], counter: &AtomicU64) {
    let mut applied = 0;
    for (end, settled) in ends.iter().zip(settled) {
        let (refused, why) = match settled {
            Settled::Applied => {
                applied += 1;
                continue;
            }
            Settled::LeaseLost => {
                (&core.counters.late, "it had gone to another worker; kept as late, not applied")
            }
            Settled::Gone => (&core.counters.gone, "the job is no longer there"),
        };
        refused.fetch_add(1, Ordering::Relaxed);
        if let Some(left_out) = core.quiet().turn() {
            tracing::warn!(id = %end.id(), lease = end.lease(), left_out, "the end of a job was not applied: {why}");
        }
    }
    counter.fetch_add(applied, Ordering::Relaxed);
}

/// The end of one job that the store will never take as it is: the attempt failed, and people are told why.
async fn refused<E: End>(core: &Core, end: &E, now: Millis) {
    let error = "its end could not be stored: the store does not take it as it is".to_owned();
    tracing::error!(id = %end.id(), lease = end.lease(), "{error}; the job is dead");
    let outcome = AttemptOutcome::Failed;
    let on_dead = on_dead(core, end.id(), &error).await;
    let (id, lease, next, ties) = (end.id(), end.lease(), Next::Dead, end.ties());
    let failure = Failure { id, lease, outcome, error, next, ties, on_dead };
    let alone = Failure { on_dead: None, ..failure.clone() };
    if store_until_taken(core, &[failure], now, &core.counters.failed).await {
        return;
    }
    if !store_until_taken(core, &[alone], now, &core.counters.failed).await {
        tracing::error!(id = %end.id(), lease = end.lease(), "nor can that be stored; the job stays running until its worker is gone");
    }
}

/// The job that tells of this one's death, made from its row.
async fn on_dead(core: &Core, id: JobId, error: &str) -> Option<Box<NewJob>> {
    let row = core.store().get(id).await.ok()??;
    let entry = core.known().get(&row.job_type)?;
    following::on_dead(entry, core.queue().default_max_attempts(), || following::dying_row(row, error))
}
