use jobq::prelude::*;

#[job(concurrency = 1, concurrency_key = "{tennant}")]
async fn sweep(tenant: String) {
    let _ = tenant;
}

fn main() {}
