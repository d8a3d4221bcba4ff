use jobq::prelude::*;

#[job]
async fn send((user_id, email): (u64, String)) {
    let _ = (user_id, email);
}

fn main() {}
