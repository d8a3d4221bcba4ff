use jobq::prelude::*;

struct Measure;

#[job]
async fn measure(text: String) {
    let _ = (text, Measure);
}

fn main() {}
