//! What the index and the journal say about the whole volume, read while it is opened.

use std::collections::{BTreeSet, HashMap};
use std::ops::ControlFlow;

use crate::api::ids::{Ino, Layer, SegmentId, Seq};
use crate::api::request::{Durability, RequestKey};
use crate::cache::duplicate_requests::DuplicateRequestCache;
use crate::encoding::codec::Malformed;
use crate::encoding::entry::{Entry, Slot};
use crate::encoding::key;
use crate::encoding::key::{FAMILY, FIRST, Table};
use crate::encoding::record::{
    ExtentMapping, ExtentRecord, MetaRecord, ReplyRecord, SegmentRecord, Source, UsageKind, UsageRecord,
};
use crate::segments::SegmentInfo;
use crate::segments::space::EXTENT_OVERHEAD_BYTES;
use crate::tables::index::{Index, Snapshot};
use crate::tables::memtable::Memtable;
use crate::tables::usage::Usage;
use crate::transaction::apply;

use super::OpenError;
use super::salvage::{SegmentUse, Tables};

/// Facts about the whole volume from the index and the journal, gathered while it is opened.
pub(super) struct Loaded {
    pub meta: MetaRecord,
    pub memtable: Memtable,
    pub usage: Usage,
    pub duplicate_requests: DuplicateRequestCache,
    pub segments: HashMap<SegmentId, SegmentInfo>,
    /// The origin of a segment file that `segments` does not name.
    pub unlisted: Unlisted,
    /// Files without a name.
    pub orphans: BTreeSet<Ino>,
    pub next_ino: u64,
    pub next_extent: u64,
    pub next_segment: u64,
    /// Whether the index holds maps of removed or truncated files that remain to be freed.
    pub more_to_reap: bool,
}

/// What the log says when not all inodes could be counted.
const USAGE_TOO_LOW: &str = "usage counters are too low by what these objects use; run `holdfast check`";

/// The origin of a segment file that no record names.
#[derive(Clone, Copy, Debug)]
pub(super) enum Unlisted {
    /// It was being created when the server stopped.
    Unused,
    /// Its record may be lost.
    Unknown(SegmentInfo),
}

impl Loaded {
    /// Reads the index. Only the record of the family is required. Other records that cannot be read or decoded are left out,
    /// as `docs/semantics.md` says, and the log reports the consequences.
    ///
    /// # Errors
    /// The record of the family is missing or damaged, or the index cannot be read at all.
    pub(super) fn from_index(index: &mut Index) -> Result<(Loaded, Snapshot), OpenError> {
        let mut tables = Tables::new(index)?;
        let meta = tables.get(&key::meta())?.ok_or_else(|| {
            OpenError("the index holds no volume: its creation was interrupted; create it again".to_owned())
        })?;
        let meta = MetaRecord::decode(&meta)?;
        let mut loaded = Loaded {
            memtable: Memtable::new(Layer(1)),
            usage: Usage::default(),
            duplicate_requests: DuplicateRequestCache::default(),
            segments: HashMap::new(),
            unlisted: Unlisted::Unused,
            orphans: BTreeSet::new(),
            next_ino: meta.next_ino.0,
            next_extent: meta.next_extent.0,
            next_segment: meta.next_segment.0,
            more_to_reap: false,
            meta,
        };
        loaded.load_removed(&mut tables)?;
        loaded.load_usage(&mut tables)?;
        loaded.load_segments(&mut tables)?;
        loaded.load_replies(&mut tables)?;
        // The next checkpoint deletes the unreadable records.
        loaded.memtable.apply(tables.dropped.drain(..).map(|key| (key, None)), &[]);
        Ok((loaded, tables.into_snapshot()))
    }

    /// Loads what remains to be freed of removed files.
    fn load_removed(&mut self, tables: &mut Tables<'_>) -> Result<(), OpenError> {
        const MEANING: &str = "the space of some removed files may stay in use; run `holdfast check`";
        let more_to_reap = &mut self.more_to_reap;
        let reap = tables.each(FIRST, Table::Reap, &mut |_, _| {
            *more_to_reap = true;
            Ok(ControlFlow::Break(()))
        })?;
        reap.warn(MEANING);
        let orphans = &mut self.orphans;
        let read = tables.each(FIRST, Table::Orphan, &mut |fields, _| {
            orphans.insert(Ino(key::number(fields).ok_or(Malformed("orphan key"))?));
            Ok(ControlFlow::Continue(()))
        })?;
        read.warn(MEANING);
        // Read only to find damage now: the protocols read it soon.
        let state = tables.each(FIRST, Table::State, &mut |_, _| Ok(ControlFlow::Continue(())))?;
        state.warn("some opens, locks and other state of clients are gone, as if they had been revoked");
        Ok(())
    }

    /// Loads the usage counters, or counts anew.
    fn load_usage(&mut self, tables: &mut Tables<'_>) -> Result<(), OpenError> {
        let usage = &self.usage;
        let read = tables.each(FIRST, Table::Usage, &mut |fields, value| {
            let (kind, id) = fields.split_first().ok_or(Malformed("usage key"))?;
            let kind = UsageKind::from_byte(*kind).ok_or(Malformed("usage key"))?;
            let id = key::number(id).ok_or(Malformed("usage key"))?;
            usage.load(kind, id, UsageRecord::decode(value)?);
            Ok(ControlFlow::Continue(()))
        })?;
        if !read.is_whole() {
            read.warn("usage is counted anew from all inodes");
            let inodes = tables.count_usage(usage, &self.memtable)?;
            inodes.warn(USAGE_TOO_LOW);
        }
        Ok(())
    }

    /// Counts usage anew, after the journal was replayed, if the volume has extended attributes that its counters may
    /// lack. Returns the format that the volume then has; the next checkpoint, which this makes necessary, notes it.
    pub(super) fn count_xattrs(
        &mut self,
        index: &mut Index,
        snapshot: &mut Snapshot,
    ) -> Result<u32, OpenError> {
        if self.meta.format >= MetaRecord::FORMAT_XATTRS_COUNTED || !self.has_xattrs(snapshot) {
            return Ok(self.meta.format);
        }
        let mut tables = Tables::new(index)?;
        let inodes = tables.count_usage(&self.usage, &self.memtable)?;
        inodes.warn(USAGE_TOO_LOW);
        *snapshot = tables.into_snapshot();
        self.memtable.apply([(key::usage(UsageKind::Volume.byte(), 0), None)], &[]);
        Ok(MetaRecord::FORMAT_XATTRS_COUNTED)
    }

    /// Whether there are records of extended attributes, or may be.
    fn has_xattrs(&self, snapshot: &Snapshot) -> bool {
        let mut found = false;
        self.memtable.each_of(FIRST, Table::Xattr, &mut |_, _| found = true);
        let (from, to) = key::table_range(FIRST, Table::Xattr);
        let read = snapshot.scan(&from, &to, &mut |_, _| {
            found = true;
            ControlFlow::Break(())
        });
        found || read.is_err()
    }

    /// Loads the segments. If a record is lost, live bytes are counted anew from the extents; if those cannot be read
    /// either, no file of a segment is deleted.
    fn load_segments(&mut self, tables: &mut Tables<'_>) -> Result<(), OpenError> {
        let read = tables.each(FAMILY, Table::Segment, &mut |fields, value| {
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
        let read = tables.each(FAMILY, Table::Reply, &mut |fields, value| {
            replies.push((RequestKey(fields.into()), ReplyRecord::decode(value)?));
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
        let after = Durability { seq, flush_generation: 0 };
        apply::apply(entry, after, &self.memtable, &self.usage, &self.duplicate_requests);
        Ok(())
    }

    /// Keeps numbers from being reused, and collects other facts about the whole volume.
    fn count_record(&mut self, key: &[u8], slot: &Slot) -> Result<(), Malformed> {
        let Some((_, table, fields)) = key::parse(key) else { return Ok(()) };
        let number = key::number(fields).unwrap_or(0);
        match (table, slot) {
            (Table::Inode, _) => self.next_ino = self.next_ino.max(number.saturating_add(1)),
            (Table::Orphan, Some(_)) => drop(self.orphans.insert(Ino(number))),
            (Table::Orphan, None) => drop(self.orphans.remove(&Ino(number))),
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
