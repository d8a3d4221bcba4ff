//! A test that wants more than its queue.
use jobq::testing::TestQueue;

struct Mailer;

#[jobq::test]
async fn a_mailer_is_lent(_queue: TestQueue, _mailer: Mailer) {}

fn main() {}
