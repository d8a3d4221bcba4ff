use jobq::prelude::*;

#[job]
async fn fetch(url: String) -> Result<u64, JobError> {
    Ok(url.len() as u64)
}

async fn store(length: u64) {
    let _ = length;
}

async fn flow() {
    let _ = fetch.enqueue("x".into()).then(store).await;
}

fn main() {}
