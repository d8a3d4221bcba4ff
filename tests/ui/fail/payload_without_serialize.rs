use jobq::prelude::*;

struct Address(String);

#[job]
async fn send(user_id: u64, to: Address) {
    let _ = (user_id, to.0);
}

fn main() {}
