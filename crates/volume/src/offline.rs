//! Tools for a volume that is not being served: checking and dumping.

pub mod check;
pub mod dump;
