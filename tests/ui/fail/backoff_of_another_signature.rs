use jobq::prelude::*;

use std::time::Duration;

fn wait(attempt: u32) -> Duration {
    Duration::from_secs(attempt.into())
}

#[job(backoff = wait)]
async fn sweep() {}

fn main() {}
