//! The identity of a pool, and the counter for new extents.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::api::ids::{ExtentId, Generation, PoolId, SegmentId, VolumeNumber};
use crate::api::time::Time;
use crate::encoding::anchor::Anchor;
use crate::encoding::record::MetaRecord;

/// Identity of an open pool, and its counters.
pub(crate) struct Identity {
    id: PoolId,
    next_extent: AtomicU64,
}

impl Identity {
    /// Returns the identity that a checkpoint stored, with counters advanced by the journal.
    pub(crate) fn new(meta: &MetaRecord, next_extent: u64) -> Identity {
        Identity { id: meta.pool, next_extent: AtomicU64::new(next_extent) }
    }

    pub(crate) fn id(&self) -> PoolId {
        self.id
    }

    /// Returns a new extent id.
    pub(crate) fn new_extent(&self) -> ExtentId {
        ExtentId(self.next_extent.fetch_add(1, Ordering::Relaxed))
    }

    /// Returns the record about the pool, as of now. Counters may be ahead of the checkpoint's contents; that skips
    /// numbers, which is harmless.
    pub(crate) fn meta(
        &self,
        anchor: Anchor,
        generation: Generation,
        next_segment: SegmentId,
        next_volume: VolumeNumber,
        time_ceiling: Time,
    ) -> MetaRecord {
        MetaRecord {
            pool: self.id,
            generation,
            next_volume,
            next_extent: ExtentId(self.next_extent.load(Ordering::Relaxed)),
            next_segment,
            time_ceiling,
            anchor,
        }
    }
}
