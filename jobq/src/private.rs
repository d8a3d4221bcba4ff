//! What expanded code may name, and nothing else. Not part of the public API; it changes without notice.
