use jobq::prelude::*;

#[job]
async fn send(ctx: &JobContext, user_id: u64) {
    let _ = user_id;
    ctx.
}

fn main() {
    let _ = send.enqueue(42);
}
