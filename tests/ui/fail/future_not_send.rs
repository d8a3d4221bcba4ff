use jobq::prelude::*;

use std::rc::Rc;

#[job]
async fn send(user_id: u64) -> Result<(), JobError> {
    let shared = Rc::new(user_id);
    std::future::ready(()).await;
    drop(shared);
    Ok(())
}

fn main() {}
