use jobq::prelude::*;

#[job(cron = "@daily", catch_up = onse)]
async fn clean_up() {}

fn main() {}
