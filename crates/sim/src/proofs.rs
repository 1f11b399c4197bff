//! Whole proofs: each runs a seed and returns the first thing that is wrong.

pub mod crash;
pub mod full_device;
pub mod media_faults;
pub mod model;
pub mod planted;
mod shrink;
