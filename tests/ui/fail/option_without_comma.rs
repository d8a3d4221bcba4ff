use jobq::prelude::*;

#[job(queue = "mail" priority = 3)]
async fn sweep() {}

fn main() {}
