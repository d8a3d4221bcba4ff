//! The tests of jobq: one binary of laws and behaviour (it), one of compile errors (ui).
#![forbid(unsafe_code)]

/// Jobs of a crate that is not the one which enqueues them.
pub mod elsewhere {
    use jobq::prelude::*;

    /// Measures a text in another crate.
    #[job(type = "elsewhere:measure")]
    pub async fn measure(text: String) -> Result<usize, JobError> {
        Ok(text.len())
    }
}
