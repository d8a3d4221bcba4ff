use jobq::prelude::*;

#[job]
async fn fetch(url: String) -> Result<u64, JobError> {
    Ok(url.len() as u64)
}

#[job]
async fn store(length: u64) {
    let _ = length;
}

async fn flow() {
    let _ = fetch.enqueue("x".into()).then_each(store).await;
}

fn main() {}
