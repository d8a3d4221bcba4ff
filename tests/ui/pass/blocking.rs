//! A plain function, or an async one that blocks.
#![deny(warnings)]

use jobq::{Call, prelude::*};
use std::time::Duration;

#[job(blocking)]
fn plain(ctx: &JobContext, rounds: u8, #[data] wait: &Duration) -> Result<u8, JobError> {
    for round in 0..rounds {
        if ctx.is_cancelled() {
            return Ok(round);
        }
        std::thread::sleep(*wait);
    }
    Ok(rounds)
}

#[job(blocking)]
fn plain_and_empty() {}

#[job(blocking, queue = "cpu")]
async fn asynchronous(rounds: u8) -> Result<u8, std::io::Error> {
    std::future::ready(()).await;
    Ok(rounds)
}

/// What a blocking function holds need not be Send.
#[job(blocking)]
fn not_send() -> Result<u8, JobError> {
    let shared = std::rc::Rc::new(1);
    Ok(*shared)
}

fn call<'a>(ctx: &'a JobContext, wait: &'a Duration) -> Call<'a, Plain> {
    plain(ctx, 1, wait)
}

fn main() {
    let _ =
        (plain.enqueue(1), asynchronous.enqueue(1), plain_and_empty.enqueue(()), not_send.enqueue(()), call);
}
