//! The checker reports no faults in sound volumes, and every kind of planted fault.

mod clean;
mod planted;
pub(crate) mod world;
