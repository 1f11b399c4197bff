//! Lossy caches: verified blocks, names, and proofs that a name is absent.

pub(crate) mod blocks;
pub(crate) mod duplicate_requests;
pub(crate) mod names;
pub(crate) mod negative_names;
