use jobq::prelude::*;

#[job(unique(key = "{user_id}", period = "1h"))]
async fn send(user_id: u64, email: String) {
    let _ = (user_id, email);
}

fn main() {}
