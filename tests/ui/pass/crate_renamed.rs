//! jobq under another name, or through another crate.
#![deny(warnings)]

mod facade {
    pub mod jobs {
        pub use jobq::*;
    }
}

use facade::jobs as queueing;
use queueing::prelude::*;

#[job(crate = queueing)]
async fn by_name(n: u8) {
    let _ = n;
}

#[job(crate = crate::facade::jobs, label = "{n}", timeout = "1s")]
async fn by_path(n: u8) -> Result<u8, JobError> {
    Ok(n)
}

#[job(crate = "crate::facade::jobs")]
async fn by_text(#[data] n: &u8, m: u8) {
    let _ = (n, m);
}

#[job(crate = ::jobq)]
async fn absolute() {}

fn main() {
    let _ = (by_name.enqueue(1), by_path.enqueue(1), by_text.enqueue(1), absolute.enqueue(()));
}
