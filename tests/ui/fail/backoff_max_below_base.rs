use jobq::prelude::*;

#[job(backoff = exponential(base = "10m", max = "1m"))]
async fn sweep() {}

fn main() {}
