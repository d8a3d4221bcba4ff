use jobq::prelude::*;

#[job(cron = "@dayly")]
async fn clean_up() {}

fn main() {}
