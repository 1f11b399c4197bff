//! The maps of files: index and journal, each by itself, and combined.

use std::collections::{BTreeMap, HashMap};

use super::findings::Findings;
use super::tree::Tree;
use super::view::View;
use super::{FaultKind, Summary};
use crate::api::ids::{ExtentId, Ino, ObjectId};
use crate::count::count;
use crate::encoding::key;
use crate::encoding::key::Table;
use crate::encoding::record::{ExtentMapping, InodeRecord, References, Source, Span};
use crate::limits::FILE_BYTES_MAX;
use crate::tables::index::IndexError;

/// The mappings that refer to an extent.
#[derive(Clone, Debug)]
pub(super) struct Use {
    /// Those in the index, which the extent's record counts, as those of the largest extents.
    pub references: References,
    /// All, those of the journal included.
    pub all: References,
    /// The first file found.
    pub file: ObjectId,
    /// Where that file's mapping begins, in the file and in the extent.
    pub start: (u64, u32),
    /// How far mappings extend into the extent, bytes.
    pub reach: u64,
}

/// The extents that maps refer to.
pub(super) type Uses = HashMap<ExtentId, Use>;

/// A mapping with its end.
struct Mapped {
    end: u64,
    record: ExtentMapping,
}

impl Mapped {
    fn decode(fields: &[u8], value: &[u8]) -> Option<(Ino, Mapped)> {
        let ino = Ino(key::number(fields)?);
        Some((ino, Mapped { end: key::second_number(fields)?, record: ExtentMapping::decode(value).ok()? }))
    }

    /// Returns the part that the file's truncations leave visible.
    fn visible(&self, inode: &InodeRecord) -> (u64, u64) {
        (self.record.start, self.end.min(inode.visible_end(self.record.birth)).max(self.record.start))
    }
}

/// The file whose map is being checked.
struct File {
    ino: Ino,
    /// Its record; `None` if it was removed, or does not decode.
    record: Option<InodeRecord>,
    /// Ranges that the journal's mappings show, in file order; they hide the index's.
    over: Vec<(u64, u64)>,
    previous_end: u64,
}

impl File {
    fn open(view: &View, ino: Ino) -> Result<File, IndexError> {
        let value = view.get(&key::inode(view.volume.object(ino)))?;
        let record = value.and_then(|value| InodeRecord::decode(&value).ok());
        Ok(File { ino, record, over: Vec::new(), previous_end: 0 })
    }

    /// Checks a mapping against the previous ones and against the file. Returns its visible part.
    fn check(&mut self, mapping: &Mapped, place: &str, findings: &mut Findings) -> Option<(u64, u64)> {
        let (start, end) = (mapping.record.start, mapping.end);
        let mut add = |what: &str| {
            let last = end.saturating_sub(1);
            let what = format!("in its map ({place}), the mapping of bytes {start} to {last} {what}");
            findings.add(FaultKind::Map, Some(self.ino), what);
        };
        if start >= end || end > FILE_BYTES_MAX {
            add("is out of range");
            return None;
        }
        if start < self.previous_end {
            add("overlaps the mapping before it");
        }
        self.previous_end = end;
        let inode = self.record.as_ref()?;
        if mapping.record.birth > inode.truncations {
            add("belongs to a truncation that never happened");
        }
        let visible = mapping.visible(inode);
        if visible.1 > inode.mapped_end.max(visible.0) {
            add(&format!("reaches beyond byte {}, where its data should end", inode.mapped_end));
        }
        Some(visible)
    }

    /// Returns the bytes of `[start, end)` that the journal's mappings do not hide.
    fn uncovered(&self, start: u64, end: u64) -> u64 {
        let first = self.over.partition_point(|(_, over_end)| *over_end <= start);
        let hidden: u64 = self.over[first..]
            .iter()
            .take_while(|(over_start, _)| *over_start < end)
            .map(|(over_start, over_end)| (*over_end).min(end) - (*over_start).max(start))
            .sum();
        end - start - hidden
    }
}

/// Records that a mapping, in the index or in the journal, refers to an extent.
fn refer(uses: &mut Uses, file: ObjectId, mapping: &Mapped, is_in_index: bool) {
    let Source::Extent { id, offset } = mapping.record.source else { return };
    let none = || Use {
        references: References::NONE,
        all: References::NONE,
        file,
        start: (mapping.record.start, offset),
        reach: 0,
    };
    let entry = uses.entry(id).or_insert_with(none);
    let length = mapping.end.saturating_sub(mapping.record.start);
    let span = Span::of(offset, length);
    entry.all.add(span);
    if is_in_index {
        entry.references.add(span);
    }
    entry.reach = entry.reach.max(u64::from(offset).saturating_add(length));
}

/// Checks the maps in the index, and returns the number of their records.
pub(super) fn check_index_maps(
    view: &View,
    tree: &mut Tree,
    uses: &mut Uses,
    findings: &mut Findings,
    summary: &mut Summary,
) -> Result<u64, IndexError> {
    let mut records = 0;
    let mut lost: BTreeMap<Ino, (u64, u64)> = BTreeMap::new();
    let mut file: Option<File> = None;
    let mut failed = None;
    view.each_of_index(view.volume, Table::Map, &mut |fields, value| {
        records += 1;
        let Some((ino, mapping)) = Mapped::decode(fields, value) else { return };
        if file.as_ref().is_none_or(|file| file.ino != ino) {
            match open_index_map(view, tree, ino, findings) {
                Ok(opened) => file = Some(opened),
                Err(error) => {
                    failed = Some(error);
                    return;
                }
            }
        }
        let Some(file) = &mut file else { return };
        if !matches!(mapping.record.source, Source::Extent { .. } | Source::Lost) {
            let held = count(value.len() as u64, "byte");
            let what = format!("its map in the index holds {held} of data inline, or a hole");
            findings.add(FaultKind::Map, Some(ino), what);
        }
        refer(uses, view.volume.object(ino), &mapping, true);
        if let Some((start, end)) = file.check(&mapping, "index", findings)
            && let Some(node) = tree.nodes.get_mut(&ino)
        {
            let shown = file.uncovered(start, end);
            node.mapped = node.mapped.saturating_add(shown);
            if mapping.record.source == Source::Lost && shown > 0 {
                let of_file = lost.entry(ino).or_insert((0, start));
                of_file.0 = of_file.0.saturating_add(shown);
            }
        }
    })?;
    report_lost_data(&lost, findings, summary);
    failed.map_or(Ok(records), Err)
}

/// Counts what the maps of a deleted volume refer to.
pub(super) fn count_deleted(view: &View, uses: &mut Uses) -> Result<(), IndexError> {
    view.each_of_index(view.volume, Table::Map, &mut |fields, value| {
        if let Some((ino, mapping)) = Mapped::decode(fields, value) {
            refer(uses, view.volume.object(ino), &mapping, true);
        }
    })
}

/// Reports the data that a repair found to be lost: the bytes of each file, and where the first lies.
fn report_lost_data(lost: &BTreeMap<Ino, (u64, u64)>, findings: &mut Findings, summary: &mut Summary) {
    for (ino, (bytes, first)) in lost {
        summary.lost_bytes = summary.lost_bytes.saturating_add(*bytes);
        let what = format!(
            "it has lost {} of data, the first at byte {first}: reads there fail until it is written again; a part of \
             it may have been a hole",
            count(*bytes, "byte")
        );
        findings.add(FaultKind::Data, Some(*ino), what);
    }
}

/// Begins with another file of the index, which must exist or be waiting to be freed.
fn open_index_map(view: &View, tree: &Tree, ino: Ino, findings: &mut Findings) -> Result<File, IndexError> {
    let mut file = File::open(view, ino)?;
    match &file.record {
        Some(inode) => file.over = recent_cover(&recent_mappings(view, ino), inode),
        None if tree.nodes.contains_key(&ino) => {}
        None if view.get(&key::reap(view.volume.object(ino)))?.is_none() && !may_be_lost(view, ino) => {
            let what =
                format!("there is data of inode {ino}, which does not exist; its space is never freed");
            findings.add(FaultKind::Map, None, what);
        }
        None => {}
    }
    Ok(file)
}

/// Whether the record of an object may be lost, or that of its removal.
pub(super) fn may_be_lost(view: &View, ino: Ino) -> bool {
    view.is_lost(&key::inode(view.volume.object(ino))) || view.is_lost(&key::reap(view.volume.object(ino)))
}

/// Checks the mappings that the journal put.
pub(super) fn check_recent_maps(
    view: &View,
    tree: &mut Tree,
    uses: &mut Uses,
    findings: &mut Findings,
) -> Result<(), IndexError> {
    let mut files: BTreeMap<Ino, Vec<Mapped>> = BTreeMap::new();
    for (fields, slot) in view.recent_of(view.volume, Table::Map) {
        if let Some((ino, mapping)) = slot.as_ref().and_then(|value| Mapped::decode(fields, value)) {
            files.entry(ino).or_default().push(mapping);
        }
    }
    for (ino, mappings) in files {
        let mut file = File::open(view, ino)?;
        let Some(inode) = file.record.clone() else {
            // The mappings of a file that the journal removes remain there until the next checkpoint drops them.
            let is_removed = matches!(view.recent(&key::inode(view.volume.object(ino))), Some(None));
            if !tree.nodes.contains_key(&ino) && !is_removed && !may_be_lost(view, ino) {
                let what = format!("the journal holds data of inode {ino}, which does not exist");
                findings.add(FaultKind::Map, None, what);
            }
            continue;
        };
        for mapping in &mappings {
            file.check(mapping, "journal", findings);
            refer(uses, view.volume.object(ino), mapping, false);
        }
        if let Some(node) = tree.nodes.get_mut(&ino) {
            let data: Vec<Mapped> =
                mappings.into_iter().filter(|mapping| mapping.record.source != Source::Hole).collect();
            let shown: u64 = recent_cover(&data, &inode).iter().map(|(start, end)| end - start).sum();
            node.mapped = node.mapped.saturating_add(shown);
        }
    }
    Ok(())
}

/// Returns the journal's mappings of one file, in order of their ends.
fn recent_mappings(view: &View, ino: Ino) -> Vec<Mapped> {
    view.recent_of_map(ino)
        .filter_map(|(fields, slot)| Mapped::decode(fields, slot.as_ref()?))
        .map(|(_, mapping)| mapping)
        .collect()
}

/// Returns the ranges of a file that the journal's mappings show, in file order, merged where they overlap.
fn recent_cover(mappings: &[Mapped], inode: &InodeRecord) -> Vec<(u64, u64)> {
    let mut shown: Vec<(u64, u64)> =
        mappings.iter().map(|mapping| mapping.visible(inode)).filter(|(start, end)| start < end).collect();
    shown.sort_unstable();
    let mut cover: Vec<(u64, u64)> = Vec::with_capacity(shown.len());
    for (start, end) in shown {
        match cover.last_mut() {
            Some(last) if start <= last.1 => last.1 = last.1.max(end),
            _ => cover.push((start, end)),
        }
    }
    cover
}
