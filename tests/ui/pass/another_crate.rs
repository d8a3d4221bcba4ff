//! A job of another crate is enqueued, called and known here, once something of that crate is named.
#![deny(warnings)]

use jobq::prelude::*;
use jobq_tests::elsewhere::{self, Measure, measure};

fn main() {
    let _ = (
        measure.enqueue("text".into()),
        elsewhere::measure.enqueue("text".into()),
        Measure { text: "text".into() },
    );
    assert!(
        jobq::registry()
            .iter()
            .any(|entry| entry.job_type == Measure::TYPE && entry.module == "jobq_tests::elsewhere")
    );
}
