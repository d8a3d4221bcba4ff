use jobq::prelude::*;

struct Mailer;

#[job]
async fn send(#[data] mailer: Mailer) {
    let _ = mailer;
}

fn main() {}
