use jobq::prelude::*;

#[job(version = 2, upgrade = "from_older")]
async fn sweep() {}

fn main() {}
