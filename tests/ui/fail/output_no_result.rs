use jobq::prelude::*;

struct Measure(usize);

#[job]
async fn measure_text(text: String) -> Measure {
    Measure(text.len())
}

fn main() {}
