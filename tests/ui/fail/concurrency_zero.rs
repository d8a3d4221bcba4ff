use jobq::prelude::*;

#[job(concurrency = 0)]
async fn sweep() {}

fn main() {}
