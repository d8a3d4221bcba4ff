use jobq::prelude::*;
use serde::Serialize;

#[derive(Serialize)]
struct Measured(usize);

#[job]
async fn measure(text: String) -> Result<Measured, JobError> {
    Ok(Measured(text.len()))
}

async fn length() -> Result<usize, JobError> {
    let handle = measure.enqueue("four".into()).await?;
    Ok(handle.wait().await?.0)
}

fn main() {}
