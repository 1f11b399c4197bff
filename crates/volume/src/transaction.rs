//! A transaction from the first attempt to its entry in the journal and the memtable.

pub(crate) mod apply;
pub(crate) mod attempt;
pub(crate) mod change;
pub(crate) mod duplicate_requests;
pub(crate) mod map_update;
pub(crate) mod permission;
pub(crate) mod usage;
