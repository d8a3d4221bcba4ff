use jobq::prelude::*;

#[job]
async fn send(user_id: u64, email: String) {
    let _ = (user_id, email);
}

fn main() {
    let _ = send.enqueue();
}
