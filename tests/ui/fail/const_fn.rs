use jobq::prelude::*;

#[job(blocking)]
const fn send(user_id: u64) {
    let _ = user_id;
}

fn main() {}
