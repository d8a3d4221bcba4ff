use jobq::prelude::*;

#[job]
async fn send(ctx: JobContext) {
    let _ = ctx;
}

fn main() {}
