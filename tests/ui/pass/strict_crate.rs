//! A crate that denies what can be denied.
#![deny(warnings, missing_docs, missing_debug_implementations, unreachable_pub, unused_qualifications)]
#![deny(
    rust_2018_idioms,
    future_incompatible,
    nonstandard_style,
    unused,
    single_use_lifetimes,
    elided_lifetimes_in_paths
)]
#![deny(
    unsafe_op_in_unsafe_fn,
    missing_copy_implementations,
    trivial_casts,
    unused_results,
    let_underscore_drop
)]
#![forbid(unsafe_code, unused_imports)]

/// The jobs.
pub mod jobs {
    use jobq::prelude::*;

    /// Has docs of its own.
    #[job(label = "to {email}")]
    pub async fn documented(ctx: &JobContext, email: String) -> Result<u8, JobError> {
        drop(email);
        Ok(u8::try_from(ctx.attempt())?)
    }

    /// Its parameters too.
    ///
    /// At length.
    #[job(serde(rename_all = "camelCase"))]
    pub async fn at_length(
        /// Who.
        user_id: u64,
        /** What. */
        what: u8,
    ) {
        assert!(user_id > what.into());
    }

    /// Blocks.
    #[job(blocking)]
    pub fn blocks() {}
}

fn main() {}
