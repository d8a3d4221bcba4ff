use jobq::prelude::*;

#[job(on_dead = tell_ops, max_attempts = 2, on_dead = tell_ops)]
async fn sweep() {}

#[job]
async fn tell_ops(dead: DeadJob) {
    println!("{dead}");
}

fn main() {}
