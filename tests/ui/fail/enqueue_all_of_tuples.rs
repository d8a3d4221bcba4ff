//! A queue takes payloads; arguments alone go to the function.

use jobq::prelude::*;

#[job]
async fn mail(to: String, copies: u32) -> Result<(), JobError> {
    drop((to, copies));
    Ok(())
}

async fn app(queue: &JobQueue) {
    drop(queue.enqueue_all([("ada".to_string(), 1)]).await);
    drop(mail.enqueue_all([("ada".into(), 1)]).await);
}

fn main() {}
