//! SqliteStore
