use jobq::prelude::*;

#[job(unique(within = "0s"))]
async fn send(user_id: u64, email: String) {
    let _ = (user_id, email);
}

fn main() {}
