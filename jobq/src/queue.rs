//! JobQueue: the one door for applications, admin and command line.

use crate::{store::Store, time::Clock};
use std::{fmt, sync::Arc};

/// A handle to a queue of jobs in a store. Cloning it is cheap and gives the same queue.
#[derive(Clone)]
pub struct JobQueue(Arc<Inner>);

struct Inner {
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
}

impl JobQueue {
    /// A queue on any store.
    pub fn with_store(store: Arc<dyn Store>, clock: Arc<dyn Clock>) -> Self {
        Self(Arc::new(Inner { store, clock }))
    }

    /// The storage.
    pub fn store(&self) -> &Arc<dyn Store> {
        &self.0.store
    }

    /// Where this queue takes the time from.
    pub fn clock(&self) -> &Arc<dyn Clock> {
        &self.0.clock
    }
}

impl fmt::Debug for JobQueue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("JobQueue").field(&self.0.store.describe()).finish()
    }
}
