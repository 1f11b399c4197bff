//! Transactions: from the first attempt of an operation to its entry in the journal and the memtable.

pub(crate) mod apply;
pub(crate) mod attempt;
pub(crate) mod change;
pub(crate) mod growth;
pub(crate) mod map_update;
mod name_caches;
pub(crate) mod objects;
pub(crate) mod permission;
