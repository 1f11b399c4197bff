//! Sound volumes have no fault, and every kind of planted fault is found and named.

mod clean;
mod planted;
pub(crate) mod world;
