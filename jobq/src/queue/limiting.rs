//! Limits: how many jobs of a queue or a job type run at once and how often one starts, changed while programs run.

use super::{JobQueue, QueueError};
use crate::{
    limit::{Limit, Limited},
    store::LimitRow,
};

/// Limits hold over all processes, from their next claim on.
///
/// A job type declares its own in the attribute: `#[job(concurrency = 2, rate_limit = "100/1m")]`; a worker stores them when
/// it starts. What is set here takes their place, and outlives all processes, until it is cleared. Jobs that run when a
/// limit is lowered run on. The chapter [limits](crate::guide::limits) of the guide tells the rules.
impl JobQueue {
    /// Sets the limit of a queue or a job type, in the place of what was set before and of what the type declares: all of
    /// its numbers, so one that is left out is no limit.
    ///
    /// # Errors
    /// [`QueueError::Store`]: also where it is no limit, such as 0 jobs at once, or one for each key of a queue.
    ///
    /// # Cancel safety
    /// Dropping it loses the answer, and neither undoes nor half-does the act.
    pub async fn set_limit(&self, limit: Limit) -> Result<(), QueueError> {
        Ok(self.0.store.set_limit(limit, self.now()).await?)
    }

    /// Takes back what was set; what the type declares holds again. Whether something was set.
    ///
    /// # Errors
    /// [`QueueError::Store`].
    ///
    /// # Cancel safety
    /// As [`set_limit`](Self::set_limit).
    pub async fn clear_limit(&self, of: impl Into<Limited>) -> Result<bool, QueueError> {
        Ok(self.0.store.clear_limit(of.into(), self.now()).await?)
    }

    /// Reads all limits, set or declared, those of queues first, by name: what holds, how many of their jobs run, and
    /// when the rate of one that has no start left gives the next.
    ///
    /// # Errors
    /// [`QueueError::Store`].
    pub async fn limits(&self) -> Result<Vec<LimitRow>, QueueError> {
        Ok(self.0.store.limits(self.now()).await?)
    }
}
