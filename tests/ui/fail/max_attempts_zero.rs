use jobq::prelude::*;

#[job(max_attempts = 0)]
async fn sweep() {}

fn main() {}
