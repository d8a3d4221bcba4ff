use jobq::prelude::*;

use std::error::Error;

#[job]
async fn measure(text: String) -> Result<usize, Box<dyn Error>> {
    Ok(text.len())
}

fn main() {}
