use jobq::prelude::*;

trait Mailer: Send + Sync {}

#[job]
async fn send(#[data] mailer: &dyn Mailer) {
    let _ = mailer;
}

fn main() {}
