use jobq::prelude::*;

#[job(serde(transparent))]
async fn log_in(#[secret] token: String) {
    let _ = token;
}

fn main() {}
