//! verdicts
