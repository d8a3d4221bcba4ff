use jobq::prelude::*;

#[job(queue = mail)]
async fn sweep() {}

fn main() {}
