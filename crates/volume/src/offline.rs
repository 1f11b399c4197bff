//! Tools for a volume that is not being served: checking, repairing, and getting out what it holds.

pub mod check;
mod contents;
pub mod dump;
pub mod files;
pub mod repair;
