use jobq::prelude::*;

#[job]
async fn send(#[cfg(unix)] user_id: u64) {
    let _ = user_id;
}

fn main() {}
