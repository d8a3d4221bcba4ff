use jobq::prelude::*;

#[job(aliases = ["tidy", "sweep"])]
async fn sweep() {}

fn main() {}
