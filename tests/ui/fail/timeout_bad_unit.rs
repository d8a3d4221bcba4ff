use jobq::prelude::*;

#[job(timeout = "30 seconds")]
async fn sweep() {}

fn main() {}
