//! Reads the tables of an index that has lost or undecodable records.

use std::collections::{BTreeMap, HashMap};
use std::ops::ControlFlow;

use crate::api::ids::{Ino, SegmentId, VolumeNumber};
use crate::api::quotas::QuotaKind;
use crate::encoding::codec::Malformed;
use crate::encoding::key;
use crate::encoding::key::{Key, POOL, Table};
use crate::encoding::record::{ExtentRecord, InodeRecord, UsageRecord};
use crate::media::BLOCK_BYTES;
use crate::tables::index::{Found, Index, IndexError, Snapshot};
use crate::tables::memtable::Memtable;
use crate::tables::usage;

use super::OpenError;

/// Receives the fields of a key, and the value.
type Visit<'a> = &'a mut dyn FnMut(&[u8], &[u8]) -> Result<ControlFlow<()>, Malformed>;

/// The tables of the index while a volume is opened.
pub(super) struct Tables<'i> {
    index: &'i mut Index,
    snapshot: Snapshot,
    /// Keys of records that did not decode.
    pub dropped: Vec<Key>,
}

/// How much of a table could be read.
#[must_use]
pub(super) struct Read {
    table: Table,
    /// Records that did not decode, and the first reason.
    malformed: u64,
    reason: Option<Malformed>,
    /// Why the records after those that were visited could not be read.
    unreadable: Option<IndexError>,
}

impl Read {
    /// Whether every record was read.
    pub(super) fn is_whole(&self) -> bool {
        self.malformed == 0 && self.unreadable.is_none()
    }

    /// Logs what is lost, if anything, and the consequences.
    pub(super) fn warn(&self, meaning: &str) {
        let table = self.table;
        if let Some(reason) = &self.reason {
            tracing::warn!(?table, records = self.malformed, %reason, "records do not decode: {meaning}");
        }
        if let Some(error) = &self.unreadable {
            tracing::warn!(?table, %error, "a part of a table cannot be read: {meaning}");
        }
    }
}

/// What the extents of a segment tell about it.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct SegmentUse {
    /// Their stored bytes.
    pub live: u64,
    /// Where the last one ends, rounded up to a block.
    pub end: u64,
}

impl<'i> Tables<'i> {
    pub(super) fn new(index: &'i mut Index) -> Result<Tables<'i>, IndexError> {
        let snapshot = index.snapshot()?;
        Ok(Tables { index, snapshot, dropped: Vec::new() })
    }

    pub(super) fn into_snapshot(self) -> Snapshot {
        self.snapshot
    }

    pub(super) fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, IndexError> {
        self.snapshot.get(key)
    }

    /// Visits the records of a table, until `visit` breaks. Records that it refuses are noted in
    /// [`Tables::dropped`]; lost ones are passed over; those after a block that cannot be read are not visited.
    ///
    /// # Errors
    /// The index cannot be used any more.
    pub(super) fn each(
        &mut self,
        volume: VolumeNumber,
        table: Table,
        visit: Visit<'_>,
    ) -> Result<Read, OpenError> {
        let (from, to) = key::table_range(volume, table);
        let mut read = Read { table, malformed: 0, reason: None, unreadable: None };
        let dropped = &mut self.dropped;
        let mut lost = None;
        let scanned = self.snapshot.scan_around(&from, &to, &mut |found| {
            let Found::Record(key, value) = found else {
                lost = Some(IndexError::lost());
                return ControlFlow::Continue(());
            };
            let fields = key::parse(key).map_or(&[][..], |(_, _, fields)| fields);
            visit(fields, value).unwrap_or_else(|reason| {
                read.malformed += 1;
                read.reason.get_or_insert(reason);
                dropped.push(key.into());
                ControlFlow::Continue(())
            })
        });
        read.unreadable = lost;
        if let Err(error) = scanned {
            // After an error the library refuses every call.
            self.index.reopen()?;
            self.snapshot = self.index.snapshot()?;
            read.unreadable = Some(error);
        }
        Ok(read)
    }

    /// Returns the usage counters of a volume as the sum over all inodes in the index and in `newer` records, and as zero if
    /// none of these counts.
    pub(super) fn count_usage(
        &mut self,
        volume: VolumeNumber,
        newer: &Memtable,
    ) -> Result<(BTreeMap<(QuotaKind, u64), UsageRecord>, Read), OpenError> {
        let mut counters: BTreeMap<(QuotaKind, u64), UsageRecord> = BTreeMap::new();
        let known = self.each_needed(volume, Table::Usage, &mut |fields, _| {
            counters.extend(key::owner(fields).map(|of| ((of.kind, of.id), UsageRecord::default())));
            Ok(ControlFlow::Continue(()))
        });
        drop(known?);
        let mut count = |value: &[u8]| -> Result<(), Malformed> {
            let record = InodeRecord::decode(value)?;
            for delta in usage::whole(&record) {
                let counter = counters.entry((delta.kind, delta.id)).or_default();
                *counter = counter.changed(delta.bytes, delta.inodes);
            }
            Ok(())
        };
        let mut counted = Ok(());
        newer.each_of(volume, Table::Inode, &mut |_, slot| {
            if let (Ok(()), Some(value)) = (&counted, slot) {
                counted = count(value);
            }
        });
        counted?;
        let read = self.each_needed(volume, Table::Inode, &mut |fields, value| {
            let ino = Ino(key::number(fields).ok_or(Malformed("inode key"))?);
            if newer.get(&key::inode(volume.object(ino))).is_none() {
                count(value)?;
            }
            Ok(ControlFlow::Continue(()))
        })?;
        Ok((counters, read))
    }

    /// Returns what all extents say about their segments.
    pub(super) fn count_segments(&mut self) -> Result<(HashMap<SegmentId, SegmentUse>, Read), OpenError> {
        let mut used: HashMap<SegmentId, SegmentUse> = HashMap::new();
        let read = self.each_needed(POOL, Table::Extent, &mut |_, value| {
            let record = ExtentRecord::decode(value)?;
            let of_segment = used.entry(record.segment).or_default();
            let end = record.offset.saturating_add(u64::from(record.stored));
            of_segment.live = of_segment.live.saturating_add(record.live_bytes(&record.references).into());
            of_segment.end = of_segment.end.max(end.checked_next_multiple_of(BLOCK_BYTES).unwrap_or(end));
            Ok(ControlFlow::Continue(()))
        })?;
        Ok((used, read))
    }

    /// Like [`Tables::each`] for records that hold what clients stored: those that do not decode stay.
    fn each_needed(
        &mut self,
        volume: VolumeNumber,
        table: Table,
        visit: Visit<'_>,
    ) -> Result<Read, OpenError> {
        let dropped = self.dropped.len();
        let read = self.each(volume, table, visit)?;
        self.dropped.truncate(dropped);
        Ok(read)
    }
}
