use jobq::prelude::*;

#[job(max_attempt = 3)]
async fn sweep() {}

fn main() {}
