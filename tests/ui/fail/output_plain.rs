use jobq::prelude::*;

#[job]
async fn measure(text: String) -> usize {
    text.len()
}

fn main() {}
