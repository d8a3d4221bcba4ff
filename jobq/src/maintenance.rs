//! Sweeps beside the loop: promotion, rescue, prune.
