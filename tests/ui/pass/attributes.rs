//! Attributes go where they belong, and what an attribute macro before or after `#[job]` does is done to the body.
#![deny(warnings)]

use jobq::prelude::*;

#[job]
#[tracing::instrument(skip(email), fields(at = "the body"))]
async fn before(user_id: u64, email: String) -> Result<(), JobError> {
    let _ = (user_id, email);
    Ok(())
}

#[inline]
#[must_use]
#[job]
async fn after() -> Result<u8, JobError> {
    Ok(1)
}

/// Gone in the next version.
#[deprecated(note = "call `after`")]
#[job(label = "old {n}")]
async fn old(n: u8) {
    let _ = n;
}

#[job]
#[expect(unused_variables, non_snake_case, reason = "they are the test")]
async fn Odd(unusedHere: u8) {}

#[job]
#[allow(unused_mut, clippy::needless_pass_by_value)]
async fn allowed(#[allow(unused_variables)] mut n: u8) {}

#[cfg(any())]
#[job]
async fn not_here(no: such::Type) -> Nothing {}

#[job]
#[cfg(all())]
async fn here() {}

#[job]
#[cfg_attr(all(), doc = "Docs by condition.", inline(never))]
#[cfg_attr(any(), no_such_attribute)]
async fn conditional() {}

#[allow(deprecated)]
fn main() {
    let _ = (before.enqueue((1, "a".into())), after.enqueue(()), old.enqueue(1), Odd.enqueue(1));
    let _ = (allowed.enqueue(1), here.enqueue(()), conditional.enqueue(()));
}
