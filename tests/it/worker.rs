//! What a worker does: verdicts, running, trouble of the store, lost workers, stopping.

mod cancelling;
mod captured;
mod cron;
mod flat_out;
pub(crate) mod ground;
mod limits;
mod lost;
mod notes;
mod on_dead;
mod on_sqlite;
mod people;
mod results;
mod running;
mod starting;
mod steps;
mod stopping;
mod transactions;
mod trouble;
mod verdicts;
