use jobq::prelude::*;

struct Empty;

#[job]
async fn measure(text: String) -> Result<usize, Empty> {
    if text.is_empty() { Err(Empty) } else { Ok(text.len()) }
}

fn main() {}
