use jobq::prelude::*;

struct Mailer;

#[job]
async fn send(#[data] mailer: &mut Mailer) {
    let _ = mailer;
}

fn main() {}
