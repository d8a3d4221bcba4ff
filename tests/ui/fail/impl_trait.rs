use jobq::prelude::*;

#[job]
async fn send(to: impl Into<String>) {
    drop(to);
}

fn main() {}
