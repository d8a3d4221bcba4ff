use jobq::prelude::*;

#[job(on_dead = tell_ops)]
async fn sweep() {}

#[job]
async fn tell_ops(dead: String) {
    println!("{dead}");
}

fn main() {}
