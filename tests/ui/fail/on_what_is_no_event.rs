use jobq::prelude::*;

struct UserRegistered {
    user_id: u64,
}

impl From<&UserRegistered> for Greet {
    fn from(event: &UserRegistered) -> Self {
        Self { user_id: event.user_id }
    }
}

#[job(on = UserRegistered)]
async fn greet(user_id: u64) {
    println!("{user_id}");
}

fn main() {}
