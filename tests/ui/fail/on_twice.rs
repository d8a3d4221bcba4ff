use jobq::prelude::*;

#[derive(Event)]
struct UserRegistered;

impl From<&UserRegistered> for Greet {
    fn from(_: &UserRegistered) -> Self {
        Self {}
    }
}

#[job(on = UserRegistered, on = UserRegistered)]
async fn greet() {}

fn main() {}
