use jobq::prelude::*;

#[job(cron = "0 */5 * * * *")]
async fn sweep() {}

fn main() {}
