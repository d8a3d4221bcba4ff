use jobq::prelude::*;

#[job(on_dead = tell_ops)]
async fn sweep() {}

async fn tell_ops(dead: DeadJob) {
    println!("{dead}");
}

fn main() {}
