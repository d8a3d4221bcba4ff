use jobq::prelude::*;

#[job]
async fn send<T: Send>(what: T) {
    drop(what);
}

fn main() {}
