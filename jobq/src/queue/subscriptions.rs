//! What programs say of the events that their jobs follow from, so that one which lacks some of them can tell.

use super::{JobQueue, QueueError};
use crate::{registry::Registry, time::Millis};
use std::sync::LazyLock;

/// What a program says is said again after this long, so that others see that it is still there.
const FRESH: Millis = 24 * 3_600_000;

/// The program's name in the store: that of its file.
static PROGRAM: LazyLock<String> = LazyLock::new(|| {
    let file = std::env::current_exe().ok();
    let name = file.as_deref().and_then(|file| file.file_stem());
    name.map_or_else(|| "unknown".into(), |name| name.to_string_lossy().into_owned())
});

impl JobQueue {
    /// Stores which events the linked jobs follow from, where the store does not know it yet. It is only handed over:
    /// an open waits for no lock.
    pub(super) async fn say_subscriptions(&self) -> Result<(), QueueError> {
        // Two jobs of one name are told by whoever runs or enqueues them.
        let Ok(registry) = Registry::linked() else { return Ok(()) };
        let mut ours: Vec<(String, String)> = registry
            .subscriptions()
            .map(|(entry, on)| (on.event.to_owned(), entry.job_type.to_owned()))
            .collect();
        ours.sort();
        ours.dedup();
        let now = self.now();
        let stored = self.store().subscriptions().await?;
        let said: Vec<_> = stored.into_iter().filter(|said| said.program == *PROGRAM).collect();
        let fresh = said.iter().all(|said| (0..FRESH).contains(&now.saturating_sub(said.seen_at)));
        let same = said.into_iter().map(|said| (said.event, said.job_type)).eq(ours.iter().cloned());
        if !(same && fresh) {
            drop(self.store().subscribe(PROGRAM.clone(), ours, now));
        }
        Ok(())
    }
}
