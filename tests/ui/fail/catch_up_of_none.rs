use jobq::prelude::*;

#[job(cron = "@daily", catch_up = all(0))]
async fn clean_up() {}

fn main() {}
