use jobq::prelude::*;

#[job(unique(key = "{user}", debounce = "5s", within = "1h"))]
async fn send_digest(user: u64) {
    let _ = user;
}

fn main() {}
