//! How jobs run: what is claimed, in which order, how many at once, and how each kind of end is stored.

use super::ground::*;
use jobq::{
    AttemptOutcome, JobState, Timeout,
    job::{JobId, NewJob},
    prelude::*,
    store::{Next, Store},
};

#[tokio::test]
async fn a_job_runs_and_what_it_returned_is_stored() {
    let g = ground();
    let bystander = g.bystander().await;
    let worker = g.start(2).await;
    let id = g.gated(7).await;
    g.stage.until_entered(1).await;
    assert_eq!(g.state(id).await, JobState::Running);
    g.stage.open(7);
    g.until_state(id, JobState::Completed).await;
    let row = g.row(id).await;
    assert_eq!((row.result.as_deref(), row.attempts, row.worker), (Some("7"), 1, Some(worker.id())));
    assert_eq!(worker.stats().completed, 1);
    g.untouched(bystander).await;
}
