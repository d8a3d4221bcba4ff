use jobq::prelude::*;

#[derive(Event)]
struct UserRegistered {
    user_id: u64,
}

#[job(on = UserRegistered)]
async fn greet(user_id: u64) {
    println!("{user_id}");
}

fn main() {}
