//! What is performed is a payload, not its arguments.
use jobq::{prelude::*, testing::perform};

#[job]
async fn greet(#[expect(unused)] name: String) {}

async fn test() {
    perform("Ada".to_owned()).await;
}

fn main() {}
