use jobq::prelude::*;

#[derive(Event)]
#[event(type = "user:registered")]
struct UserRegistered;

#[derive(Event)]
#[event(name)]
struct UserLeft;

fn main() {}
