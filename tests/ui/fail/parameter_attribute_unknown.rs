use jobq::prelude::*;

#[job]
async fn send(#[date] user_id: u64) {
    let _ = user_id;
}

fn main() {}
