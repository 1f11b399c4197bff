//! Space for data that was accepted but is not in a segment yet.
//!
//! Unstable data and inline data reserve segment space when they are accepted, out of segments that are already
//! allocated, so that writing them back cannot fail for lack of space (rules 2 and 13 of `docs/design.md`).

use parking_lot::Mutex;

use super::stream::UNPACKED_BYTES_MIN;
use crate::api::request::Error;
use crate::media::{BLOCK_BYTES, Space};

/// Reservations, and the space for them.
#[derive(Debug, Default)]
pub struct SpaceLedger {
    state: Mutex<Account>,
}

#[derive(Debug, Default)]
struct Account {
    reserved: u64,
    index: RoomToGrow,
    /// Whether the device has no room for one more segment.
    segments_full: bool,
    /// How often the shortage was judged: background work could free no more, or was still freeing.
    exhaustions: u64,
    /// Set from the first caller that got no space until there is space again.
    short: Option<Short>,
    /// Whether a caller got `NoSpace` since [`SpaceLedger::refuses`] was last asked.
    refused: bool,
    device: Space,
}

/// What the index has room for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum RoomToGrow {
    /// Nothing but changes of what exists.
    Nothing,
    /// Records of protocol state besides, whose number is bounded: on a full device too, clients introduce themselves, and open and
    /// lock files.
    State,
    /// Whatever one checkpoint may bring.
    #[default]
    Checkpoint,
}

/// A shortage of space.
#[derive(Clone, Copy, Debug)]
struct Short {
    /// The most bytes that were not reserved. Until that caller is answered or fits, smaller reservations that succeed do not
    /// end the shortage: they would have it wait for ever.
    bytes: u64,
    /// Whether such a caller got `NoSpace`.
    is_answered: bool,
    /// Value of `exhaustions` when it began.
    began: u64,
    /// Value of `exhaustions` when it began, or when anything was removed or cleaned last.
    since: u64,
}

impl Short {
    fn prolonged(self, now: u64) -> Short {
        Short { since: now.min(self.began + PROLONGED_MAX), ..self }
    }
}

/// How often background work must have been exhausted before a caller gets `NoSpace`.
const EXHAUSTIONS_MAX: u64 = 3;

/// After how many of them neither a removal nor the cleaner's progress prolongs the wait: a client that creates and removes files all
/// the time would have others wait for ever.
const PROLONGED_MAX: u64 = 4 * EXHAUSTIONS_MAX;

/// A shortage ends when this much can be reserved: one of the largest writes, in all the extents that it may touch.
const ROOM_AGAIN_BYTES: u64 = {
    let transfer = crate::limits::TRANSFER_BYTES_MAX as u64;
    footprint(transfer, transfer / crate::limits::EXTENT_BYTES_MAX as u64 + 1)
};

/// Spare segments that new data may not use: one for the cleaner, and one because data accepted as a whole is written
/// through two streams.
pub(crate) const SPARES_SET_ASIDE: u64 = 2;

/// Overhead of a packed extent in a segment, bytes: header and alignment.
pub const EXTENT_OVERHEAD_BYTES: u64 = 64;

/// Returns the space to reserve for `bytes` of unstable data that become at most `extents` extents. One that is not packed
/// takes another block.
pub const fn footprint(bytes: u64, extents: u64) -> u64 {
    bytes + bytes * BLOCK_BYTES / UNPACKED_BYTES_MIN as u64 + extents * EXTENT_OVERHEAD_BYTES
}

impl Account {
    /// Whether the index cannot grow by a whole checkpoint.
    fn is_index_full(&self) -> bool {
        self.index < RoomToGrow::Checkpoint
    }

    /// Notes a caller that finds no room in the index, or no space for `bytes`, and returns its error: `Busy` or `ObjectBusy` while
    /// background work may help, then `NoSpace`.
    fn refuse(&mut self, bytes: u64) -> Error {
        let exhaustions = self.exhaustions;
        let short = self.short.get_or_insert(Short {
            bytes,
            is_answered: false,
            began: exhaustions,
            since: exhaustions,
        });
        short.bytes = short.bytes.max(bytes);
        if exhaustions < short.since + EXHAUSTIONS_MAX {
            let is_full = self.is_index_full() || self.segments_full;
            return if is_full { Error::ObjectBusy } else { Error::Busy };
        }
        short.is_answered |= bytes >= short.bytes;
        self.refused = true;
        Error::NoSpace
    }
}

impl SpaceLedger {
    /// Reserves space out of `ready` bytes of spare segments.
    ///
    /// # Errors
    /// `Busy` until there is one more segment; on a full device `ObjectBusy` while background work may free space, since callers
    /// that need none must not wait behind this one; then `NoSpace`.
    pub fn reserve(&self, bytes: u64, ready: u64) -> Result<(), Error> {
        let mut state = self.state.lock();
        if state.reserved + bytes <= ready && !state.is_index_full() {
            state.reserved += bytes;
            let left = ready - state.reserved;
            state.short = state.short.filter(|short| short.bytes > left && !short.is_answered);
            return Ok(());
        }
        Err(state.refuse(bytes))
    }

    /// Checks that the index has room for a whole checkpoint, as last measured.
    ///
    /// # Errors
    /// `ObjectBusy` while background work may make room, then `NoSpace`.
    pub fn require_checkpoint(&self) -> Result<(), Error> {
        let mut state = self.state.lock();
        if state.is_index_full() { Err(state.refuse(0)) } else { Ok(()) }
    }

    /// Reserves more for what was already accepted: a mapping that was split needs one more header.
    pub fn extend(&self, bytes: u64) {
        self.state.lock().reserved += bytes;
    }

    /// Releases reserved space.
    pub fn release(&self, bytes: u64) {
        let mut state = self.state.lock();
        state.reserved = state.reserved.saturating_sub(bytes);
    }

    /// Notes a removal: callers short of space wait anew for background work to free it, at most [`PROLONGED_MAX`] times in all.
    pub fn removed(&self) {
        let mut state = self.state.lock();
        let now = state.exhaustions;
        state.short = state.short.map(|short| match short.is_answered {
            true => Short { bytes: 0, is_answered: false, began: now, since: now },
            false => short.prolonged(now),
        });
    }

    /// Returns the bytes reserved.
    pub fn reserved(&self) -> u64 {
        self.state.lock().reserved
    }

    /// Whether a caller was recently refused.
    pub fn is_short(&self) -> bool {
        self.state.lock().short.is_some()
    }

    /// Whether callers are refused with `NoSpace`, or were since the last call, or wait because the index is full.
    /// Reservations exceed what extents take, so a little room returns soon after a refusal.
    pub fn refuses(&self) -> bool {
        let mut state = self.state.lock();
        std::mem::take(&mut state.refused)
            || state.is_index_full()
            || state.short.is_some_and(|short| state.exhaustions >= short.since + EXHAUSTIONS_MAX)
    }

    /// Records that background work freed what it could.
    pub fn exhausted(&self) {
        self.state.lock().exhaustions += 1;
    }

    /// Records that background work is still freeing space: callers wait anew, until [`PROLONGED_MAX`] judgements after the
    /// shortage began.
    pub fn prolong(&self) {
        let mut state = self.state.lock();
        state.exhaustions += 1;
        let now = state.exhaustions;
        state.short = state.short.map(|short| short.prolonged(now));
    }

    /// Updates what is available: on the device, in spare segments, in the index, and whether one more segment has room.
    pub fn refresh(&self, ready: u64, device: Space, index: RoomToGrow, can_add: bool) {
        let mut state = self.state.lock();
        state.device = device;
        state.index = index;
        state.segments_full = !can_add;
        if !state.is_index_full() && state.reserved + ROOM_AGAIN_BYTES <= ready {
            state.short = None;
        }
    }

    /// Whether the index has room for a whole checkpoint, as last measured.
    pub fn can_checkpoint(&self) -> bool {
        !self.state.lock().is_index_full()
    }

    /// Whether the index has room for protocol state, as last measured.
    pub fn can_keep_state(&self) -> bool {
        self.state.lock().index >= RoomToGrow::State
    }

    /// Returns the space on the device, as last measured.
    pub fn device(&self) -> Space {
        self.state.lock().device
    }
}

#[cfg(test)]
mod tests;
