use jobq::prelude::*;

#[job(upgrade = from_older)]
async fn sweep() {}

#[job(version = 1, upgrade = from_older)]
async fn clean() {}

fn from_older(_: u32, payload: serde_json::Value) -> Result<serde_json::Value, String> {
    Ok(payload)
}

fn main() {}
