use jobq::prelude::*;

#[job(rate_limit = 100)]
async fn sweep() {}

fn main() {}
