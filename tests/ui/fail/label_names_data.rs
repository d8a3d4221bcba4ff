use jobq::prelude::*;

struct Mailer;

#[job(label = "Mail by {mailer}")]
async fn send(#[data] mailer: &Mailer, user_id: u64) {
    let _ = (mailer, user_id);
}

fn main() {}
