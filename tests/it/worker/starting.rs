//! starting
