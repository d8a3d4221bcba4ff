use jobq::prelude::*;

#[job(on_dead = tell_opps)]
async fn sweep() {}

#[job]
async fn tell_ops(dead: DeadJob) {
    println!("{dead}");
}

fn main() {}
