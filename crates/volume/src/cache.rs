//! Lossy caches: verified blocks, names, and a filter that proves names absent.

pub(crate) mod blocks;
pub(crate) mod duplicate_requests;
pub(crate) mod names;
pub(crate) mod negative_lookups;
