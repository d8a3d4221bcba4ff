use jobq::prelude::*;

#[job(label = "Log in with {token}")]
async fn log_in(#[secret] token: String) {
    let _ = token;
}

fn main() {}
