use jobq::prelude::*;

#[derive(Event)]
struct Changed<T> {
    what: T,
}

fn main() {}
