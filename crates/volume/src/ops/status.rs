//! FSSTAT (RFC 1813 section 3.3.18).

use crate::record::UsageKind;
use crate::request::{Answer, Promised, Request};
use crate::results::VolumeStatus;
use crate::volume::Volume;

/// Bytes that an object takes at least: its records in the index, twice for what a tree leaves unused.
const BYTES_PER_OBJECT: u64 = 1024;

impl Volume {
    /// Room and use. Space that the cleaner will give back counts as free, what is kept in reserve does not.
    pub fn status(&self, _request: &Request<'_>) -> Answer<VolumeStatus> {
        let usage = self.usage.get(UsageKind::Volume, 0);
        let device = self.space.device();
        let allocated: u64 = self.segments.infos().iter().map(|(_, info)| info.capacity).sum();
        let spare = self.segments.spares() as u64 * self.segments.usable_bytes();
        let bytes_free = (device.available + allocated + spare)
            .saturating_sub(usage.bytes)
            .saturating_sub(self.space.reserved());
        let bytes_free = bytes_free.min(device.total);
        let inodes_free = bytes_free / BYTES_PER_OBJECT;
        let status = VolumeStatus {
            bytes_total: (usage.bytes + bytes_free).min(device.total.max(usage.bytes)),
            bytes_free,
            inodes_total: usage.inodes + inodes_free,
            inodes_free,
            bytes_used: usage.bytes,
            inodes_used: usage.inodes,
        };
        Ok(Promised { value: status, after: self.everything_so_far() })
    }
}
