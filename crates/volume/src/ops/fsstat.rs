//! FSSTAT (RFC 1813 section 3.3.18).

use crate::api::ids::Ino;
use crate::api::quotas::{Limits, Owner, QuotaKind, QuotaRoom};
use crate::api::request::{Answer, Promised, Request};
use crate::api::results::VolumeStatus;
use crate::encoding::record::UsageRecord;
use crate::pool::Pool;
use crate::quotas::Owners;
use crate::segments::space::SPARES_SET_ASIDE;
use crate::transaction::attempt::{Missing, Stop};
use crate::volume::Volume;

/// Least bytes of an object: its records in the index, doubled for what a tree leaves unused.
const BYTES_PER_OBJECT: u64 = 1024;

/// Streams that each have an open segment.
const STREAMS: u64 = 3;

impl Volume {
    /// Returns space and usage as an object sees them: those of the volume, or in a quota tree with limits those of the tree.
    pub fn status_at(&self, request: &Request<'_>, ino: Ino) -> Answer<VolumeStatus> {
        let Promised { value: whole, after } = self.status(request)?;
        if !self.own.ledger.is_limited() {
            return Ok(Promised { value: whole, after });
        }
        let id = self.object(ino);
        self.run(request.access, |attempt| {
            let state = attempt.lock(id)?;
            let owner = Owner::new(QuotaKind::Tree, state.record().tree);
            let accounts = self.own.ledger.lock();
            let Some(limits) = accounts.limits_of(owner) else {
                return Ok(Promised { value: whole, after });
            };
            let missing = || Stop::Missing(Missing::Account(self.number(), owner));
            let used = accounts.used(owner).ok_or_else(missing)?;
            let value = within(whole, &limits, used, accounts.reserved(owner));
            Ok(Promised { value, after })
        })
    }

    /// Returns space and usage of the volume. Space that checkpoints and the cleaner will free counts as free; reserved space does
    /// not. Of a volume with a size no more than that is shown.
    pub fn status(&self, _request: &Request<'_>) -> Answer<VolumeStatus> {
        let usage = self.usage.of(self.number());
        let device = self.space.device();
        // Counts whole segments only, without those set aside and the unused ends of the open ones.
        // Shared data counts for each of its files but takes room once, so the sum is capped by what segments hold.
        // Memtables may name anything written to a segment that is not settled.
        let held = self.segments.holding(self.view().oldest_in_memory());
        let segments =
            device.available / self.segments.capacity_bytes() + held.segments + self.segments.spares() as u64;
        let room = segments.saturating_sub(SPARES_SET_ASIDE + STREAMS) * self.segments.usable_bytes();
        let used = self.usage.bytes().saturating_add(held.excess);
        let taken = used.min(held.bytes).saturating_add(held.unused);
        let bytes_free = room.saturating_sub(taken).saturating_sub(self.space.reserved()).min(device.total);
        let inodes_free = bytes_free / BYTES_PER_OBJECT;
        let total = usage.bytes.saturating_add(bytes_free);
        let Room { size, bytes, inodes } = self.room_within_limits(usage);
        let (bytes_total, bytes_free) = (total.min(size), bytes_free.min(bytes));
        let inodes_free = inodes_free.min(inodes);
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

/// Returns what hard limits of a tree leave to show of its volume.
fn within(whole: VolumeStatus, limits: &Limits, used: UsageRecord, reserved: UsageRecord) -> VolumeStatus {
    let left = |most: u64, used: u64, reserved: u64| most.saturating_sub(used).saturating_sub(reserved);
    let mut status = whole;
    if let Some(most) = limits.bytes.hard {
        status.bytes_total = most.min(whole.bytes_total);
        status.bytes_free = left(most, used.bytes, reserved.bytes).min(whole.bytes_free);
        status.bytes_used = used.bytes;
    }
    if let Some(most) = limits.inodes.hard {
        status.inodes_total = most.min(whole.inodes_total);
        status.inodes_free = left(most, used.inodes, reserved.inodes).min(whole.inodes_free);
        status.inodes_used = used.inodes;
    }
    status
}

/// What limits leave of a volume.
struct Room {
    /// The most bytes that files may use.
    size: u64,
    /// Bytes that they may use in addition.
    bytes: u64,
    /// Objects that may be made in addition.
    inodes: u64,
}

impl Volume {
    /// Returns what limits leave to the owners of an object. A caller is shown nothing of users other than himself, nor of groups
    /// that he is not in, unless he is the superuser.
    pub fn quota_room(&self, request: &Request<'_>, ino: Ino) -> Answer<QuotaRoom> {
        let (id, who) = (self.object(ino), request.credentials);
        self.run(request.access, |attempt| {
            let state = attempt.lock(id)?;
            let record = state.record();
            let is_shown = |kind| match kind {
                QuotaKind::User => who.uid == 0 || who.uid == record.uid,
                QuotaKind::Group => who.uid == 0 || who.in_group(record.gid),
                QuotaKind::Volume | QuotaKind::Tree => true,
            };
            let room = self.own.ledger.lock().room(Owners::of(record), is_shown);
            let missing = |owner| Stop::Missing(Missing::Account(self.number(), owner));
            Ok(Promised { value: room.map_err(missing)?, after: self.everything_so_far() })
        })
    }

    /// Returns what the size and the quota of the volume leave.
    fn room_within_limits(&self, used: UsageRecord) -> Room {
        let accounts = self.own.ledger.lock();
        let Limits { bytes, inodes } = accounts.limits_of(Owner::VOLUME).unwrap_or_default();
        let reserved = accounts.reserved(Owner::VOLUME);
        let size = bytes.hard.unwrap_or(u64::MAX);
        let left = |most: u64, used: u64, reserved: u64| most.saturating_sub(used).saturating_sub(reserved);
        Room {
            size,
            bytes: left(size, used.bytes, reserved.bytes),
            inodes: left(inodes.hard.unwrap_or(u64::MAX), used.inodes, reserved.inodes),
        }
    }
}

impl Pool {
    /// Whether new data is refused because the device is full, or was since the last call.
    pub fn refuses_data(&self) -> bool {
        self.space.refuses()
    }
}
