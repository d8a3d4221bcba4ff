use jobq::prelude::*;

#[job]
async fn log_in(#[secret(key = "a")] token: String) {
    let _ = token;
}

fn main() {}
