//! The testing kit: what a user's tests ask of it, and what it says when they fail.

mod drains;
mod example;
mod finds;
mod many;
mod performs;
mod stands_still;
mod ticks;

/// What a failing assertion says.
async fn said<F: Future>(failing: F) -> String {
    *caught(failing).await.err().expect("it panics").downcast::<String>().expect("a text")
}

/// Catches the panic of a future.
async fn caught<F: Future>(future: F) -> std::thread::Result<F::Output> {
    use std::{
        panic::{AssertUnwindSafe, catch_unwind},
        task::Poll,
    };
    let mut future = Box::pin(future);
    std::future::poll_fn(move |cx| match catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(cx))) {
        Ok(Poll::Pending) => Poll::Pending,
        Ok(Poll::Ready(output)) => Poll::Ready(Ok(output)),
        Err(panic) => Poll::Ready(Err(panic)),
    })
    .await
}

#[test]
fn the_guide_repeats_the_example_word_for_word() {
    let chapter = include_str!("../../jobq/src/guide/testing.md");
    let (_, example) = include_str!("testing/example.rs").split_once("\n\n").unwrap();
    assert!(chapter.contains(example), "put the module of tests/it/testing/example.rs into the chapter");
}
