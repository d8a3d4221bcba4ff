//! The telling sweep: takes the news of running jobs to the settling task, a few times a second while there are any.

use super::core::Core;
use crate::maintenance::{Round, Sweep};
use std::{sync::Arc, time::Duration};

/// Between two rounds is at least this: with the news that come with its end, a job writes ten times a second at most.
const APART: Duration = Duration::from_millis(120);

/// Sleeps while no running job has news.
pub(super) struct Telling {
    pub(super) core: Arc<Core>,
}

impl Sweep for Telling {
    const NAME: &'static str = "telling";

    fn round(&mut self) -> Round<'_> {
        Box::pin(async {
            self.core.bell().await;
            self.core.gather_news();
            self.core.clock().sleep(APART).await;
            Ok(())
        })
    }
}
