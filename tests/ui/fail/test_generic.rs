//! A generic test.

#[jobq::test]
async fn for_all<T>() {}

fn main() {}
