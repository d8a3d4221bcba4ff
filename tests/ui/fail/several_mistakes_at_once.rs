use jobq::prelude::*;

#[job(max_attempts = 0, priorty = 1, timeout = "soon", label = "{x}")]
fn send((user_id, email): (u64, String), to: String) -> u32 {
    let _ = (user_id, email, to);
    1
}

fn main() {
    let _ = send.enqueue(((42, "a".into()), "b".into()));
}
