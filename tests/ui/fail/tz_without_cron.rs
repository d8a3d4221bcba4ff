use jobq::prelude::*;

#[job(tz = "Europe/Warsaw", overlap = skip)]
async fn clean_up() {}

fn main() {}
