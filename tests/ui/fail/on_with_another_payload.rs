use jobq::prelude::*;

#[derive(Event)]
struct UserRegistered;

#[job]
async fn meet() {}

#[job(on(UserRegistered, with = greeting))]
async fn greet() {}

fn greeting(_: &UserRegistered) -> Option<Meet> {
    Some(Meet {})
}

fn main() {}
