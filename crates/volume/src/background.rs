//! Background work, each kind a step that the caller drives.

pub(crate) mod checkpoint;
pub(crate) mod cleaner;
pub(crate) mod orphans;
pub(crate) mod write_back;

/// What a step of background work did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// It did something; call it again at once.
    Worked,
    /// Nothing to do for now.
    Idle,
}
