use jobq::prelude::*;

#[job]
struct Sweep;

fn main() {}
