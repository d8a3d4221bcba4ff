use jobq::prelude::*;

#[job(label = "Mail to {emial}")]
async fn send(user_id: u64, email: String) {
    let _ = (user_id, email);
}

fn main() {}
