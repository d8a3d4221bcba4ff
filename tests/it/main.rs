//! Laws on every store, the model test, worker behaviour, crashes, SQL and tidiness: one binary.

mod crates;
mod laws;
mod macros;
mod model;
mod pure;
mod queue;
mod registry;
mod tidy;
mod worker;
