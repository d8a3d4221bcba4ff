//! A pattern that no job can match.
use jobq::{assert_enqueued, testing::TestQueue};

async fn test(queue: TestQueue) {
    assert_enqueued!(queue, Some(_));
}

fn main() {}
