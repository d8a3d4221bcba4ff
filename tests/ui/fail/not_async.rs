use jobq::prelude::*;

#[job]
fn send(user_id: u64) {
    let _ = user_id;
}

fn main() {}
