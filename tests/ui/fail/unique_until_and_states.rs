use jobq::prelude::*;

#[job(unique(until = started, states = [running]))]
async fn send(user_id: u64, email: String) {
    let _ = (user_id, email);
}

fn main() {}
