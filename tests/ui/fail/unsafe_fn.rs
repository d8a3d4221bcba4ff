use jobq::prelude::*;

#[job]
async unsafe fn send(user_id: u64) {
    let _ = user_id;
}

fn main() {}
