//! A plain function under `#[jobq::test]`.

#[jobq::test]
fn nothing_is_awaited() {}

fn main() {}
