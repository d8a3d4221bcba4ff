use jobq::prelude::*;

#[derive(Event)]
struct UserRegistered;

#[job(on(UserRegistered, with = greeting))]
async fn greet() {}

fn greeting(_: &UserRegistered) -> Greet {
    Greet {}
}

fn main() {}
