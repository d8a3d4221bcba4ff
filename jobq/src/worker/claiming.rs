//! The claiming task: one standing claim for the free slots; and the checks that what runs is still ours, and wanted.

use super::core::{Core, Held, Stop, is_final, while_it_grows};
use crate::{
    executor::Order,
    maintenance::{Asking, Round, Sweep, answered, promote_due, trouble_wait},
    store::{Claim, Claimed, StoreError},
};
use std::{collections::HashSet, sync::Arc, time::Duration};
use tokio::{
    sync::watch,
    time::{Instant, sleep_until},
};

/// How often the store is asked whether jobs that run here are still ours, and wanted.
const LEASE_CHECK: Duration = Duration::from_millis(750);
/// Between two looks at what is to be cancelled there is at least this, however often the store changes.
const CANCELS_APART: Duration = Duration::from_millis(100);
/// Where there are more slots than twice this, a claim takes half of them at most: one half runs while the other is
/// settled and claimed, and neither the writing thread nor the runtime waits for the other.
const FEW: usize = 32;
/// Jobs younger than this are not asked for.
const SHORT_JOB: Duration = Duration::from_secs(1);

/// Claims until a stop; a worker that drains, until nothing is due and nothing runs.
///
/// Trouble of the store never ends it. An error that stays until somebody does something about it does, and is given.
pub(super) async fn claim(core: Arc<Core>, drains: bool) -> Result<(), StoreError> {
    let _last = Last(&core);
    claim_on(&core, drains).await
}

/// Says, however the task ends, that it brings nothing more.
struct Last<'a>(&'a Core);

impl Drop for Last<'_> {
    fn drop(&mut self) {
        self.0.no_more_claims();
    }
}

async fn claim_on(core: &Arc<Core>, drains: bool) -> Result<(), StoreError> {
    let mut failures = 0;
    while wait_for_room(core).await {
        let asked = async { if drains { ask_once(core).await } else { ask(core, true).await.map(Some) } };
        match answered(asked).await {
            Ok(Some(claimed)) => {
                failures = 0;
                core.take(claimed);
            }
            Ok(None) => return Ok(()),
            Err(error) if is_final(&error) => {
                tracing::error!(%error, "the worker can't go on with its store and ends");
                return Err(error);
            }
            Err(error) => {
                failures += 1;
                let wait = trouble_wait(failures);
                if let Some(left_out) = core.quiet().turn() {
                    tracing::warn!(%error, failures, ?wait, left_out, "claiming jobs failed and will be tried again");
                }
                tokio::select! {
                    () = core.clock().sleep(wait) => {}
                    () = core.stop_asked(Stop::Graceful) => {}
                }
            }
        }
    }
    Ok(())
}

/// Ends when there is a free slot and claiming is wanted; `false`: it is not wanted any more.
async fn wait_for_room(core: &Core) -> bool {
    let mut wishes = core.wishes();
    loop {
        if wishes.borrow_and_update().stop > Stop::No {
            return false;
        }
        if !wishes.borrow().claims() {
            // The sender lives in the core.
            let _changed = wishes.changed().await;
            continue;
        }
        // Jobs that end together free their slots together: let them, for one claim instead of many.
        while_it_grows(core.half(), || core.room()).await;
        if core.room() > 0 {
            return true;
        }
        tokio::select! {
            () = core.room.notified() => {}
            _ = wishes.changed() => {}
        }
    }
}

/// One claim. A standing one is taken back when the worker is to claim no more; what it brought by then is given, and
/// it is for the taker to give it back.
async fn ask(core: &Core, standing: bool) -> Result<Vec<Claimed>, StoreError> {
    let limit = core.room().min(core.half().max(FEW));
    let worker = core.identity().id();
    let claim = Claim { worker, set: core.set().clone(), limit, standing };
    let mut wishes = core.wishes();
    let mut answer = core.store().claim(claim, core.clock().now());
    // Only a claim that stands may be asked anew by the promotion; any other is answered by its own transaction, and
    // an empty answer to it would end a drain.
    let _turn = standing.then(|| Turn::begin(core.asking()));
    tokio::select! {
        biased;
        claimed = &mut answer => return claimed,
        _ = wishes.wait_for(|wish| !wish.claims()) => core.store().withdraw(worker),
    }
    answer.await
}

/// The next jobs of a worker that drains; `None`: nothing is due and nothing runs.
async fn ask_once(core: &Core) -> Result<Option<Vec<Claimed>>, StoreError> {
    // Looked at first: a job that ends after this may have left another one, so the claim is made once more.
    let idle = core.is_settled();
    let claimed = ask(core, false).await?;
    if !claimed.is_empty() || promote_due(&**core.store(), &**core.clock()).await? > 0 {
        return Ok(Some(claimed));
    }
    if idle {
        return Ok(None);
    }
    // Others may bring work while a job of ours runs on.
    tokio::select! {
        () = core.room.notified() => {}
        () = core.clock().sleep(core.settings().poll_interval) => {}
        () = core.stop_asked(Stop::Graceful) => {}
    }
    Ok(Some(claimed))
}

/// Marks the time in which a claim waits in the store.
struct Turn<'a>(&'a Asking);

impl<'a> Turn<'a> {
    fn begin(asking: &'a Asking) -> Self {
        asking.turn();
        Self(asking)
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.0.turn();
    }
}

/// Tells handlers whose job was given to another worker, or is no longer there.
pub(super) struct LeaseCheck {
    core: Arc<Core>,
}

impl LeaseCheck {
    pub(super) fn new(core: Arc<Core>) -> Self {
        Self { core }
    }

    async fn check(&self) -> Result<(), StoreError> {
        let now = self.core.clock().steady();
        let mut held = self.core.held();
        held.retain(|held| now.saturating_sub(held.since) >= SHORT_JOB);
        if held.is_empty() {
            return Ok(());
        }
        let running = self.core.store().running(self.core.identity().all()).await?;
        let ours: HashSet<_> = running.iter().map(|job| (job.id, job.lease)).collect();
        // Held before the look and still held after it: so it was running all the time, and if it was not seen so,
        // it is not ours.
        held.retain(|held| !ours.contains(&(held.id(), held.lease())) && self.core.still_holds(held));
        held.iter().for_each(|held| self.tell(held));
        Ok(())
    }

    fn tell(&self, held: &Held) {
        if held.orders.give(Order::Lost)
            && let Some(left_out) = self.core.quiet().turn()
        {
            tracing::warn!(id = %held.id(), job_type = held.entry.job_type, lease = held.lease(), left_out, "a running job is no longer ours: its handler is told to stop");
        }
    }
}

/// Tells handlers whose job somebody has cancelled, and has those dropped that do not end in the grace.
pub(super) struct CancelCheck {
    core: Arc<Core>,
    changed: watch::Receiver<u64>,
    /// Who was told, and when the grace is over.
    told: Vec<(Held, Duration)>,
}

impl CancelCheck {
    pub(super) fn new(core: Arc<Core>) -> Self {
        let changed = core.store().changed();
        Self { core, changed, told: Vec::new() }
    }

    /// Until something may have changed: the store, but no more often than that, or a grace.
    async fn wait(&mut self) {
        let clock = self.core.clock().clone();
        let (began, looked) = (clock.steady(), Instant::now());
        let grace = self.told.iter().map(|(_, until)| *until).min();
        let until = began.saturating_add(LEASE_CHECK).min(grace.unwrap_or(Duration::MAX));
        tokio::select! {
            () = clock.sleep_until(until) => {}
            Ok(()) = self.changed.changed() => tokio::select! {
                () = clock.sleep_until(began.saturating_add(CANCELS_APART)) => {}
                // In real time too: handlers are to be told where a test's clock stands still.
                () = sleep_until(looked + CANCELS_APART) => {}
            },
        }
    }

    async fn check(&mut self) -> Result<(), StoreError> {
        let mut held = self.core.held();
        if held.is_empty() {
            self.told.clear();
            return Ok(());
        }
        self.changed.mark_unchanged();
        let cancels = self.core.store().cancels().await?;
        let now = self.core.clock().steady();
        let unwanted: HashSet<_> = cancels.iter().map(|wish| (wish.id, wish.lease)).collect();
        held.retain(|held| unwanted.contains(&(held.id(), held.lease())));
        for held in held {
            if held.orders.take_back() {
                tracing::info!(id = %held.id(), job_type = held.entry.job_type, "a running job was cancelled: its handler is told to stop");
                self.told.push((held, now.saturating_add(self.core.settings().cancel_grace)));
            }
        }
        self.told.retain(|(held, until)| {
            let waits = self.core.still_holds(held) && now < *until;
            if !waits {
                held.orders.give(Order::TakenBack);
            }
            waits
        });
        Ok(())
    }
}

impl Sweep for CancelCheck {
    const NAME: &'static str = "cancel check";

    fn round(&mut self) -> Round<'_> {
        Box::pin(async {
            self.wait().await;
            self.check().await
        })
    }
}

impl Sweep for LeaseCheck {
    const NAME: &'static str = "lease check";

    fn round(&mut self) -> Round<'_> {
        Box::pin(async {
            self.core.clock().sleep(LEASE_CHECK).await;
            self.check().await
        })
    }
}
