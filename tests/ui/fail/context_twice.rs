use jobq::prelude::*;

#[job]
async fn send(ctx: &JobContext, again: &JobContext) {
    let _ = (ctx, again);
}

fn main() {}
