//! What the index and the journal say about the whole volume, read while it is opened.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::ControlFlow;

use crate::api::ids::{Ino, Layer, ObjectId, SegmentId, Seq, VolumeNumber};
use crate::api::quotas::Owner;
use crate::api::quotas::QuotaKind;
use crate::api::request::{Durability, RequestKey};
use crate::cache::duplicate_requests::DuplicateRequestCache;
use crate::encoding::codec::Malformed;
use crate::encoding::entry::{Entry, Slot};
use crate::encoding::key;
use crate::encoding::key::{POOL, Table};
use crate::encoding::record::{
    ExtentMapping, ExtentRecord, MapCountRecord, MetaRecord, QuotaRecord, ReplyRecord, SegmentRecord, Source,
    UsageRecord, VolumeRecord,
};
use crate::segments::SegmentInfo;
use crate::segments::space::EXTENT_OVERHEAD_BYTES;
use crate::tables::index::{Index, Snapshot};
use crate::tables::memtable::Memtable;
use crate::tables::usage::VolumeUsage;
use crate::transaction::apply;

use super::salvage::{SegmentUse, Tables};
use super::{OpenError, read_meta, unfinished, volume_lost};

/// Facts about the whole volume from the index and the journal, gathered while it is opened.
pub(super) struct Loaded {
    pub meta: MetaRecord,
    pub memtable: Memtable,
    pub usage: VolumeUsage,
    pub duplicate_requests: DuplicateRequestCache,
    pub segments: HashMap<SegmentId, SegmentInfo>,
    /// The origin of a segment file that `segments` does not name.
    pub unlisted: Unlisted,
    /// Files without a name.
    pub orphans: BTreeSet<ObjectId>,
    /// The volumes, with the highest of their next inode numbers.
    pub volumes: BTreeMap<VolumeNumber, VolumeRecord>,
    /// Their quotas.
    pub quotas: BTreeMap<VolumeNumber, BTreeMap<Owner, QuotaRecord>>,
    /// How many mappings the index has of them.
    pub mappings: BTreeMap<VolumeNumber, u64>,
    pub next_volume: u32,
    pub next_extent: u64,
    pub next_segment: u64,
    /// Whether the index holds maps of removed or truncated files that remain to be freed.
    pub more_to_reap: bool,
}

/// The origin of a segment file that no record names.
#[derive(Clone, Copy, Debug)]
pub(super) enum Unlisted {
    /// It was being created when the server stopped.
    Unused,
    /// Its record may be lost.
    Unknown(SegmentInfo),
}

impl Loaded {
    /// Reads the index. Only the records about the pool and its volumes are required. Other records that cannot be read or
    /// decoded are left out, as `docs/semantics.md` says, and the log reports the consequences.
    ///
    /// # Errors
    /// The record about the pool is missing or damaged, or the index cannot be read at all.
    pub(super) fn from_index(index: &mut Index) -> Result<(Loaded, Snapshot), OpenError> {
        let mut tables = Tables::new(index)?;
        let meta = tables.get(&key::meta())?.ok_or_else(unfinished)?;
        let meta = read_meta(&meta)?;
        let mut loaded = Loaded {
            memtable: Memtable::new(Layer(1)),
            usage: VolumeUsage::default(),
            duplicate_requests: DuplicateRequestCache::default(),
            segments: HashMap::new(),
            unlisted: Unlisted::Unused,
            orphans: BTreeSet::new(),
            volumes: BTreeMap::new(),
            quotas: BTreeMap::new(),
            mappings: BTreeMap::new(),
            next_volume: meta.next_volume.0,
            next_extent: meta.next_extent.0,
            next_segment: meta.next_segment.0,
            more_to_reap: false,
            meta,
        };
        loaded.load_volumes(&mut tables)?;
        loaded.load_removed(&mut tables)?;
        loaded.load_usage(&mut tables)?;
        loaded.load_quotas(&mut tables)?;
        loaded.load_map_counts(&mut tables)?;
        loaded.load_segments(&mut tables)?;
        loaded.load_replies(&mut tables)?;
        // The next checkpoint deletes the unreadable records.
        loaded.memtable.apply(tables.dropped.drain(..).map(|key| (key, None)), &[]);
        Ok((loaded, tables.into_snapshot()))
    }

    /// Loads the records about volumes, which are needed like that about the pool.
    fn load_volumes(&mut self, tables: &mut Tables<'_>) -> Result<(), OpenError> {
        let volumes = &mut self.volumes;
        let read = tables.each(POOL, Table::Volume, &mut |fields, value| {
            let number = key::volume_number(fields).ok_or(Malformed("volume key"))?;
            volumes.insert(number, VolumeRecord::decode(value)?);
            Ok(ControlFlow::Continue(()))
        })?;
        if read.is_whole() { Ok(()) } else { Err(volume_lost()) }
    }

    /// Loads what remains to be freed of removed files.
    fn load_removed(&mut self, tables: &mut Tables<'_>) -> Result<(), OpenError> {
        const MEANING: &str = "the space of some removed files may stay in use; run `holdfast check`";
        let more_to_reap = &mut self.more_to_reap;
        let reap = tables.each(POOL, Table::Reap, &mut |_, _| {
            *more_to_reap = true;
            Ok(ControlFlow::Break(()))
        })?;
        reap.warn(MEANING);
        for (volume, _) in self.volumes.iter().filter(|(_, record)| !record.is_deleted) {
            let orphans = &mut self.orphans;
            let read = tables.each(*volume, Table::Orphan, &mut |fields, _| {
                orphans.insert(volume.object(Ino(key::number(fields).ok_or(Malformed("orphan key"))?)));
                Ok(ControlFlow::Continue(()))
            })?;
            read.warn(MEANING);
            // Read only to find damage now: the protocols read it soon.
            let state = tables.each(*volume, Table::State, &mut |_, _| Ok(ControlFlow::Continue(())))?;
            state.warn("some opens, locks and other state of clients are gone, as if they had been revoked");
        }
        Ok(())
    }

    /// Loads the usage counters of volumes. If any counter cannot be read, all are counted anew.
    fn load_usage(&mut self, tables: &mut Tables<'_>) -> Result<(), OpenError> {
        for volume in self.volumes.keys().copied() {
            let mut of_volume = UsageRecord::default();
            let read = tables.each(volume, Table::Usage, &mut |fields, value| {
                let kind = key::owner(fields).ok_or(Malformed("usage key"))?.kind;
                let record = UsageRecord::decode(value)?;
                if kind == QuotaKind::Volume {
                    of_volume = record;
                }
                Ok(ControlFlow::Continue(()))
            })?;
            if !read.is_whole() {
                read.warn("usage is counted anew from all inodes");
                let (counted, inodes) = tables.count_usage(volume, &self.memtable)?;
                inodes.warn("usage counters are too low by what these objects use; run `holdfast check`");
                of_volume = counted.get(&(QuotaKind::Volume, 0)).copied().unwrap_or_default();
                for ((kind, id), record) in counted {
                    self.memtable.usage.set((volume, kind, id), record);
                }
            }
            self.usage.load(volume, of_volume);
        }
        Ok(())
    }

    /// Loads the quotas.
    fn load_quotas(&mut self, tables: &mut Tables<'_>) -> Result<(), OpenError> {
        for volume in self.volumes.keys().copied() {
            let quotas = self.quotas.entry(volume).or_default();
            let read = tables.each(volume, Table::Quota, &mut |fields, value| {
                let owner = key::owner(fields).ok_or(Malformed("quota key"))?;
                quotas.insert(owner, QuotaRecord::decode(value)?);
                Ok(ControlFlow::Continue(()))
            })?;
            read.warn("some quotas are gone; compare `holdfast quota report` with what you set");
        }
        Ok(())
    }

    /// Loads how many mappings the index has of each volume.
    fn load_map_counts(&mut self, tables: &mut Tables<'_>) -> Result<(), OpenError> {
        for volume in self.volumes.keys().copied() {
            let mappings = self.mappings.entry(volume).or_default();
            let read = tables.each(volume, Table::MapCount, &mut |_, value| {
                *mappings = MapCountRecord::decode(value)?.mappings;
                Ok(ControlFlow::Continue(()))
            })?;
            read.warn("a volume may get more mappings than its size allows; run `holdfast check --repair`");
        }
        Ok(())
    }

    /// Loads the segments. If a record is lost, live bytes are counted anew from the extents; if those cannot be read
    /// either, no file of a segment is deleted.
    fn load_segments(&mut self, tables: &mut Tables<'_>) -> Result<(), OpenError> {
        let read = tables.each(POOL, Table::Segment, &mut |fields, value| {
            let id = SegmentId(key::number(fields).ok_or(Malformed("segment key"))?);
            self.add_segment(id, SegmentRecord::decode(value)?, Layer(0));
            Ok(ControlFlow::Continue(()))
        })?;
        if read.is_whole() {
            return Ok(());
        }
        read.warn("the contents of segments are counted anew from all extents");
        let (used, extents) = tables.count_segments()?;
        extents.warn("the space of segments without a record stays in use; run `holdfast check`");
        // The next checkpoint writes all these records.
        let layer = self.memtable.layer;
        let known = |used: &SegmentUse| SegmentRecord { capacity: used.end, live: used.live };
        if extents.is_whole() {
            for (id, info) in &mut self.segments {
                info.live = used.get(id).map_or(0, |used| used.live);
                info.newest_layer = layer;
            }
            for (id, used) in &used {
                self.add_segment(*id, known(used), layer);
            }
        }
        let live = if extents.is_whole() { 0 } else { LIVE_UNKNOWN };
        let capacity = 0;
        self.unlisted = Unlisted::Unknown(segment_info(SegmentRecord { capacity, live }, layer));
        Ok(())
    }

    /// Loads the remembered replies, oldest first.
    fn load_replies(&mut self, tables: &mut Tables<'_>) -> Result<(), OpenError> {
        let mut replies: Vec<(RequestKey, ReplyRecord)> = Vec::new();
        let read = tables.each(POOL, Table::Reply, &mut |fields, value| {
            let (volume, request) = key::replied(fields).ok_or(Malformed("reply key"))?;
            replies.push((RequestKey::new(request).for_volume(volume), ReplyRecord::decode(value)?));
            Ok(ControlFlow::Continue(()))
        })?;
        read.warn("a call that a client repeats across this start may be executed twice");
        replies.sort_by_key(|(_, record)| record.seq);
        for (key, record) in replies {
            self.duplicate_requests.load(key, record);
        }
        Ok(())
    }

    /// Adds a segment from before this opening: nothing will be appended to it (rule 14 of `docs/design.md`).
    /// `newest_layer` is the memtable that holds rows of extents in it, zero for none.
    fn add_segment(&mut self, id: SegmentId, record: SegmentRecord, newest_layer: Layer) {
        self.segments.entry(id).or_insert(segment_info(record, newest_layer));
        self.next_segment = self.next_segment.max(id.0 + 1);
    }

    /// Applies a journal entry.
    pub(super) fn replay(&mut self, seq: Seq, bytes: &[u8]) -> Result<(), Malformed> {
        let mut entry = Entry::decode(bytes)?;
        for (key, slot) in &entry.records {
            apply::check_record(key, slot)?;
            self.count_record(key, slot)?;
        }
        apply::overlay(&self.memtable, std::mem::take(&mut entry.records));
        let after = Durability::of(seq);
        apply::apply(entry, after, &self.memtable, &self.usage, &self.duplicate_requests);
        Ok(())
    }

    /// Follows a change of a record about a volume.
    fn count_volume(&mut self, fields: &[u8], slot: &Slot) -> Result<(), Malformed> {
        let number = key::volume_number(fields).ok_or(Malformed("volume key"))?;
        self.next_volume = self.next_volume.max(number.0.saturating_add(1));
        let Some(value) = slot else {
            self.volumes.remove(&number);
            return Ok(());
        };
        let mut record = VolumeRecord::decode(value)?;
        if let Some(older) = self.volumes.get(&number) {
            record.next_ino = record.next_ino.max(older.next_ino);
        }
        self.volumes.insert(number, record);
        Ok(())
    }

    /// Follows a change of a quota.
    fn count_quota(&mut self, volume: VolumeNumber, fields: &[u8], slot: &Slot) -> Result<(), Malformed> {
        let owner = key::owner(fields).ok_or(Malformed("quota key"))?;
        let quotas = self.quotas.entry(volume).or_default();
        match slot {
            Some(value) => drop(quotas.insert(owner, QuotaRecord::decode(value)?)),
            None => drop(quotas.remove(&owner)),
        }
        Ok(())
    }

    /// Keeps numbers from being reused, and collects other facts about the whole volume.
    fn count_record(&mut self, key: &[u8], slot: &Slot) -> Result<(), Malformed> {
        let Some((volume, table, fields)) = key::parse(key) else { return Ok(()) };
        let number = key::number(fields).unwrap_or(0);
        match (table, slot) {
            (Table::Inode, _) => {
                if let Some(record) = self.volumes.get_mut(&volume) {
                    record.next_ino.0 = record.next_ino.0.max(number.saturating_add(1));
                }
            }
            (Table::Volume, slot) => self.count_volume(fields, slot)?,
            (Table::Quota, slot) => self.count_quota(volume, fields, slot)?,
            (Table::Orphan, Some(_)) => drop(self.orphans.insert(volume.object(Ino(number)))),
            (Table::Orphan, None) => drop(self.orphans.remove(&volume.object(Ino(number)))),
            (Table::Extent, None) => self.next_extent = self.next_extent.max(number.saturating_add(1)),
            (Table::Segment, Some(value)) => {
                self.add_segment(SegmentId(number), SegmentRecord::decode(value)?, self.memtable.layer);
            }
            (Table::Extent, Some(value)) => {
                self.next_extent = self.next_extent.max(number.saturating_add(1));
                // The cleaner must not touch what a memtable may name; it may clean the rest at once.
                if let Some(info) = self.segments.get_mut(&ExtentRecord::decode(value)?.segment) {
                    info.newest_layer = self.memtable.layer;
                }
            }
            (Table::Map, Some(value)) => {
                if let Source::Inline(bytes) = ExtentMapping::decode(value)?.source {
                    self.memtable.add_inline(bytes.len() as u64 + EXTENT_OVERHEAD_BYTES);
                }
            }
            _ => {}
        }
        Ok(())
    }
}

/// Live bytes of a segment that nobody could count: more than any segment holds, so that it is neither deleted nor
/// cleaned.
const LIVE_UNKNOWN: u64 = 1 << 40;

fn segment_info(record: SegmentRecord, newest_layer: Layer) -> SegmentInfo {
    SegmentInfo {
        capacity: record.capacity,
        written: record.capacity,
        live: record.live,
        pending: 0,
        newest_layer,
        sealed: true,
    }
}
