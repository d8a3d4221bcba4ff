use jobq::prelude::*;

#[job(retries = 3)]
async fn sweep() {}

fn main() {}
