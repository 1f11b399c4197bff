//! The pass that derives the records of a sound index from those of one that lacks some.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;

use super::changes::{Changes, Subject};
use super::extents::Extents;
use super::objects::Object;
use super::{Repaired, Stamp};
use crate::api::ids::{Ino, SegmentId, VolumeNumber};
use crate::encoding::key;
use crate::encoding::key::{Key, POOL, Table};
use crate::encoding::record::VolumeRecord;
use crate::limits::DIRECTORY_DEPTH_MAX;
use crate::offline::check::Fault;
use crate::offline::check::records::check_key;
use crate::offline::check::view::{Found, View};
use crate::tables::index::{IndexError, LostRanges, Records};

/// A repair in progress: what is read from the old index, and what is changed in its copy.
pub(super) struct Pass<'p, 'u> {
    pub view: &'p View,
    pub known: &'p LostRanges,
    pub stamp: Stamp,
    pub out: Output<'p, 'u>,
    pub changes: Changes,
    /// The volume that is repaired.
    pub volume: VolumeNumber,
    /// All its objects.
    pub objects: BTreeMap<Ino, Object>,
    /// Records that make no sense: what they said is lost.
    unsound: BTreeSet<Key>,
    /// Symbolic links without a target.
    pub useless: BTreeSet<Ino>,
    /// Objects of which something remains to be freed.
    pub reap: BTreeSet<Ino>,
    /// The next inode number.
    pub next_ino: Ino,
    /// Further names of directories, which have one.
    pub later: Vec<super::names::Later>,
    /// The directory for objects without a name, once it is needed.
    pub lost_and_found: Option<Ino>,
    /// What was done to the volumes before, with paths.
    listed: Vec<Fault>,
}

/// The copy.
pub(super) struct Output<'p, 'u> {
    records: &'p mut Records<'u>,
    is_changed: bool,
}

impl Output<'_, '_> {
    pub(super) fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, IndexError> {
        self.records.get(key)
    }

    /// Returns how many records a table has, as changed so far.
    pub(super) fn count(&self, volume: VolumeNumber, table: Table) -> Result<u64, IndexError> {
        let (mut records, (from, to)) = (0, key::table_range(volume, table));
        self.records.scan(&from, &to, &mut |_, _| {
            records += 1;
            ControlFlow::Continue(())
        })?;
        Ok(records)
    }

    pub(super) fn put(&mut self, key: &[u8], value: &[u8]) -> Result<(), IndexError> {
        self.is_changed = true;
        self.records.put(key, value)
    }

    pub(super) fn delete(&mut self, key: &[u8]) -> Result<(), IndexError> {
        self.is_changed = true;
        self.records.delete(key)
    }
}

/// Receives the fields of a key, and the value.
pub(super) type Visit<'a> = &'a mut dyn FnMut(&[u8], &[u8]) -> Result<(), IndexError>;

/// Visits the records of a table as the old index has them. Those whose keys make no sense are left to the pass that drops such
/// records.
pub(super) fn each(
    view: &View,
    volume: VolumeNumber,
    table: Table,
    visit: Visit<'_>,
) -> Result<(), IndexError> {
    let mut result = Ok(());
    let (from, to) = key::table_range(if key::is_of_pool(table) { POOL } else { volume }, table);
    view.each_in_index(&from, &to, &mut |found| {
        if let Found::Record(key, value) = found
            && let Some((_, _, fields)) = key::parse(key)
            && check_key(table, fields).is_ok()
        {
            result = visit(fields, value);
        }
        if result.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    })?;
    result
}

impl<'p, 'u> Pass<'p, 'u> {
    pub(super) fn new(
        view: &'p View,
        known: &'p LostRanges,
        stamp: Stamp,
        records: &'p mut Records<'u>,
        changes: Changes,
    ) -> Pass<'p, 'u> {
        Pass {
            view,
            known,
            stamp,
            out: Output { records, is_changed: false },
            changes,
            volume: POOL,
            objects: BTreeMap::new(),
            unsound: BTreeSet::new(),
            useless: BTreeSet::new(),
            reap: BTreeSet::new(),
            next_ino: Ino(0),
            later: Vec::new(),
            lost_and_found: None,
            listed: Vec::new(),
        }
    }

    /// Repairs everything. Returns the lost ranges that remain: whose clients held something is decided by the protocols,
    /// which drop the state of all of them at the next start.
    pub(super) fn run(
        &mut self,
        unsound: BTreeSet<Key>,
        blobs: &[SegmentId],
    ) -> Result<LostRanges, IndexError> {
        let mut remaining = LostRanges::default();
        for volume in self.view.volumes.keys() {
            self.lost_state(*volume).iter().for_each(|lost| remaining.add(&lost.from, &lost.to));
        }
        for key in &unsound {
            self.out.delete(key)?;
            self.changes.tally.records_dropped += 1;
            if let Some((volume, Table::State, _)) = key::parse(key)
                && self.view.volumes.contains_key(&volume)
            {
                let (from, to) = key::table_range(volume, Table::State);
                remaining.add(&from, &to);
            }
        }
        self.unsound = unsound;
        self.changes.tally.is_state_lost = !remaining.is_empty();
        let mut extents = self.load_extents(blobs)?;
        let view = self.view;
        for (volume, record) in &view.volumes {
            if record.is_deleted {
                self.count_deleted(*volume, &mut extents)?;
            } else {
                self.mend_volume((*volume, record), &mut extents)?;
            }
        }
        let next_segment = self.mend_extents(&extents)?;
        let next_extent = extents.keys().map(|id| id.0 + 1).max().unwrap_or(0);
        self.mend_meta(next_extent, next_segment)?;
        Ok(remaining)
    }

    /// Repairs a volume, and counts what its maps refer to.
    fn mend_volume(
        &mut self,
        (volume, record): (VolumeNumber, &VolumeRecord),
        extents: &mut Extents,
    ) -> Result<(), IndexError> {
        self.volume = volume;
        self.objects.clear();
        self.useless.clear();
        self.reap.clear();
        self.later.clear();
        self.lost_and_found = None;
        self.next_ino = record.next_ino;
        self.load_objects()?;
        self.mend_names()?;
        self.mend_maps(extents)?;
        self.mend_map_count()?;
        self.count_xattrs()?;
        self.connect()?;
        self.mend_quota_trees()?;
        self.mend_objects()?;
        let after_objects = self.objects.last_key_value().map_or(0, |(ino, _)| ino.0 + 1);
        let next_ino = Ino(self.next_ino.0.max(after_objects));
        if next_ino != record.next_ino {
            self.out.put(&key::volume(volume), &VolumeRecord { next_ino, ..record.clone() }.encode())?;
        }
        self.list_changes(&record.name)
    }

    /// Lists what was done to a volume, now that all its names are known.
    fn list_changes(&mut self, name: &str) -> Result<(), IndexError> {
        for (kind, subject, what) in std::mem::take(&mut self.changes.listed) {
            let path = match &subject {
                Subject::Object(ino) => self.path(*ino)?,
                Subject::Name(directory, name) => self.path(*directory)?.map(|parent| {
                    format!("{}/{}", parent.trim_end_matches('/'), String::from_utf8_lossy(name))
                }),
            };
            let path = path
                .map(|path| if self.view.has_several_volumes() { format!("{name}:{path}") } else { path });
            self.listed.push(Fault { kind, path, what });
        }
        Ok(())
    }

    /// Whether the record of this key is lost, if it is absent.
    pub(super) fn is_lost(&self, key: &Key) -> bool {
        self.view.is_lost(key) || self.unsound.contains(key)
    }

    /// Returns the lost ranges of the state of clients of a volume.
    fn lost_state(&self, volume: VolumeNumber) -> LostRanges {
        let mut lost = self.view.recorded().clone();
        let (from, to) = key::table_range(volume, Table::State);
        lost.remove(&[], &from);
        lost.remove(&to, &[0xff]);
        lost
    }

    fn mend_meta(&mut self, next_extent: u64, next_segment: u64) -> Result<(), IndexError> {
        let Some(old) = &self.view.meta else { return Ok(()) };
        let mut meta = old.clone();
        meta.next_extent.0 = meta.next_extent.0.max(next_extent);
        meta.next_segment.0 = meta.next_segment.0.max(next_segment);
        if self.out.is_changed {
            meta.time_ceiling = meta.time_ceiling.max(self.stamp.time);
        }
        if meta == *old { Ok(()) } else { self.out.put(&key::meta(), &meta.encode()) }
    }

    /// Returns what was done.
    pub(super) fn finish(self, was_lacking: bool) -> Repaired {
        Repaired {
            changes: self.listed,
            more_changes: self.changes.more,
            tally: self.changes.tally,
            is_replaced: self.out.is_changed || was_lacking,
            kept: Vec::new(),
        }
    }

    /// Returns the path of an object in the repaired volume.
    fn path(&self, ino: Ino) -> Result<Option<String>, IndexError> {
        let mut names = Vec::new();
        let mut at = ino;
        while at != Ino::ROOT && names.len() < DIRECTORY_DEPTH_MAX {
            let Some((directory, cookie)) = self.objects.get(&at).and_then(|object| object.first) else {
                return Ok(None);
            };
            let Some(name) = self.name_at(directory, cookie)? else { return Ok(None) };
            names.push(String::from_utf8_lossy(&name).into_owned());
            at = directory;
        }
        names.push(String::new());
        names.reverse();
        Ok(Some(if names.len() == 1 { "/".to_owned() } else { names.join("/") }))
    }
}
