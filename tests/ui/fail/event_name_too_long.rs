use jobq::prelude::*;

#[derive(Event)]
#[event(name = "a name of an event that is longer than the sixty-four bytes which a row holds")]
struct UserRegistered;

fn main() {}
