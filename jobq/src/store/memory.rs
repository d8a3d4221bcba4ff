//! The model store: everything in memory, every rule in plain sight.
