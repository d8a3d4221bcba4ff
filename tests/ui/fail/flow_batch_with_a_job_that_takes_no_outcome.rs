use jobq::{batch, prelude::*};

#[job]
async fn store(length: u64) {
    let _ = length;
}

async fn flow() {
    let _ = batch([Store { length: 1 }]).then(store).await;
}

fn main() {}
