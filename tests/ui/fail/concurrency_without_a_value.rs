use jobq::prelude::*;

#[job(concurrency)]
async fn sweep() {}

fn main() {}
