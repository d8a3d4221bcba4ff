use jobq::prelude::*;

#[job(unique(debounce = "5s", on_conflict = keep))]
async fn send(user_id: u64, email: String) {
    let _ = (user_id, email);
}

fn main() {}
