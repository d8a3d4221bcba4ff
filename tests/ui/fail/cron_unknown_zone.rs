use jobq::prelude::*;

#[job(cron = "@daily", tz = "Europe/Warsow")]
async fn clean_up() {}

fn main() {}
