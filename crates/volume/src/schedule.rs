//! What the background steps are to do next: queues and states that operations write to and steps take from.

pub(crate) mod checkpoints;
pub(crate) mod cleaner;
pub(crate) mod orphans;
pub(crate) mod write_back;
