//! The bench: jobq, bare SQLite and its peers at the same works.

mod limit;
mod ours;

use jobq_bench_works::{Settings, run};

#[tokio::main]
async fn main() {
    let settings = Settings::of_this_program();
    match settings.text("subject", "jobq") {
        "limit" => run(&settings, limit::Limit::open(&settings).await.expect("the file opens")).await,
        _ => {
            let queue = ours::Jobq::open(&settings).await.expect("the file opens");
            if settings.work == "hang" {
                return queue.hang(&settings).await.expect("the job hangs");
            }
            run(&settings, queue).await
        }
    }
}
