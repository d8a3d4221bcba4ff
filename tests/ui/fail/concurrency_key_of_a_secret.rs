use jobq::prelude::*;

#[job(concurrency = 1, concurrency_key = "{token}")]
async fn sweep(#[secret] token: String) {
    let _ = token;
}

fn main() {}
