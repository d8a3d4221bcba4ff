use jobq::prelude::*;

#[job(concurrency(total = 10, per_key = 2))]
async fn sweep(tenant: String) {
    let _ = tenant;
}

fn main() {}
