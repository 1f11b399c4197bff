//! Makes a damaged volume whole again: `holdfast check --repair`.
//!
//! First the volume is opened and closed as a server does: the journal is replayed and put into the index, and an index
//! with blocks that cannot be read is replaced by a copy of the others, which lists the ranges of keys that may lack
//! records. Then that index is replaced once more, by a copy in which nothing contradicts anything else: names, objects,
//! counts, extents and segments are derived from the records that are left, and no range of keys is lost any more. Data
//! whose place is unknown stays an I/O error ([`Source::Lost`](crate::record::Source::Lost)).
//!
//! Both replacements are atomic, so a crash leaves the volume as it was or repaired, or between the two steps as a server
//! would serve it; then a repair begins anew. Each keeps the index that it replaces, and deletes none to make room.
//!
//! # Memory
//! Tables are streamed. Each object takes some 150 bytes, each extent some 30, besides [`INDEX_CACHE_BYTES`] for each of
//! the two indexes and the share of an open volume.

use std::collections::BTreeSet;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use super::check::INDEX_CACHE_BYTES;
use super::check::findings::Findings;
use super::check::records::{is_sound, volume_of};
use super::check::view::{View, open_for_changes};
use super::check::{Fault, Summary};
use crate::api::ids::{Generation, SegmentId, Seq};
use crate::api::time::Time;
use crate::background::rebuild;
use crate::count::count;
use crate::encoding::key::{Key, POOL};
use crate::media::Media;
use crate::open::OpenError;
use crate::options::Options;
use crate::pool::Pool;
use crate::tables::index::{Contents, IndexError, LostRanges, Records, Salvage};

mod changes;
mod extents;
mod maps;
mod names;
mod objects;
mod pass;
mod quota_trees;
mod records;
#[cfg(test)]
mod tests;
mod tree;

use changes::Changes;
use pass::Pass;

/// What a repair did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Repaired {
    /// What was done to single objects and names, each with its path. Not faults: the form is the same.
    pub changes: Vec<Fault>,
    /// Such changes beyond those listed.
    pub more_changes: u64,
    /// Counts of all other changes.
    pub tally: Tally,
    /// Whether the index was replaced; false if there was nothing to repair.
    pub is_replaced: bool,
    /// Paths of the replaced indexes, oldest first; an index without a path is left out.
    pub kept: Vec<PathBuf>,
}

/// What a repair did to records that are too many to list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Names of which one of the two records was lost, and is there again.
    pub names_restored: u64,
    /// Names that were removed, as they led nowhere.
    pub names_removed: u64,
    /// Objects whose own record was lost, and was made anew.
    pub objects_recreated: u64,
    /// Objects that were put into `lost+found`.
    pub objects_found: u64,
    /// Objects whose counts or other fields were corrected.
    pub objects_corrected: u64,
    /// Removed objects whose space is freed.
    pub objects_freed: u64,
    /// Bytes of files that remain unreadable.
    pub lost_bytes: u64,
    /// Extents that nothing names any more.
    pub extents_freed: u64,
    /// Wrong counts of references, live bytes and usage.
    pub counts_corrected: u64,
    /// Records that made no sense.
    pub records_dropped: u64,
    /// Whether the state of all clients is dropped, since records of it are lost.
    pub is_state_lost: bool,
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let counts = [
            (self.names_restored, "name", "restored"),
            (self.names_removed, "name", "removed"),
            (self.objects_recreated, "object record", "recreated"),
            (self.objects_found, "object", "moved to lost+found"),
            (self.objects_corrected, "object", "corrected"),
            (self.objects_freed, "removed object", "to be freed"),
            (self.lost_bytes, "byte", "of data lost"),
            (self.extents_freed, "unused extent", "freed"),
            (self.counts_corrected, "count", "corrected"),
            (self.records_dropped, "invalid record", "dropped"),
        ];
        let said = counts.into_iter().filter(|(number, ..)| *number > 0);
        let mut said: Vec<String> =
            said.map(|(number, thing, what)| format!("{} {what}", count(number, thing))).collect();
        if self.is_state_lost {
            said.push("opens and locks of all clients dropped".to_owned());
        }
        f.write_str(&if said.is_empty() { "nothing changed".to_owned() } else { said.join(", ") })
    }
}

/// The stamp of the records that a repair writes, greater than any handed out before.
#[derive(Clone, Copy, Debug)]
struct Stamp {
    time: Time,
    generation: Generation,
    /// No directory has handed out more cookies than there were entries in the journal.
    seq: Seq,
}

/// Repairs a volume that is not open. At most `changes_max` changes are listed.
///
/// # Errors
/// The volume cannot be opened: its journal is damaged, the record about the volume is lost, or the place of the records
/// cannot be read; or there is no room for the copies. The volume is then as it was. Or media failed; then it is as it was, or
/// as a server leaves it.
pub fn repair(
    media: &Arc<dyn Media>,
    options: &Options,
    changes_max: usize,
    now: Time,
) -> Result<Repaired, OpenError> {
    let (known, kept) = replace_damaged(media.as_ref())?;
    let stamp = settle(media, options, now)?;
    let view = settled_view(media.as_ref())?;
    let blobs = media.list_blobs()?;
    let salvage = Salvage::open(media.index(), INDEX_CACHE_BYTES)?;
    require_room(media.as_ref(), salvage.bytes_needed())?;
    let mut mended = Mended {
        view: &view,
        known: &known,
        blobs: &blobs,
        stamp,
        unsound: BTreeSet::new(),
        changes: Changes::new(changes_max),
        repaired: Repaired::default(),
    };
    let copied = rebuild::copy(media.as_ref(), &salvage, &mut mended);
    let mut repaired = mended.repaired;
    repaired.kept.extend(kept);
    match copied.map_err(failed)? {
        None => {
            return Err(OpenError(
                "a block of the index could be read only intermittently; run the repair again".to_owned(),
            ));
        }
        Some(_) if repaired.is_replaced => {
            repaired.kept.extend(rebuild::replace(media.as_ref()).map_err(failed)?);
        }
        Some(_) => media.discard_index()?,
    }
    repaired.tally.is_state_lost &= repaired.is_replaced;
    Ok(repaired)
}

fn failed(error: IndexError) -> OpenError {
    OpenError(format!("the repaired copy of the index could not be made: {error}"))
}

/// Refuses a device without room. Indexes that were replaced before stay: one of them may be all that is left of a volume
/// before a repair.
fn require_room(media: &dyn Media, needed: u64) -> Result<(), OpenError> {
    let available = media.space()?.available;
    if available >= needed {
        return Ok(());
    }
    Err(OpenError(format!(
        "copies of the index need {needed} bytes of free space on its device, which has {available}; old indexes that are \
         kept in the pool's directory as index.damaged may be moved elsewhere"
    )))
}

/// Replaces an index with blocks that cannot be read by a copy of the others, as opening does if it meets one of them. Some
/// hold no records, and are needed for changes only.
/// Nothing is replaced in a volume that could not be opened then, or if there is no room for all copies that the repair makes.
/// Returns what the index lacked before, and where the replaced one is kept.
fn replace_damaged(media: &dyn Media) -> Result<(LostRanges, Option<PathBuf>), OpenError> {
    let mut view = View::open(media)?;
    let known = view.recorded().clone();
    view.survey(&mut |_, _| {})?;
    require_journal(&mut view, media)?;
    let is_sound = view.lost().iter().all(|lost| lost.is_recorded) && open_for_changes(media).is_ok();
    let salvage = Salvage::open(media.index(), INDEX_CACHE_BYTES)?;
    let copies = if is_sound { 1 } else { 2 };
    require_room(media, salvage.bytes_needed().saturating_mul(copies))?;
    if is_sound {
        return Ok((known, None));
    }
    let rebuilt = rebuild::rebuild(media, &salvage, INDEX_CACHE_BYTES, None).map_err(|error| {
        OpenError(format!(
            "the index cannot be replaced by a copy of what can be read: {error}; copy the files with `holdfast dump \
             --files`, or restore a backup (docs/damage.md)"
        ))
    })?;
    Ok((known, rebuilt.and_then(|rebuilt| rebuilt.kept)))
}

/// Replays the journal in memory. Refuses one that is damaged.
fn require_journal(view: &mut View, media: &dyn Media) -> Result<(), OpenError> {
    let mut findings = Findings::new(1);
    view.replay(media.log().as_ref(), &mut findings, &mut Summary::default());
    findings.sentences().pop().map_or(Ok(()), |problem| Err(OpenError(problem)))
}

/// Opens the pool as a server does, and closes it.
fn settle(media: &Arc<dyn Media>, options: &Options, now: Time) -> Result<Stamp, OpenError> {
    let pool = Pool::open(Arc::clone(media), options, now)?;
    let stamp = Stamp {
        time: pool.committer.stamp(now).0,
        generation: pool.committer.generation(),
        seq: pool.committer.last_queued(),
    };
    pool.close(now)?;
    Ok(stamp)
}

/// Returns what the index holds, which is all that the volume holds.
fn settled_view(media: &dyn Media) -> Result<View, OpenError> {
    let mut view = View::open(media)?;
    require_journal(&mut view, media)?;
    if view.has_recent() {
        return Err(OpenError(
            "the journal could not be applied to the index; run the repair again".to_owned(),
        ));
    }
    Ok(view)
}

/// The contents of the repaired index.
struct Mended<'m> {
    view: &'m View,
    /// What the index lacked before this repair began: files may have been changed since, without knowing what was lost.
    known: &'m LostRanges,
    blobs: &'m [SegmentId],
    stamp: Stamp,
    /// Keys of records that make no sense.
    unsound: BTreeSet<Key>,
    changes: Changes,
    repaired: Repaired,
}

impl Contents for Mended<'_> {
    fn see(&mut self, key: &[u8], value: &[u8]) {
        if !is_sound(key, value) || !is_of_known(key, self.view) {
            self.unsound.insert(Key::from(key));
        }
    }

    fn complete(&mut self, records: &mut Records<'_>, lost: &mut LostRanges) -> Result<(), IndexError> {
        if *lost != *self.view.recorded() {
            return Err(IndexError::Corrupt(
                "a block of it became unreadable during the repair; run the repair again".to_owned(),
            ));
        }
        let changes = std::mem::take(&mut self.changes);
        let mut pass = Pass::new(self.view, self.known, self.stamp, records, changes);
        let remaining = pass.run(std::mem::take(&mut self.unsound), self.blobs)?;
        self.repaired = pass.finish(*lost != remaining);
        *lost = remaining;
        Ok(())
    }
}

/// Whether a record belongs to the pool or to one of its volumes.
fn is_of_known(key: &[u8], view: &View) -> bool {
    volume_of(key).is_none_or(|volume| volume == POOL || view.volumes.contains_key(&volume))
}
