//! One claimed job → one Verdict; touches no store.
