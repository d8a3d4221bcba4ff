use jobq::prelude::*;

#[job]
async fn send<'a>(ctx: &'a JobContext) {
    let _ = ctx;
}

fn main() {}
