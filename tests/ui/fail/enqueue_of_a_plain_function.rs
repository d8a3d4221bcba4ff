use jobq::prelude::*;

async fn send(user_id: u64) {
    let _ = user_id;
}

fn main() {
    let _ = send.enqueue(42);
}
