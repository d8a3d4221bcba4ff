//! MemoryStore
