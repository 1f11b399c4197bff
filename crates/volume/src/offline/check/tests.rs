//! The checker reports no faults in sound volumes, and every kind of planted fault.

mod clean;
pub(in crate::offline) mod lost;
mod lost_data;
mod planted;
pub(in crate::offline) mod planter;
mod rebuilt;
pub(crate) mod world;
