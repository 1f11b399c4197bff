//! A COMPOUND that stopped before its end.

use volume::bytes::Slice;
use volume::ids::VolumeId;
use volume::request::Durability;
use wire::nfs4::{NfsStat4, OpNum4, Stateid4};
use wire::xdr::{Encode, Encoder};

use crate::state::SlotGuard;
use crate::summary::{Evaluated, Moved};

/// A COMPOUND that stopped before its end, to be continued. Dropping it ends the COMPOUND: the results so far are final, and
/// a retransmission finds NFS4ERR_DELAY for the operation that stopped it, or NFS4ERR_RETRY_UNCACHED_REP if the reply is
/// too large for the slot.
///
/// The default is that of a COMPOUND that has not begun.
#[derive(Debug, Default)]
pub struct Progress {
    suspended: Option<Box<Suspended>>,
    ends: bool,
}

impl Progress {
    /// Creates that of a COMPOUND that ends with the next run if `ends` says so.
    pub(crate) fn new(suspended: Suspended, ends: bool) -> Progress {
        Progress { suspended: Some(Box::new(suspended)), ends }
    }

    /// Whether the COMPOUND stopped since it is long, and others had their turn. Only such a one may end there.
    #[must_use]
    pub fn gave_turn_up(&self) -> bool {
        self.suspended.as_ref().is_some_and(|suspended| suspended.gave_turn_up)
    }

    /// Has the next run end the COMPOUND where it stopped: the operation fails with NFS4ERR_DELAY, which the client repeats. What
    /// it has done so far stays.
    pub fn end(&mut self) {
        self.ends = true;
    }

    /// Returns the memory that its results so far hold, bytes.
    #[must_use]
    pub fn results_bytes(&self) -> usize {
        self.suspended.as_ref().map_or(0, |suspended| suspended.results_bytes())
    }

    /// Returns how far it came, and whether it ends with the next run.
    pub(crate) fn into_parts(mut self) -> (Option<Box<Suspended>>, bool) {
        (self.suspended.take(), self.ends)
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        let Some(mut suspended) = self.suspended.take() else { return };
        if let Some(slot) = suspended.slot.take() {
            let waits = std::mem::take(&mut suspended.waits);
            let reply = suspended.delayed();
            // A longer reply does not fit the slot, which then caches none.
            let kept = (reply.len() <= slot.reply_bytes_cached_max()).then_some(&reply[..]);
            slot.finish(kept, waits);
        }
    }
}

/// How far an operation came that is done in parts: over all runs of its COMPOUND.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Parts {
    /// Bytes of its range that are done.
    pub(crate) done: u64,
    /// All bytes of its range, where the first run determined them.
    pub(crate) wanted: u64,
}

impl Parts {
    /// Whether no part is done yet.
    pub(crate) fn is_first(self) -> bool {
        self.done == 0
    }
}

/// What a COMPOUND needs to be continued, besides its bytes.
#[derive(Debug)]
pub(crate) struct Suspended {
    /// The index of the next operation.
    pub(crate) index: u32,
    /// Its number; none if all operations are done.
    pub(crate) operation: Option<OpNum4>,
    /// The parts of it that are done.
    pub(crate) parts: Parts,
    /// Bytes that the COPYs before it have copied.
    pub(crate) copied: u64,
    pub(crate) status: NfsStat4,
    pub(crate) tag: Box<[u8]>,
    /// The results of the operations before it.
    pub(crate) results: Vec<u8>,
    pub(crate) current: Option<Box<[u8]>>,
    pub(crate) saved: Option<Box<[u8]>>,
    pub(crate) current_stateid: Option<Stateid4>,
    pub(crate) saved_stateid: Option<Stateid4>,
    pub(crate) slot: Option<SlotGuard>,
    pub(crate) waits: Vec<(VolumeId, Durability)>,
    pub(crate) changed: bool,
    pub(crate) evaluated: Evaluated,
    pub(crate) moved: Moved,
    pub(crate) tail: Vec<Slice>,
    /// Whether it stopped since its turn was over.
    pub(crate) gave_turn_up: bool,
}

impl Suspended {
    fn results_bytes(&self) -> usize {
        self.results.capacity() + self.tail.iter().map(Slice::kept_bytes).sum::<usize>()
    }

    /// Returns the reply that ends it where it stopped.
    fn delayed(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(64 + self.results.len());
        let mut out = Encoder::new(&mut bytes);
        NfsStat4::Delay.encode(&mut out);
        out.opaque(&self.tag);
        out.u32(self.index + u32::from(self.operation.is_some()));
        out.raw(&self.results);
        if let Some(operation) = self.operation {
            operation.encode(&mut out);
            NfsStat4::Delay.encode(&mut out);
            failure_body(operation, &mut out);
        }
        bytes
    }
}

/// Writes the rest of a failed result, after its status.
pub(crate) fn failure_body(operation: OpNum4, out: &mut Encoder<'_>) {
    // A failed SETATTR returns the bitmap of the attributes that it set: an empty one.
    if operation == OpNum4::Setattr {
        out.u32(0);
    }
}
