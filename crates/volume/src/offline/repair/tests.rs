//! Damaged volumes are whole after a repair.

mod planted;
mod random;
mod random_world;
mod refused;
mod tally;
mod truncated;
