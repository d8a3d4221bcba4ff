use jobq::prelude::*;

struct Token;

#[job]
async fn log_in(#[secret] token: Token) {
    let _ = token;
}

fn main() {}
