use jobq::prelude::*;

#[job(timeout = "0s")]
async fn sweep() {}

fn main() {}
