use jobq::prelude::*;

#[job(cron = "*/0 2 * * *")]
async fn clean_up() {}

fn main() {}
