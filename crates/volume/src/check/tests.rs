//! Sound volumes have no fault, and every kind of planted fault is found and named.

mod clean;
pub(crate) mod media;
mod planted;
pub(crate) mod world;
