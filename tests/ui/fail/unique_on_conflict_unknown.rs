use jobq::prelude::*;

#[job(unique(on_conflict = ignore))]
async fn send(user_id: u64, email: String) {
    let _ = (user_id, email);
}

fn main() {}
