use jobq::prelude::*;

#[job(version = 2)]
async fn sweep() {}

fn main() {}
