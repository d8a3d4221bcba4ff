use jobq::prelude::*;

#[job(priority = 40_000)]
async fn sweep() {}

fn main() {}
