use jobq::prelude::*;

#[job(version = 0)]
async fn sweep() {}

fn main() {}
