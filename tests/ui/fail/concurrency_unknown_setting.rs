use jobq::prelude::*;

#[job(concurrency(max = 10))]
async fn sweep() {}

fn main() {}
