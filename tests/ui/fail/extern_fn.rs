use jobq::prelude::*;

#[job(blocking)]
extern "C" fn send(user_id: u64) {
    let _ = user_id;
}

fn main() {}
