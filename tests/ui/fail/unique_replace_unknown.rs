use jobq::prelude::*;

#[job(unique(on_conflict = replace(payload, args)))]
async fn send(user_id: u64, email: String) {
    let _ = (user_id, email);
}

fn main() {}
