//! Performing one job: the typed return, the real context, and what it refuses.

use super::said;
use jobq::{EnqueueError, assert_enqueued, prelude::*, testing::*};

#[derive(Debug, PartialEq)]
struct Declined(u64);

impl std::fmt::Display for Declined {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "declined {}", self.0)
    }
}

impl std::error::Error for Declined {}

struct Bank(u64);

#[job(type = "performed:charge")]
async fn charge(#[data] bank: &Bank, cents: u64) -> Result<u64, Declined> {
    bank.0.checked_sub(cents).ok_or(Declined(cents))
}

#[job(type = "performed:last", max_attempts = 3)]
async fn last(ctx: &JobContext) -> Result<(u32, bool, String), JobError> {
    Ok((ctx.attempt(), ctx.is_last_attempt(), ctx.queue_name().to_owned()))
}

#[job(type = "performed:unit", blocking)]
fn unit(then: bool) {
    assert!(then, "it is not so");
}

#[job(type = "performed:parent", blocking)]
async fn parent(n: u64) -> Result<(), EnqueueError> {
    charge.enqueue(n).await?;
    Ok(())
}

#[job(type = "performed:forgets")]
async fn forgets(#[serde(skip_serializing)] n: u64) -> Result<u64, String> {
    Ok(n)
}

#[jobq::test]
async fn the_typed_output_or_the_typed_error_is_given() {
    assert_eq!(perform(Charge { cents: 1 }).data(Bank(3)).await, Ok(2));
    assert_eq!(perform(Charge { cents: 4 }).data(Bank(3)).await, Err(Declined(4)));
    perform(Unit { then: true }).await;
}

#[tokio::test]
async fn any_attempt_can_be_performed_and_no_queue_is_needed() {
    assert_eq!(perform(Last {}).await.unwrap(), (1, false, "default".into()));
    assert_eq!(perform(Last {}).attempt(3).await.unwrap(), (3, true, "default".into()));
}

#[jobq::test]
async fn what_a_performed_job_enqueues_is_in_the_queue_of_the_test(queue: TestQueue) {
    perform(Parent { n: 7 }).await.unwrap();
    assert_enqueued!(queue, Charge { cents: 7 });
    assert_eq!(queue.all::<Parent>().await.len(), 0, "the performed job itself is not there");
    let other = TestQueue::new();
    perform(Parent { n: 8 }).on(&other).await.unwrap();
    assert_enqueued!(other, Charge { cents: 8 });
}

#[jobq::test]
async fn what_can_not_be_performed_is_told() {
    let text = said(perform(Charge { cents: 1 }).into_future()).await;
    assert!(text.contains("performs::Bank` for `performed:charge`"), "{text}");
    assert!(text.contains("in perform of `performed:charge` at tests/it/testing/performs.rs:"), "{text}");
    let text = said(perform(Unit { then: false }).into_future()).await;
    assert!(text.starts_with("the job panicked: it is not so"), "{text}");
    let text = said(perform(Forgets { n: 1 }).into_future()).await;
    assert!(text.contains("missing field `n`"), "{text}");
}
