//! The queue as applications use it: enqueueing, its options and errors, scopes, acts of people.

use jobq::{
    enqueue::{Call, JobSet},
    job::{Defaults, Job},
    prelude::*,
};
use serde::{Deserialize, Serialize};

/// What `#[job]` writes for `async fn measure(ctx: &JobContext, user_id: u64, email: String) -> Result<u32, String>`.
#[derive(Serialize, Deserialize)]
struct Measure {
    user_id: u64,
    email: String,
}

impl Job for Measure {
    const TYPE: &'static str = "measure";
    const DEFAULTS: Defaults = Defaults::NONE;
    type Args = (u64, String);
    type Return = Result<u32, String>;

    fn from_args((user_id, email): (u64, String)) -> Self {
        Self { user_id, email }
    }
}

fn measure<'a>(ctx: &'a JobContext, user_id: u64, email: String) -> Call<'a, Measure> {
    Call::new(Box::pin(async move { Ok((user_id as u32 + email.len() as u32) * ctx.attempt()) }))
}

/// The same for `async fn sweep()`.
#[derive(Serialize, Deserialize)]
struct Sweep {}

impl Job for Sweep {
    const TYPE: &'static str = "sweep";
    const DEFAULTS: Defaults = Defaults::NONE;
    type Args = ();
    type Return = ();

    fn from_args((): ()) -> Self {
        Self {}
    }
}

fn sweep() -> Call<'static, Sweep> {
    Call::new(Box::pin(async {}))
}

#[test]
fn a_function_and_its_payload_both_enqueue_with_one_import() {
    let _ = measure.enqueue((42, "ada@example.org".into())).priority(7);
    let _ = Measure { user_id: 42, email: String::new() }.enqueue().priority(7);
    let _ = sweep.enqueue(());
    let pointer: fn() -> Call<'static, Sweep> = sweep;
    let _ = pointer.enqueue(()).max_attempts("5".parse().unwrap());
    assert_eq!((measure, sweep).job_types(), ["measure", "sweep"]);
}
