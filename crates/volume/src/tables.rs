//! Ordered records: memtables, the index, and one view through both.

pub mod index;
pub(crate) mod lost_words;
pub(crate) mod memtable;
pub(crate) mod read_view;
pub(crate) mod usage;
