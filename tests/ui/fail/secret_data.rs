use jobq::prelude::*;

struct Vault;

#[job]
async fn log_in(
    #[secret]
    #[data]
    vault: &Vault,
) {
    let _ = vault;
}

fn main() {}
