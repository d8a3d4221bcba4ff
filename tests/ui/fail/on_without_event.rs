use jobq::prelude::*;

#[job(on)]
async fn greet() {}

#[job(on())]
async fn part() {}

#[job(on = "UserRegistered")]
async fn meet() {}

fn main() {}
