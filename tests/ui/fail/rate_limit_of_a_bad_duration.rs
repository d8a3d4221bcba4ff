use jobq::prelude::*;

#[job(rate_limit = "100/minute")]
async fn sweep() {}

fn main() {}
