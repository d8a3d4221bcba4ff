use jobq::prelude::*;

#[job]
async fn log_in(
    #[secret]
    #[secret]
    token: String,
) {
    let _ = token;
}

fn main() {}
