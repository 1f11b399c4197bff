//! Operations on long ranges are done in parts: SEEK, DEALLOCATE, CLONE and COPY.
//!
//! A part is a bounded piece of work, about as much as a large WRITE. One run of a COMPOUND does few of them, over all its
//! operations, and then gives its turn up: from an event loop it goes to a worker thread, and from there to the end of the
//! workers' queue. It continues with the next part, see [`crate::progress`].

use volume::request::Access;

use crate::v4::context::{Compound, OpStop};

/// Most parts in one run on a worker thread.
pub(crate) const PARTS_PER_RUN_MAX: u32 = 8;

impl Compound<'_> {
    /// Begins a part of the current operation.
    ///
    /// # Errors
    /// [`OpStop::WouldBlock`] if this run has done its parts. What the operation did is kept in `parts`.
    pub(crate) fn begin_part(&mut self) -> Result<(), OpStop> {
        let max = match self.access {
            Access::Cached => 1,
            Access::Blocking => PARTS_PER_RUN_MAX,
        };
        if self.parts_of_run >= max {
            self.is_turn_over = true;
            return Err(OpStop::WouldBlock);
        }
        self.parts_of_run += 1;
        Ok(())
    }
}
