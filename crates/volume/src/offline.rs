//! Tools for a volume that is not being served: checking, repairing, copying, and getting out what it holds.

pub mod check;
mod contents;
pub mod copy;
pub mod dump;
pub mod files;
pub mod repair;
