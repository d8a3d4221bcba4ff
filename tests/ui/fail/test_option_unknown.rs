//! An option that `#[jobq::test]` does not have.

#[jobq::test(sqlit)]
async fn in_a_file() {}

fn main() {}
