//! Background work, each kind a step that the caller drives.

pub(crate) mod checkpoint;
pub(crate) mod cleaner;
pub(crate) mod orphans;
pub(crate) mod write_back;
