//! The identity of a volume: its id, the key of its handles, its format, and the counters for new numbers.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use siphasher::sip::SipHasher24;

use crate::api::handle::Handle;
use crate::api::ids::{Epoch, ExtentId, Generation, Ino, SegmentId, SnapshotId, VolumeId};
use crate::api::request::Error;
use crate::api::time::Time;
use crate::encoding::anchor::Anchor;
use crate::encoding::record::MetaRecord;

/// Identity of an open volume, and its counters.
pub(crate) struct Identity {
    id: VolumeId,
    handle_secret: [u8; 16],
    /// Format of the records that the next checkpoint writes: see [`MetaRecord::format_of`].
    format: AtomicU32,
    next_ino: AtomicU64,
    next_extent: AtomicU64,
}

impl Identity {
    /// Returns the identity that a checkpoint stored, with counters advanced by the journal.
    pub(crate) fn new(meta: &MetaRecord, next_ino: u64, next_extent: u64) -> Identity {
        Identity {
            id: meta.volume,
            handle_secret: meta.handle_secret,
            format: AtomicU32::new(meta.format),
            next_ino: AtomicU64::new(next_ino),
            next_extent: AtomicU64::new(next_extent),
        }
    }

    pub(crate) fn id(&self) -> VolumeId {
        self.id
    }

    /// Returns the handle of an object.
    pub(crate) fn handle(&self, ino: Ino) -> Handle {
        Handle::new(self.id, ino, SnapshotId::LIVE, &self.handle_secret)
    }

    /// Returns the object of a handle.
    pub(crate) fn resolve(&self, handle: &Handle) -> Result<Ino, Error> {
        if handle.volume != self.id || !handle.is_genuine(&self.handle_secret) {
            return Err(Error::BadHandle);
        }
        if handle.snapshot == SnapshotId::LIVE { Ok(handle.ino) } else { Err(Error::Stale) }
    }

    /// Returns a key derived from the secret of handles, for another purpose. Handles are hashed in 28 bytes, so a
    /// purpose of another length never yields one of their checksums.
    pub(crate) fn subkey(&self, purpose: &[u8; 16]) -> [u8; 16] {
        let part = |number: u8| {
            let mut message = [number; 17];
            message[..16].copy_from_slice(purpose);
            SipHasher24::new_with_key(&self.handle_secret).hash(&message)
        };
        (u128::from(part(0)) << 64 | u128::from(part(1))).to_be_bytes()
    }

    /// Returns a new inode number.
    pub(crate) fn new_ino(&self) -> Ino {
        Ino(self.next_ino.fetch_add(1, Ordering::Relaxed))
    }

    /// Returns a new extent id.
    pub(crate) fn new_extent(&self) -> ExtentId {
        ExtentId(self.next_extent.fetch_add(1, Ordering::Relaxed))
    }

    /// Raises the format of the records to at least `format`.
    pub(crate) fn raise_format(&self, format: u32) {
        self.format.fetch_max(format, Ordering::Relaxed);
    }

    /// Returns the record about the family, as of now. Counters may be ahead of the checkpoint's contents; that skips
    /// numbers, which is harmless.
    pub(crate) fn meta(
        &self,
        anchor: Anchor,
        generation: Generation,
        next_segment: SegmentId,
        time_ceiling: Time,
    ) -> MetaRecord {
        MetaRecord {
            format: self.format.load(Ordering::Relaxed),
            volume: self.id,
            handle_secret: self.handle_secret,
            epoch: Epoch(0),
            generation,
            next_ino: Ino(self.next_ino.load(Ordering::Relaxed)),
            next_extent: ExtentId(self.next_extent.load(Ordering::Relaxed)),
            next_segment,
            time_ceiling,
            anchor,
        }
    }
}
