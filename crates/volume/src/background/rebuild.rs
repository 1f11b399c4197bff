//! Replaces a damaged index by a copy of what can be read of it.
//!
//! The library that keeps the index refuses everything after a block could not be read, and even a change far from
//! that block may need it. So nothing is worked around in place: the copy is a sound tree, and lists the ranges of keys
//! whose records are lost. `docs/decisions/2026-11-22-damaged-index.md` has the reasons.

use std::collections::{BTreeMap, HashSet};
use std::path::PathBuf;

use crate::api::ids::{Ino, VolumeNumber};
use crate::api::quotas::QuotaKind;
use crate::encoding::key;
use crate::encoding::key::{FIRST, Key, POOL, Table};
use crate::encoding::record::{InodeRecord, MapCountRecord, MetaRecord, UsageRecord, VolumeRecord};
use crate::media::Media;
use crate::tables::index::{Contents, Copied, Index, IndexError, LostRanges, Records, Salvage};
use crate::tables::lost_words::Words;
use crate::tables::usage;

/// Most bad pages that are named in the log.
const NAMED_MAX: usize = 16;

/// A copy that is the index now.
#[derive(Debug)]
pub(crate) struct Rebuilt {
    pub(crate) index: Index,
    /// The record about the pool that it holds.
    pub(crate) meta: MetaRecord,
    /// Where the old index is kept.
    pub(crate) kept: Option<PathBuf>,
}

/// What an index holds that is needed to open it.
pub(crate) struct Known {
    /// The record about the pool.
    pub(crate) meta: MetaRecord,
    /// The records about its volumes.
    pub(crate) volumes: BTreeMap<VolumeNumber, VolumeRecord>,
}

/// Replaces the index by a copy of what `salvage` can read. `known` is what it holds that every opening needs, if that
/// is in memory. Returns `None` if a failure passed: open the index again.
///
/// # Errors
/// [`IndexError::Full`]: the index is as it was. After other errors it is unknown which index a crash leaves.
pub(crate) fn rebuild(
    media: &dyn Media,
    salvage: &Salvage,
    cache_bytes: usize,
    known: Option<&Known>,
) -> Result<Option<Rebuilt>, IndexError> {
    if !make_room(media, salvage.bytes_needed())? {
        return Err(IndexError::Full);
    }
    let mut survivors = Survivors { known, ..Survivors::default() };
    let Some(copied) = copy(media, salvage, &mut survivors)? else { return Ok(None) };
    let kept = replace(media)?;
    let index = Index::open(media.index(), cache_bytes).map_err(replaced)?;
    let meta = survivors.meta.ok_or_else(meta_is_lost)?;
    tell(&copied);
    Ok(Some(Rebuilt { index, meta, kept }))
}

/// Copies what `salvage` can read into a new file, with what `contents` makes of it. Returns `None` if something could not
/// be read and can now.
///
/// # Errors
/// As those of [`Salvage::copy`]. The index is as it was, and there is no copy.
pub(crate) fn copy(
    media: &dyn Media,
    salvage: &Salvage,
    contents: &mut dyn Contents,
) -> Result<Option<Copied>, IndexError> {
    tracing::info!("copying what can be read of the index");
    let file = media.create_index().map_err(IndexError::from);
    let copied = file.and_then(|file| salvage.copy(file, contents));
    if !matches!(copied, Ok(Some(_))) {
        discard(media);
    }
    copied
}

/// Makes the copy the index, and keeps the old one. Returns where.
///
/// # Errors
/// [`IndexError::Full`]: the index is as it was. After other errors it is unknown which index a crash leaves.
pub(crate) fn replace(media: &dyn Media) -> Result<Option<PathBuf>, IndexError> {
    media.replace_index().inspect_err(|_| discard(media)).map_err(IndexError::from)
}

/// Whether the device has room for a copy. Indexes that were replaced before make room for it.
fn make_room(media: &dyn Media, needed: u64) -> Result<bool, IndexError> {
    let missing = |available: u64| needed.saturating_sub(available);
    let before = missing(media.space()?.available);
    if before == 0 {
        return Ok(true);
    }
    let freed = media.free_damaged_indexes(before)?;
    if freed > 0 {
        tracing::warn!(
            freed_bytes = freed,
            "damaged indexes that were kept are deleted, to make room for a copy of the present one"
        );
    }
    Ok(missing(media.space()?.available) == 0)
}

/// Converts a failure after the replacement: the index is another file now, so nobody may go on with the old one and
/// wait for room.
fn replaced(error: IndexError) -> IndexError {
    match error {
        IndexError::Full => IndexError::Io(
            "its device has no room to open the copy that replaced it; make room, and restart the server"
                .to_owned(),
        ),
        error => error,
    }
}

fn discard(media: &dyn Media) {
    if let Err(error) = media.discard_index() {
        tracing::warn!(%error, "an unused copy of the index could not be deleted; the next start deletes it");
    }
}

fn tell(copied: &Copied) {
    let pages: Vec<String> =
        copied.bad_pages.iter().take(NAMED_MAX).map(|page| format!("{}: {}", page.block, page.why)).collect();
    let kept = "the damaged file is kept beside the index as `index.damaged`";
    if copied.lost.is_empty() {
        tracing::error!(
            records = copied.records,
            "the index was damaged and is replaced by a complete copy; {kept}"
        );
        return;
    }
    tracing::error!(
        records = copied.records,
        blocks = pages.join("; "),
        lost = %Words(&copied.lost),
        "the index was damaged and is replaced by a copy of what can be read; reads of what is lost fail; stop the \
         server, run `holdfast check` to see which files are affected, save the others, and run `holdfast check --repair` (docs/damage.md); \
         {kept}"
    );
}

fn meta_is_lost() -> IndexError {
    IndexError::Corrupt("the record about the pool itself is lost".to_owned())
}

/// What a copy needs to know of the records in it.
#[derive(Default)]
struct Survivors<'m> {
    known: Option<&'m Known>,
    /// The record about the pool that was found; then that of the copy.
    meta: Option<MetaRecord>,
    /// Usage counters that were found.
    counters: HashSet<Key>,
    /// Records about volumes that were found; then those of the copy.
    volumes: BTreeMap<VolumeNumber, VolumeRecord>,
    /// The numbers of mappings that were found.
    mappings: BTreeMap<VolumeNumber, u64>,
    /// The usage of all inodes that were found.
    usage: BTreeMap<(VolumeNumber, QuotaKind, u64), UsageRecord>,
}

impl Contents for Survivors<'_> {
    fn see(&mut self, key: &[u8], value: &[u8]) {
        match key::parse(key) {
            Some((volume, Table::Inode, _)) => {
                let Ok(record) = InodeRecord::decode(value) else { return };
                for delta in usage::whole(&record) {
                    let counter = self.usage.entry((volume, delta.kind, delta.id)).or_default();
                    *counter = counter.changed(delta.bytes, delta.inodes);
                }
            }
            Some((volume, Table::Map, _)) => *self.mappings.entry(volume).or_default() += 1,
            Some((_, Table::Usage, _)) => drop(self.counters.insert(Key::from(key))),
            Some((_, Table::Volume, fields)) => {
                let record = VolumeRecord::decode(value).ok();
                self.volumes.extend(key::volume_number(fields).zip(record));
            }
            Some((_, Table::Meta, _)) => self.meta = MetaRecord::decode(value).ok(),
            _ => {}
        }
    }

    fn complete(&mut self, records: &mut Records<'_>, lost: &mut LostRanges) -> Result<(), IndexError> {
        let meta = match (self.meta.take(), self.known) {
            (Some(found), Some(known)) if found != known.meta => {
                return Err(IndexError::Io(
                    "it does not hold what the last checkpoint wrote; restart the server".to_owned(),
                ));
            }
            (found, known) => found.or_else(|| Some(known?.meta.clone())).ok_or_else(meta_is_lost)?,
        };
        for (volume, record) in self.known.iter().flat_map(|known| &known.volumes) {
            if !self.volumes.contains_key(volume) {
                records.put(&key::volume(*volume), &record.encode())?;
                lost.remove(&key::volume(*volume), &key::volume(*volume).successor());
                self.volumes.insert(*volume, record.clone());
            }
        }
        records.put(&key::meta(), &meta.encode())?;
        lost.remove(&key::meta(), &key::meta().successor());
        for ((volume, kind, id), usage) in &self.usage {
            let key = key::usage(*volume, kind.byte(), *id);
            if lost.covers(&key) && !self.counters.contains(&key) {
                records.put(&key, &usage.encode())?;
            }
        }
        for volume in self.volumes.keys() {
            let key = key::map_count(*volume);
            match self.mappings.get(volume) {
                Some(mappings) => records.put(&key, &MapCountRecord { mappings: *mappings }.encode())?,
                None => records.delete(&key)?,
            }
            lost.remove(&key, &key.successor());
        }
        // Counters at zero have no record. If inodes are lost, the others are too low.
        for volume in self.volumes.keys() {
            let (from, to) = key::table_range(*volume, Table::Usage);
            lost.remove(&from, &to);
        }
        forget_unused_numbers(lost, &meta, &self.volumes);
        cover_lost_mappings(records, lost)?;
        self.meta = Some(meta);
        Ok(())
    }
}

/// Removes the keys whose numbers were never handed out: nothing was lost there, and records that are put there later
/// are to be removed without a trace.
fn forget_unused_numbers(
    lost: &mut LostRanges,
    meta: &MetaRecord,
    volumes: &BTreeMap<VolumeNumber, VolumeRecord>,
) {
    let of_inodes =
        [Table::Inode, Table::Name, Table::Cookie, Table::Map, Table::Symlink, Table::Xattr, Table::Orphan];
    let mut forget = |volume: VolumeNumber, table: Table, fields: &[u8], to: &[u8]| {
        let (start, _) = key::table_range(volume, table);
        lost.remove(&[&start[..], fields].concat(), to);
    };
    for (volume, record) in volumes {
        for table in of_inodes {
            forget(*volume, table, &record.next_ino.0.to_be_bytes(), &key::table_range(*volume, table).1);
        }
        let next = VolumeNumber(volume.0 + 1);
        let unused = [volume.0.to_be_bytes().as_slice(), &record.next_ino.0.to_be_bytes()].concat();
        forget(POOL, Table::Reap, &unused, &key::reap(next.object(Ino(0))));
    }
    let of_pool = [(Table::Extent, meta.next_extent.0), (Table::Segment, meta.next_segment.0)];
    for (table, next) in of_pool {
        forget(POOL, table, &next.to_be_bytes(), &key::table_range(POOL, table).1);
    }
    // Of the records about volumes, those that are there are not lost, and there are none with numbers that were never used.
    let (first, end) = key::table_range(POOL, Table::Volume);
    lost.remove(&first, &key::volume(FIRST));
    for volume in volumes.keys() {
        lost.remove(&key::volume(*volume), &key::volume(VolumeNumber(volume.0 + 1)));
    }
    lost.remove(&key::volume(meta.next_volume), &end);
    // Nothing of a volume that was never made is lost.
    lost.remove(&key::volume_range(meta.next_volume).0, &key::volume_range(VolumeNumber(u32::MAX - 1)).1);
}

/// Extends each lost range of mappings down to the mapping before it. The key of a mapping is its end, so a lost one
/// covers bytes below its own key, and a mapping that is put into those bytes later has a key below the range: without
/// this, the bytes between that mapping and the one before it would pass for a hole.
fn cover_lost_mappings(records: &Records<'_>, lost: &mut LostRanges) -> Result<(), IndexError> {
    let starts: Vec<Vec<u8>> = lost.iter().map(|range| range.from.clone()).collect();
    for start in starts {
        let Some((_, Table::Map, _)) = key::parse(&start) else { continue };
        let Some(id) = key::object(&start) else { continue };
        let first = key::map(id, 0);
        match records.last_before(&first, &start)? {
            Some((before, _)) => lost.add(&Key::from(&*before).successor(), &start),
            None => lost.add(&first, &start),
        }
    }
    Ok(())
}
