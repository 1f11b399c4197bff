//! What the next opening of a volume would see: the journal's records over the index's.

use std::collections::BTreeMap;
use std::iter::Peekable;
use std::ops::{Bound, ControlFlow};
use std::sync::Arc;

use super::copy::CopyOnWrite;
use super::findings::Findings;
use super::{FaultKind, INDEX_CACHE_BYTES, Summary, records};
use crate::api::ids::{Ino, Layer, VolumeNumber};
use crate::bytes::Value;
use crate::encoding::entry::{Entry, Slot, UsageDelta};
use crate::encoding::key;
use crate::encoding::key::{FIRST, Key, POOL, Table};
use crate::encoding::record::{MetaRecord, VolumeRecord};
use crate::journal::Ring;
use crate::media::{Media, RandomFile};
use crate::open::{OpenError, read_meta, unfinished, unreadable, volume_lost};
use crate::tables::index::{CheckedFile, Index, IndexError, LostRanges, Salvaged, Walker, lost_ranges};
use crate::tables::memtable::Memtable;
use crate::transaction::apply;

mod scan;

/// All records of a volume that can be read, as of its last durable journal entry.
pub(crate) struct View {
    /// The index as of its last checkpoint.
    index: Walker,
    /// What the index lacked already when it was copied from a damaged one.
    recorded: LostRanges,
    /// What the index lost, disjoint and in order of keys; before [`View::survey`], only what was recorded.
    lost: Vec<Lost>,
    /// The journal's records since then.
    recent: BTreeMap<Key, Slot>,
    /// The record about the pool; `None` if it is lost.
    pub(crate) meta: Option<MetaRecord>,
    /// The records about volumes in the index, and, once it is replayed, in the journal.
    pub(crate) volumes: BTreeMap<VolumeNumber, VolumeRecord>,
    /// The volume whose records are looked at.
    pub(crate) volume: VolumeNumber,
}

/// A range of keys whose records the index lost.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Lost {
    /// The least key.
    pub(crate) from: Key,
    /// The key after the greatest.
    pub(crate) to: Key,
    /// Why, naming the block of the index that cannot be read.
    pub(crate) why: String,
    /// Whether the records were lost before the index was copied from a damaged one. Others were put there since, and
    /// can be read; in a range that was lost now, no record can.
    pub(crate) is_recorded: bool,
}

impl Lost {
    fn recorded(from: &[u8], to: &[u8]) -> Lost {
        let why = "the index that this one is a copy of had a block that could not be read".to_owned();
        Lost { from: Key::from(from), to: Key::from(to), why, is_recorded: true }
    }
}

/// Greater than all keys: members are counted from zero.
const AFTER_ALL_KEYS: &[u8] = &[0xff; 5];

/// Receives a record: its key or the fields of that, and its value.
pub(crate) type Visit<'a> = &'a mut dyn FnMut(&[u8], &[u8]);

/// What a scan of the index meets.
pub(crate) enum Found<'a> {
    /// A key and its value.
    Record(&'a [u8], &'a [u8]),
    /// Records may be missing here, of this range.
    Lost(&'a Lost),
}

impl View {
    /// Whether a path does not say by itself which volume of users it is in.
    pub(crate) fn has_several_volumes(&self) -> bool {
        self.volumes.values().filter(|record| record.is_of_users()).nth(1).is_some()
    }

    /// Opens the index, on a copy-on-write view.
    pub(crate) fn open(media: &dyn Media) -> Result<View, OpenError> {
        View::open_caching(media, INDEX_CACHE_BYTES)
    }

    pub(super) fn open_caching(media: &dyn Media, cache_bytes: usize) -> Result<View, OpenError> {
        // Opening the file gives back what a crash left; here that stays in memory.
        let copy = CopyOnWrite::new(media.index()).map_err(|error| unreadable(error.into()))?;
        let file = CheckedFile::open(Arc::new(copy)).map_err(|error| unreadable(error.into()))?;
        let recorded = lost_ranges(&file, cache_bytes).map_err(unreadable)?;
        let index = Walker::open(file, cache_bytes).map_err(unreadable)?;
        let meta = match index.get(&key::meta()) {
            Err(IndexError::Corrupt(_)) => None,
            Err(error) => return Err(unreadable(error)),
            Ok(None) => return Err(unfinished()),
            Ok(Some(meta)) => Some(read_meta(&meta)?),
        };
        let lost = recorded.iter().map(|range| Lost::recorded(&range.from, &range.to)).collect();
        let mut volumes = BTreeMap::new();
        let (from, to) = key::table_range(POOL, Table::Volume);
        // What cannot be read is lost, and reported when the index is surveyed.
        let _ = index.scan(&from, &to, &mut |key, value| {
            let record = VolumeRecord::decode(value).ok();
            volumes.extend(key::volume_number(fields(key)).zip(record));
            ControlFlow::Continue(())
        });
        Ok(View { index, recorded, lost, recent: BTreeMap::new(), meta, volumes, volume: FIRST })
    }

    /// Refuses an index that lacks records about volumes, as opening the pool does.
    ///
    /// # Errors
    /// It lacks one, or cannot be read.
    pub(crate) fn require_volumes(&self) -> Result<(), OpenError> {
        let (from, to) = key::table_range(POOL, Table::Volume);
        let mut is_whole = !self.has_lost(&from, &to);
        let read = self.index.scan(&from, &to, &mut |_, value| {
            is_whole &= VolumeRecord::decode(value).is_ok();
            ControlFlow::Continue(())
        });
        match read {
            Ok(()) if is_whole => Ok(()),
            Ok(()) | Err(IndexError::Corrupt(_)) => Err(volume_lost()),
            Err(error) => Err(unreadable(error)),
        }
    }

    /// Reads the whole index once, and visits each record that can be read. From then on, scans pass over what is
    /// lost.
    pub(crate) fn survey(&mut self, visit: &mut dyn FnMut(&[u8], &[u8])) -> Result<(), IndexError> {
        let mut lost: Vec<Lost> = Vec::new();
        let mut recorded = self.recorded.clone();
        self.index.salvage(&mut |found| {
            match found {
                Salvaged::Record { key, value } => visit(key, value),
                Salvaged::Lost { from, to, why, .. } => {
                    let to = to.as_deref().unwrap_or(AFTER_ALL_KEYS);
                    recorded.remove(&from, to);
                    let (from, to, why) = (Key::from(&from[..]), Key::from(to), why.to_string());
                    lost.push(Lost { from, to, why, is_recorded: false });
                }
            }
            ControlFlow::Continue(())
        })?;
        lost.extend(recorded.iter().map(|range| Lost::recorded(&range.from, &range.to)));
        lost.sort_unstable_by(|one, other| one.from.cmp(&other.from));
        self.lost = lost;
        Ok(())
    }

    /// Returns the ranges of keys whose records are lost.
    pub(crate) fn lost(&self) -> &[Lost] {
        &self.lost
    }

    /// Returns the ranges whose records were lost before the index was copied from a damaged one.
    pub(crate) fn recorded(&self) -> &LostRanges {
        &self.recorded
    }

    /// Whether the journal holds records that the index lacks.
    pub(crate) fn has_recent(&self) -> bool {
        !self.recent.is_empty()
    }

    /// Reads the journal as recovery would, into memory only. Returns the usage that it adds.
    pub(crate) fn replay(
        &mut self,
        log: &dyn RandomFile,
        findings: &mut Findings,
        summary: &mut Summary,
    ) -> Vec<(VolumeNumber, UsageDelta)> {
        let memtable = Memtable::new(Layer(1));
        let mut usage = Vec::new();
        let Some(meta) = &self.meta else {
            let what = "the record that says where the journal begins is lost, so the changes since the last \
                        checkpoint cannot be read";
            findings.add(FaultKind::Journal, None, what.to_owned());
            return usage;
        };
        let inspected = Ring::inspect(log, &meta.anchor, &mut |_, seq, bytes| {
            match Entry::decode(bytes) {
                Ok(entry) => {
                    usage.extend(entry.usage.iter().map(|delta| (entry.volume, *delta)));
                    apply::overlay(&memtable, records::sound_records(seq, entry.records, findings));
                }
                Err(error) => {
                    findings.add(FaultKind::Journal, None, format!("journal entry {seq} is a {error}"))
                }
            }
            Ok(())
        });
        match inspected {
            Ok(recovered) => {
                summary.journal_entries = recovered.entries;
                summary.journal_bytes = recovered.bytes;
                summary.journal_cut_bytes = recovered.cut_bytes;
            }
            // The entries before the damage leave a state that the volume was in, so it can be checked.
            Err(error) => findings.add(FaultKind::Journal, None, error.to_string()),
        }
        self.recent = memtable.sorted().into_iter().collect();
        let changed: Vec<_> = self
            .recent_of(POOL, Table::Volume)
            .map(|(fields, slot)| {
                let record = slot.as_ref().and_then(|value| VolumeRecord::decode(value).ok());
                (key::volume_number(fields), record)
            })
            .collect();
        for (number, record) in changed {
            self.volumes.extend(number.zip(record));
        }
        usage
    }

    /// Returns the index alone.
    pub(crate) fn index(&self) -> &Walker {
        &self.index
    }

    /// Returns what the journal holds for a key.
    pub(super) fn recent(&self, key: &[u8]) -> Option<&Slot> {
        self.recent.get(key)
    }

    /// Returns the journal's records of a table, in order.
    pub(super) fn recent_of(
        &self,
        volume: VolumeNumber,
        table: Table,
    ) -> impl Iterator<Item = (&[u8], &Slot)> {
        let (from, to) = key::table_range(volume, table);
        let range = self.recent.range::<[u8], _>((Bound::Included(&*from), Bound::Excluded(&*to)));
        range.map(|(key, slot)| (fields(key), slot))
    }

    /// Returns the journal's mappings of a file, in order.
    pub(crate) fn recent_of_map(&self, ino: Ino) -> impl Iterator<Item = (&[u8], &Slot)> {
        let (from, to) = (key::map(self.volume.object(ino), 0), key::map(self.volume.object(ino), u64::MAX));
        let range = self.recent.range::<[u8], _>((Bound::Included(&*from), Bound::Included(&*to)));
        range.map(|(key, slot)| (fields(key), slot))
    }

    /// Returns a record; `None` if there is none, or [`View::is_lost`].
    pub(crate) fn get(&self, key: &[u8]) -> Result<Slot, IndexError> {
        match self.recent.get(key) {
            Some(slot) => Ok(slot.clone()),
            None if self.is_unreadable(key) => Ok(None),
            None => Ok(self.index.get(key)?.map(Value::from)),
        }
    }

    /// Whether the index lost records that may have had keys in `from <= key < to`.
    pub(crate) fn has_lost(&self, from: &[u8], to: &[u8]) -> bool {
        !self.lost_between(from, to).is_empty()
    }

    /// Whether records with keys in `from <= key < to` may have been lost before the index was copied from a damaged
    /// one. Counts of such records are not exact, because changes made since could not take lost records into
    /// account.
    pub(crate) fn has_recorded(&self, from: &[u8], to: &[u8]) -> bool {
        self.recorded.meets(from, to)
    }

    /// Whether the index may have held a record with this key that is lost. It may hold one that was put since.
    pub(crate) fn is_lost(&self, key: &[u8]) -> bool {
        self.has_lost(key, &Key::from(key).successor())
    }

    /// Whether the page that would hold this key cannot be read.
    fn is_unreadable(&self, key: &[u8]) -> bool {
        self.lost_between(key, &Key::from(key).successor()).iter().any(|lost| !lost.is_recorded)
    }

    /// Returns the lost ranges with keys in `from <= key < to`.
    fn lost_between(&self, from: &[u8], to: &[u8]) -> &[Lost] {
        let first = self.lost.partition_point(|lost| *lost.to <= *from);
        let end = self.lost.partition_point(|lost| *lost.from < *to);
        self.lost.get(first..end).unwrap_or_default()
    }

    /// Visits the readable records of a table of the index.
    pub(crate) fn each_of_index(
        &self,
        volume: VolumeNumber,
        table: Table,
        visit: Visit<'_>,
    ) -> Result<(), IndexError> {
        let (from, to) = key::table_range(volume, table);
        self.each_in_index(&from, &to, &mut |found| {
            if let Found::Record(key, value) = found {
                visit(fields(key), value);
            }
            ControlFlow::Continue(())
        })
    }

    /// Visits the readable records of a table, the journal's over the index's, in order. `visit` may look up other
    /// records.
    pub(crate) fn each(
        &self,
        volume: VolumeNumber,
        table: Table,
        visit: Visit<'_>,
    ) -> Result<(), IndexError> {
        let (from, to) = key::table_range(volume, table);
        self.each_in(&from, &to, &mut |key, value| visit(fields(key), value))
    }

    /// Visits the readable records with `from <= key < to`, the journal's over the index's, in order: their keys and
    /// values.
    pub(crate) fn each_in(&self, from: &[u8], to: &[u8], visit: Visit<'_>) -> Result<(), IndexError> {
        let mut recent =
            self.recent.range::<[u8], _>((Bound::Included(from), Bound::Excluded(to))).peekable();
        self.each_in_index(from, to, &mut |found| {
            let Found::Record(key, value) = found else { return ControlFlow::Continue(()) };
            visit_before(&mut recent, key, visit);
            if recent.peek().is_some_and(|(newer, _)| &***newer == key) {
                visit_next(&mut recent, visit);
            } else {
                visit(key, value);
            }
            ControlFlow::Continue(())
        })?;
        while recent.peek().is_some() {
            visit_next(&mut recent, visit);
        }
        Ok(())
    }
}

fn visit_before<'r>(
    recent: &mut Peekable<impl Iterator<Item = (&'r Key, &'r Slot)>>,
    key: &[u8],
    visit: &mut dyn FnMut(&[u8], &[u8]),
) {
    while recent.peek().is_some_and(|(newer, _)| &***newer < key) {
        visit_next(recent, visit);
    }
}

fn visit_next<'r>(
    recent: &mut Peekable<impl Iterator<Item = (&'r Key, &'r Slot)>>,
    visit: &mut dyn FnMut(&[u8], &[u8]),
) {
    if let Some((key, Some(value))) = recent.next() {
        visit(key, value);
    }
}

/// Opens the index as a server does, and makes a commit, both in memory only.
pub(in crate::offline) fn open_for_changes(media: &dyn Media) -> Result<(), IndexError> {
    let copy = CopyOnWrite::new(media.index())?;
    let index = Index::open(Arc::new(copy), INDEX_CACHE_BYTES)?;
    let update = index.begin()?;
    let mut records = update.records()?;
    let meta = records.get(&key::meta())?.unwrap_or_default();
    records.put(&key::meta(), &meta)?;
    drop(records);
    update.commit()
}

/// Returns the fields of a key of a known table.
fn fields(key: &[u8]) -> &[u8] {
    key::parse(key).map_or(&[], |(_, _, fields)| fields)
}
