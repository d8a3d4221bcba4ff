use jobq::prelude::*;

#[job]
async fn fetch(url: String) -> Result<u64, JobError> {
    Ok(url.len() as u64)
}

#[job]
async fn store(name: String) {
    let _ = name;
}

async fn flow() {
    let _ = fetch.enqueue("x".into()).then(store).await;
}

fn main() {}
