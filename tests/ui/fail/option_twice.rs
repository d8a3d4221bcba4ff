use jobq::prelude::*;

#[job(priority = 1, queue = "mail", priority = 2)]
async fn sweep() {}

fn main() {}
