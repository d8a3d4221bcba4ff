use jobq::prelude::*;

#[job(cron = "0 3 * *")]
async fn clean_up() {}

fn main() {}
