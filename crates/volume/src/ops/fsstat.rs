//! FSSTAT (RFC 1813 section 3.3.18).

use crate::api::request::{Answer, Promised, Request};
use crate::api::results::VolumeStatus;
use crate::encoding::record::UsageKind;
use crate::segments::SegmentInfo;
use crate::segments::space::SPARES_SET_ASIDE;
use crate::volume::Volume;

/// Least bytes of an object: its records in the index, doubled for what a tree leaves unused.
const BYTES_PER_OBJECT: u64 = 1024;

/// Streams that each have an open segment.
const STREAMS: u64 = 3;

impl Volume {
    /// Whether new data is refused because the device is full, or was since the last call.
    pub fn refuses_data(&self) -> bool {
        self.space.refuses()
    }

    /// Returns space and usage. Space that checkpoints and the cleaner will free counts as free; reserved space does
    /// not.
    pub fn status(&self, _request: &Request<'_>) -> Answer<VolumeStatus> {
        let usage = self.usage.get(UsageKind::Volume, 0);
        let device = self.space.device();
        // Counts whole segments only, without those set aside and the unused ends of the open ones.
        let (infos, spares) = (self.segments.infos(), self.segments.spares() as u64);
        let segments = device.available / self.segments.capacity_bytes() + infos.len() as u64 + spares;
        let room = segments.saturating_sub(SPARES_SET_ASIDE + STREAMS) * self.segments.usable_bytes();
        // Shared data counts for each of its files but takes room once, so the sum is capped by what segments hold.
        // Memtables may name anything written to a segment that is not settled.
        let oldest_in_memory = self.view().oldest_in_memory();
        let stored =
            |info: &SegmentInfo| if info.is_settled(oldest_in_memory) { info.live } else { info.written };
        // Damaged counters may be of any size.
        let written = infos.iter().map(|(_, info)| stored(info)).fold(0, u64::saturating_add);
        let taken = usage.bytes.min(written);
        let bytes_free = room.saturating_sub(taken).saturating_sub(self.space.reserved()).min(device.total);
        let inodes_free = bytes_free / BYTES_PER_OBJECT;
        let status = VolumeStatus {
            bytes_total: usage.bytes.saturating_add(bytes_free),
            bytes_free,
            inodes_total: usage.inodes.saturating_add(inodes_free),
            inodes_free,
            bytes_used: usage.bytes,
            inodes_used: usage.inodes,
        };
        Ok(Promised { value: status, after: self.everything_so_far() })
    }
}
