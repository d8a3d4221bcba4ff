use jobq::prelude::*;

#[job(unique(key = "{user}:{token}"))]
async fn log_in(user: u64, #[secret] token: String) {
    let _ = (user, token);
}

#[job(unique)]
async fn log_out(user: u64, #[secret] token: String) {
    let _ = (user, token);
}

fn main() {}
