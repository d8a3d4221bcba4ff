//! jobq
pub mod context;
pub mod job;
#[doc(hidden)]
pub mod private;
pub mod registry;
pub mod retry;
pub mod state;
pub mod store;
pub mod time;
