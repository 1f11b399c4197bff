//! What long work found out about an inode, so that it need not be done again. All of it can be found out anew, so it is kept
//! only while there is room.

use crate::file::coverage::Coverage;
use crate::file::removed_names::RemovedNames;

/// What was found out about one inode.
#[derive(Debug, Default)]
pub struct Notes {
    /// Of a file: what was counted of its map.
    pub coverage: Coverage,
    /// Of a directory.
    pub removed_names: RemovedNames,
    /// The memory that is counted for it, bytes.
    pub(super) counted_bytes: u64,
}

impl Notes {
    /// Returns the memory of the notes, bytes; zero if there are none.
    pub(super) fn memory_bytes(&self) -> u64 {
        match self.coverage.memory_bytes() + self.removed_names.memory_bytes() {
            0 => 0,
            bytes => bytes + size_of::<Notes>() as u64,
        }
    }
}
