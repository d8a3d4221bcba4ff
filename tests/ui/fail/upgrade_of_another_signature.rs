use jobq::prelude::*;

use serde_json::Value;

#[job(version = 2, upgrade = takes_no_version)]
async fn sweep() {}

fn takes_no_version(payload: Value) -> Result<Value, String> {
    Ok(payload)
}

#[job(version = 2, upgrade = gives_no_result)]
async fn clean() {}

fn gives_no_result(_: u32, payload: Value) -> Value {
    payload
}

#[job(version = 2, upgrade = gives_the_payload)]
async fn brush() {}

fn gives_the_payload(_: u32, _: Value) -> Result<Brush, String> {
    Ok(Brush {})
}

fn main() {}
