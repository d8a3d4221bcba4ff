//! A pattern with a field that the payload has not.
use jobq::{assert_enqueued, prelude::*, testing::TestQueue};

#[job]
async fn greet(#[expect(unused)] name: String) {}

async fn test(queue: TestQueue) {
    assert_enqueued!(queue, Greet { nam: _ });
}

fn main() {}
