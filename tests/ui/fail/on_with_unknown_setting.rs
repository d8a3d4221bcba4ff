use jobq::prelude::*;

#[derive(Event)]
struct UserRegistered;

#[job(on(UserRegistered, map = greeting))]
async fn greet() {}

#[job(on(UserRegistered, with = |_| None))]
async fn meet() {}

fn greeting(_: &UserRegistered) -> Option<Greet> {
    Some(Greet {})
}

fn main() {}
