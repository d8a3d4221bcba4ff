use jobq::prelude::*;

#[job(cron = "@daily", overlap = "skip")]
async fn clean_up() {}

fn main() {}
