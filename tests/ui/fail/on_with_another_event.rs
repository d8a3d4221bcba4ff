use jobq::prelude::*;

#[derive(Event)]
struct UserRegistered;

#[derive(Event)]
struct UserLeft;

#[job(on(UserRegistered, with = greeting))]
async fn greet() {}

fn greeting(_: &UserLeft) -> Option<Greet> {
    Some(Greet {})
}

fn main() {}
