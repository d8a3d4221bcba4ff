use jobq::prelude::*;

struct UserRegistered;

async fn register(queue: &JobQueue) {
    queue.emit(UserRegistered).await.unwrap();
}

fn main() {}
