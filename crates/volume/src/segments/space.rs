//! Room for data that was accepted but is not in a segment yet.
//!
//! Unstable data and inline data reserve segment space when they are accepted, out of segments that are already
//! allocated, so that writing them back cannot fail for want of space (rules 2 and 13 of `docs/design.md`).

use parking_lot::Mutex;

use crate::api::request::Error;
use crate::media::Space;

/// Reservations, and what they are made from.
#[derive(Debug, Default)]
pub struct SpaceLedger {
    state: Mutex<Account>,
}

#[derive(Debug, Default)]
struct Account {
    reserved: u64,
    /// Whether the index cannot grow by a whole checkpoint.
    index_full: bool,
    /// How often it was found that neither a checkpoint nor the cleaner could give more room.
    exhaustions: u64,
    /// The round in which room was first missed, until there is room again.
    short_since: Option<u64>,
    device: Space,
}

/// How often all background work must have been found done before a caller is told that there is no space.
const EXHAUSTIONS_MAX: u64 = 3;

/// A shortage is over when so much can be reserved again: one of the largest writes, in all the extents that it may touch.
const ROOM_AGAIN_BYTES: u64 = {
    let transfer = crate::limits::TRANSFER_BYTES_MAX as u64;
    transfer + (transfer / crate::limits::EXTENT_BYTES_MAX as u64 + 1) * EXTENT_OVERHEAD_BYTES
};

/// Spare segments that are not for new data: one for the cleaner, one because data that is accepted as a whole is written
/// through two streams.
pub(crate) const SPARES_SET_ASIDE: u64 = 2;

/// What a piece of data takes in a segment beyond its bytes: header and alignment.
pub const EXTENT_OVERHEAD_BYTES: u64 = 64;

impl SpaceLedger {
    /// Reserves room out of `ready` bytes that spare segments can take, or says whether it is worth waiting.
    pub fn reserve(&self, bytes: u64, ready: u64) -> Result<(), Error> {
        let mut state = self.state.lock();
        if state.reserved + bytes <= ready && !state.index_full {
            state.reserved += bytes;
            state.short_since = None;
            return Ok(());
        }
        let exhaustions = state.exhaustions;
        let since = *state.short_since.get_or_insert(exhaustions);
        Err(if state.exhaustions >= since + EXHAUSTIONS_MAX { Error::NoSpace } else { Error::Busy })
    }

    /// Reserves a little more for what was accepted already: a piece that was split needs one more header.
    pub fn extend(&self, bytes: u64) {
        self.state.lock().reserved += bytes;
    }

    /// Gives room back.
    pub fn release(&self, bytes: u64) {
        let mut state = self.state.lock();
        state.reserved = state.reserved.saturating_sub(bytes);
    }

    /// Something was removed: whoever misses room waits anew for what background work makes of that.
    pub fn removed(&self) {
        let mut state = self.state.lock();
        let exhaustions = state.exhaustions;
        state.short_since = state.short_since.map(|_| exhaustions);
    }

    /// Bytes reserved.
    pub fn reserved(&self) -> u64 {
        self.state.lock().reserved
    }

    /// Whether somebody was refused lately.
    pub fn is_short(&self) -> bool {
        self.state.lock().short_since.is_some()
    }

    /// Notes that background work is done and gave what it could.
    pub fn exhausted(&self) {
        self.state.lock().exhaustions += 1;
    }

    /// Notes what there is: on the device, in spare segments, and whether a checkpoint has room.
    pub fn refresh(&self, ready: u64, device: Space, can_checkpoint: bool) {
        let mut state = self.state.lock();
        state.device = device;
        state.index_full = !can_checkpoint;
        if can_checkpoint && state.reserved + ROOM_AGAIN_BYTES <= ready {
            state.short_since = None;
        }
    }

    /// Whether the index can take a whole checkpoint, as last looked at.
    pub fn can_checkpoint(&self) -> bool {
        !self.state.lock().index_full
    }

    /// The device, as last looked at.
    pub fn device(&self) -> Space {
        self.state.lock().device
    }
}

#[cfg(test)]
mod tests;
