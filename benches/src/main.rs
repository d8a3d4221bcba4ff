//! The bench: jobq, bare SQLite and its peers at the same works.
mod limit;
mod ours;
use jobq_bench_works::{Settings, run};
#[tokio::main]
async fn main() {
    let settings = Settings::of_this_program();
    match settings.text("subject", "jobq") {
        "limit" => run(&settings, limit::Limit::open(&settings).await.unwrap()).await,
        _ => run(&settings, ours::Jobq::open(&settings).await.unwrap()).await,
    }
}
