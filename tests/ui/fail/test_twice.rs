//! A test that is made one twice.

#[jobq::test]
#[test]
async fn once_is_enough() {}

fn main() {}
