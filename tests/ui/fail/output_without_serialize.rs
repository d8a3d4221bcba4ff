use jobq::prelude::*;

struct Measured(usize);

#[job]
async fn measure(text: String) -> Result<Measured, JobError> {
    Ok(Measured(text.len()))
}

fn main() {}
