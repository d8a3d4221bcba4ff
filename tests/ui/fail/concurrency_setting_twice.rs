use jobq::prelude::*;

#[job(concurrency(total = 10, total = 11))]
async fn sweep() {}

fn main() {}
