use jobq::prelude::*;

#[job(backoff = exponentail(base = "10s"))]
async fn sweep() {}

fn main() {}
