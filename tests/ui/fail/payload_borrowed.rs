use jobq::prelude::*;

#[job]
async fn send(email: &str) {
    let _ = email;
}

fn main() {}
