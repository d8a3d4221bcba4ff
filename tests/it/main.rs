//! Laws on every store, the model test, worker behaviour, crashes, SQL and tidiness: one binary.

mod cases;
mod child;
mod crash;
mod crates;
mod laws;
mod macros;
mod model;
mod pure;
mod queue;
mod registry;
mod sqlite;
mod tidy;
mod worker;
