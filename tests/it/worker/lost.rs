//! lost
