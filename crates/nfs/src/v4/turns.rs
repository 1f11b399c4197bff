//! A COMPOUND of many operations yields between them, so that no call monopolizes a thread.
//!
//! Runs are not timed, since times differ from run to run. Instead, operations have weights: what one usually costs
//! if everything is in memory, and what it did beyond that, in names, pieces or bytes. A run ends before the operation that would
//! exceed the limit; then the COMPOUND goes to a worker thread, as after a part (`parts.rs`), and continues with that operation.
//! A short COMPOUND ends its run only after one that was long.

use wire::nfs4::OpNum4;

use crate::v4::context::{Compound, OpStop};

/// Operations of a COMPOUND that does all of them in one turn if it need not wait. No COMPOUND of the Linux client has more.
pub(super) const OPERATIONS_IN_ONE_TURN_MAX: u32 = 8;

/// Most that the operations of one run may weigh: some 100 µs, as much as two worker threads need to take turns. A single
/// operation may take longer.
const RUN_WEIGHT_MAX: u32 = 32;

/// Reads an object in memory, or state: 1 to 3 µs.
const READS: u32 = 1;
/// May change something, or move data: 3 to 20 µs.
const WORKS: u32 = 4;
/// Names that a listing returns: each 1 µs, or twice that with all attributes of NFSv4.
pub(super) const NAMES_OF_WEIGHT_1: usize = 4;
/// Names of extended attributes that LISTXATTRS passes or returns: each a quarter of a microsecond.
pub(super) const XATTRS_OF_WEIGHT_1: usize = 16;
/// Pieces of file data that a READ finds, each by itself: they may be a byte long.
pub(super) const PIECES_OF_WEIGHT_1: usize = 16;
/// Bytes of data that are copied or checksummed.
pub(super) const BYTES_OF_WEIGHT_1: usize = 32 << 10;
/// Stateids that are tested.
pub(super) const STATEIDS_OF_WEIGHT_1: usize = 8;
/// Bytes of attributes that are compared. An entry of an ACL has 30 or more, and is decoded.
pub(super) const COMPARED_BYTES_OF_WEIGHT_1: usize = 256;

impl Compound<'_> {
    /// Begins an operation if it still has its turn.
    ///
    /// # Errors
    /// [`OpStop::WouldBlock`] if not: the operation was not begun.
    #[inline]
    pub(super) fn take_turn(&mut self, operation: OpNum4) -> Result<(), OpStop> {
        let is_short = self.operations <= OPERATIONS_IN_ONE_TURN_MAX;
        if is_short && self.weight_of_run < RUN_WEIGHT_MAX {
            return Ok(());
        }
        self.take_weighed_turn(operation, is_short)
    }

    fn take_weighed_turn(&mut self, operation: OpNum4, is_short: bool) -> Result<(), OpStop> {
        let weight = weight(operation);
        // Nearly all short ones end with a GETATTR, which is not worth a change of thread.
        let least = if is_short { WORKS } else { READS };
        if weight >= least
            && self.weight_of_run > 0
            && self.weight_of_run.saturating_add(weight) > RUN_WEIGHT_MAX
        {
            self.is_turn_over = true;
            return Err(OpStop::WouldBlock);
        }
        if !is_short {
            self.weight_of_run = self.weight_of_run.saturating_add(weight);
        }
        Ok(())
    }

    /// Adds to the weight of the current operation: 1 for each `of_weight_1` of `count` units of work.
    pub(super) fn add_weight(&mut self, count: usize, of_weight_1: usize) {
        let more = u32::try_from(count / of_weight_1).unwrap_or(u32::MAX);
        self.weight_of_run = self.weight_of_run.saturating_add(more);
    }
}

/// Returns what an operation weighs. Those that only move filehandles weigh nothing: they end no turn, since some of them
/// cannot fail with NFS4ERR_DELAY, which a client gets if its COMPOUND is not continued.
fn weight(operation: OpNum4) -> u32 {
    match operation {
        OpNum4::Getfh
        | OpNum4::Illegal
        | OpNum4::Putfh
        | OpNum4::Putpubfh
        | OpNum4::Putrootfh
        | OpNum4::Restorefh
        | OpNum4::Savefh
        | OpNum4::Sequence => 0,
        OpNum4::Access
        | OpNum4::Getattr
        | OpNum4::Lookup
        | OpNum4::Lookupp
        | OpNum4::Readlink
        | OpNum4::Renew
        | OpNum4::Secinfo
        | OpNum4::SecinfoNoName => READS,
        _ => WORKS,
    }
}

const _: () = assert!(OPERATIONS_IN_ONE_TURN_MAX * WORKS <= RUN_WEIGHT_MAX, "a short one may do as much");
