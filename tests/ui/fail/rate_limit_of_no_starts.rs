use jobq::prelude::*;

#[job(rate_limit = "0/1m")]
async fn sweep() {}

fn main() {}
