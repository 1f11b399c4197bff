//! What the background steps do next: operations add to these queues and states, steps take from them.

pub(crate) mod checkpoints;
pub(crate) mod cleaner;
pub(crate) mod deferred_state;
pub(crate) mod orphans;
pub(crate) mod trees;
pub(crate) mod write_back;
