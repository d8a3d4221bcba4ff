//! The loop: claim, execute, settle; and the graceful stop.
