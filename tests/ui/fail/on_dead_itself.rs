use jobq::prelude::*;

#[job(on_dead = sweep)]
async fn sweep(dead: DeadJob) {
    println!("{dead}");
}

fn main() {}
