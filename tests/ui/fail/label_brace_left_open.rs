use jobq::prelude::*;

#[job(label = "Mail to {email")]
async fn send(email: String) {
    let _ = email;
}

fn main() {}
