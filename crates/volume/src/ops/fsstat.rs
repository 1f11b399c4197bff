//! FSSTAT (RFC 1813 section 3.3.18).

use crate::api::request::{Answer, Promised, Request};
use crate::api::results::VolumeStatus;
use crate::pool::Pool;
use crate::segments::space::SPARES_SET_ASIDE;
use crate::volume::Volume;

/// Least bytes of an object: its records in the index, doubled for what a tree leaves unused.
const BYTES_PER_OBJECT: u64 = 1024;

/// Streams that each have an open segment.
const STREAMS: u64 = 3;

impl Volume {
    /// Returns space and usage. Space that checkpoints and the cleaner will free counts as free; reserved space does
    /// not. Of a volume with a size no more than that is shown.
    pub fn status(&self, _request: &Request<'_>) -> Answer<VolumeStatus> {
        let usage = self.usage.of(self.number());
        let device = self.space.device();
        // Counts whole segments only, without those set aside and the unused ends of the open ones.
        // Shared data counts for each of its files but takes room once, so the sum is capped by what segments hold.
        // Memtables may name anything written to a segment that is not settled.
        let (count, stored) = self.segments.stored(self.view().oldest_in_memory());
        let segments =
            device.available / self.segments.capacity_bytes() + count + self.segments.spares() as u64;
        let room = segments.saturating_sub(SPARES_SET_ASIDE + STREAMS) * self.segments.usable_bytes();
        let taken = usage.bytes.min(stored);
        let bytes_free = room.saturating_sub(taken).saturating_sub(self.space.reserved()).min(device.total);
        let inodes_free = bytes_free / BYTES_PER_OBJECT;
        let total = usage.bytes.saturating_add(bytes_free);
        let inodes_free =
            self.objects_max().map_or(inodes_free, |most| most.saturating_sub(usage.inodes).min(inodes_free));
        let (bytes_total, bytes_free) = match self.size() {
            Some(size) => {
                let left = size.saturating_sub(usage.bytes).saturating_sub(self.own.room.reserved());
                (total.min(size), bytes_free.min(left))
            }
            None => (total, bytes_free),
        };
        let status = VolumeStatus {
            bytes_total,
            bytes_free,
            inodes_total: usage.inodes.saturating_add(inodes_free),
            inodes_free,
            bytes_used: usage.bytes,
            inodes_used: usage.inodes,
        };
        Ok(Promised { value: status, after: self.everything_so_far() })
    }
}

impl Pool {
    /// Whether new data is refused because the device is full, or was since the last call.
    pub fn refuses_data(&self) -> bool {
        self.space.refuses()
    }
}
