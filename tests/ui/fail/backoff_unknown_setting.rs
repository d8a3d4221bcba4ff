use jobq::prelude::*;

#[job(backoff = exponential(base = "10s", maximum = "1h"))]
async fn sweep() {}

fn main() {}
