//! The tests of jobq: one binary of laws and behaviour (it), one of compile errors (ui).
