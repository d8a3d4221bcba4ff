//! Typed background jobs for Rust that need nothing but a SQLite file.

pub mod context;
pub mod enqueue;
pub mod executor;
pub mod job;
pub mod maintenance;
#[doc(hidden)]
pub mod private;
pub mod queue;
pub mod registry;
pub mod retry;
pub mod state;
pub mod store;
pub mod time;
pub mod worker;

/// The one import of a user: the attribute, and the traits that give job functions and payloads their `enqueue`.
pub mod prelude {
    pub use crate::{
        context::JobContext,
        enqueue::{EnqueueExt, JobFn},
        job::{Job, JobError},
    };
}
