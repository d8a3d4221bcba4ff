use jobq::prelude::*;

#[job(queue)]
async fn sweep() {}

fn main() {}
