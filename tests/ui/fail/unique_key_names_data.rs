use jobq::prelude::*;

struct Mailer;

#[job(unique(key = "{mailer}"))]
async fn send(#[data] mailer: &Mailer, user_id: u64) {
    let _ = (mailer, user_id);
}

fn main() {}
