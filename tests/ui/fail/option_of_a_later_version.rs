use jobq::prelude::*;

#[job(rate_limit = "100/1m")]
async fn sweep() {}

fn main() {}
