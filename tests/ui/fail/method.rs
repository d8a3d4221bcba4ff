use jobq::prelude::*;

struct Mailer;

impl Mailer {
    #[job]
    async fn send(&self, user_id: u64) {
        let _ = user_id;
    }
}

fn main() {}
