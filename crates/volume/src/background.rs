//! Background work. Each kind is a step that the caller drives.

pub(crate) mod checkpoint;
pub(crate) mod cleaner;
pub(crate) mod damaged_paths;
pub(crate) mod orphans;
mod paths;
pub(crate) mod rebuild;
mod trees;
pub(crate) mod write_back;

/// What a background step did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// It did something; call it again at once.
    Worked,
    /// There is nothing to do for now.
    Idle,
}
