use jobq::prelude::*;

#[job(cron = "0 0 30 2 *")]
async fn clean_up() {}

fn main() {}
