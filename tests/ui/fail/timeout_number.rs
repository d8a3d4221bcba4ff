use jobq::prelude::*;

#[job(timeout = 30)]
async fn sweep() {}

fn main() {}
