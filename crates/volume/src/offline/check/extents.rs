//! Extents and segments: where file data lies.

use std::collections::{BTreeMap, BTreeSet};

use super::findings::Findings;
use super::maps::{Use, Uses};
use super::view::View;
use super::{FaultKind, Summary};
use crate::api::ids::{ExtentId, ObjectId, SegmentId, VolumeNumber};
use crate::count::count;
use crate::encoding::key;
use crate::encoding::key::{POOL, Table};
use crate::encoding::record::{ExtentHeader, ExtentRecord, References, SegmentRecord, sectors};
use crate::limits::EXTENT_BYTES_MAX;
use crate::media::BLOCK_BYTES;
use crate::tables::index::IndexError;

/// An extent in its segment.
#[derive(Clone, Debug)]
pub(super) struct Placed {
    pub id: ExtentId,
    pub record: ExtentRecord,
    /// What refers to it, if anything does.
    pub used: Option<Use>,
}

impl Placed {
    /// Returns the offset of its header.
    fn from(&self) -> u64 {
        self.record.offset.saturating_sub(ExtentHeader::BYTES as u64)
    }

    fn to(&self) -> u64 {
        self.record.offset.saturating_add(u64::from(self.record.stored))
    }

    pub(super) fn file(&self) -> Option<ObjectId> {
        self.used.as_ref().map(|used| used.file)
    }
}

/// A segment: its row, and the extents in it by their offset.
#[derive(Debug, Default)]
pub(super) struct Placement {
    row: Option<SegmentRecord>,
    /// Whether the index has the row; a row of the journal does not state live bytes.
    is_in_index: bool,
    /// Bytes of the extents that the index places here.
    live: u64,
    pub extents: Vec<Placed>,
    /// Whether its file is there.
    pub is_present: bool,
}

/// All segments.
pub(super) type Placements = BTreeMap<SegmentId, Placement>;

/// Checks extents and segments. `uses` has the extents that maps refer to, `blobs` the existing segment files.
pub(super) fn check_extents(
    view: &View,
    mut uses: Uses,
    blobs: &[SegmentId],
    findings: &mut Findings,
    summary: &mut Summary,
) -> Result<Placements, IndexError> {
    let mut placements = load_segments(view, blobs, findings)?;
    view.each_of_index(POOL, Table::Extent, &mut |fields, value| {
        let Some((id, row)) = decode(fields, value) else { return };
        let used = uses.remove(&id);
        check_references(view, id, &row, used.as_ref(), findings);
        let of_row = placements.entry(row.segment).or_default();
        of_row.live = of_row.live.saturating_add(row.live_bytes(&row.references).into());
        // The cleaner may have moved it since the checkpoint.
        let moved =
            view.recent(&key::extent(id)).and_then(|slot| ExtentRecord::decode(slot.as_deref()?).ok());
        place(&mut placements, id, moved.unwrap_or(row), used, findings);
        summary.extents += 1;
    })?;
    for (fields, slot) in view.recent_of(POOL, Table::Extent) {
        let Some((id, row)) = slot.as_ref().and_then(|value| decode(fields, value)) else { continue };
        // An extent without a use was freed, or placed above already.
        if let Some(used) = uses.remove(&id) {
            place(&mut placements, id, row, Some(used), findings);
            summary.extents += 1;
        }
    }
    let mut missing: Vec<(ExtentId, Use)> = uses.into_iter().collect();
    missing.sort_unstable_by_key(|(id, _)| *id);
    report_missing(view, &missing, findings, summary);
    for (id, placement) in &mut placements {
        check_segment(view, *id, placement, findings, summary);
    }
    Ok(placements)
}

/// Reports extents that maps refer to and that do not exist; those that are lost, once for each file.
fn report_missing(view: &View, missing: &[(ExtentId, Use)], findings: &mut Findings, summary: &mut Summary) {
    let mut lost: BTreeMap<ObjectId, (u64, u64)> = BTreeMap::new();
    for (id, used) in missing {
        let (start, offset) = used.start;
        if view.is_lost(&key::extent(*id)) {
            let of_file = lost.entry(used.file).or_insert((0, start));
            let bytes = used.reach.saturating_sub(u64::from(offset));
            *of_file = (of_file.0.saturating_add(bytes), of_file.1.min(start));
            continue;
        }
        let what = format!("data from byte {start} on lies in extent {id}, which does not exist");
        findings.add_to(FaultKind::Extent, Some(used.file), what);
    }
    for (file, (bytes, first)) in lost {
        summary.lost_bytes = summary.lost_bytes.saturating_add(bytes);
        let what = format!(
            "{} of its data, the first at byte {first}, cannot be read: the records of its extents are lost",
            count(bytes, "byte")
        );
        findings.add_to(FaultKind::Lost, Some(file), what);
    }
}

/// Whether records of a table are lost.
fn lacks(view: &View, member: VolumeNumber, table: Table) -> bool {
    let (from, to) = key::table_range(member, table);
    view.has_lost(&from, &to)
}

/// Whether mappings of any volume are lost.
fn lacks_maps(view: &View) -> bool {
    view.volumes.keys().any(|volume| lacks(view, *volume, Table::Map))
}

fn decode(fields: &[u8], value: &[u8]) -> Option<(ExtentId, ExtentRecord)> {
    Some((ExtentId(key::number(fields)?), ExtentRecord::decode(value).ok()?))
}

fn load_segments(
    view: &View,
    blobs: &[SegmentId],
    findings: &mut Findings,
) -> Result<Placements, IndexError> {
    let present: BTreeSet<SegmentId> = blobs.iter().copied().collect();
    let mut placements = Placements::new();
    let mut load = |fields: &[u8], value: &[u8], is_in_index: bool| {
        if let (Some(id), Ok(row)) = (key::number(fields).map(SegmentId), SegmentRecord::decode(value)) {
            let is_present = present.contains(&id);
            let new = Placement { row: Some(row), is_in_index, is_present, ..Placement::default() };
            let known = placements.entry(id).or_insert(new);
            if known.row.is_some_and(|known| known.capacity != row.capacity) {
                let what = format!("journal and index disagree on how large segment {id} is");
                findings.add(FaultKind::Segment, None, what);
            }
        }
    };
    view.each_of_index(POOL, Table::Segment, &mut |fields, value| load(fields, value, true))?;
    for (fields, slot) in view.recent_of(POOL, Table::Segment) {
        if let Some(value) = slot {
            load(fields, value, false);
        }
    }
    for id in present.iter().filter(|id| !placements.contains_key(id)) {
        if view.is_lost(&key::segment(*id)) {
            continue;
        }
        findings.note(format!("segment {id} is not in use; the next start deletes its file"));
    }
    Ok(placements)
}

fn check_references(
    view: &View,
    id: ExtentId,
    row: &ExtentRecord,
    used: Option<&Use>,
    findings: &mut Findings,
) {
    let none = References::NONE;
    let counted = used.map_or(&none, |used| &used.references).clipped(sectors(row.length));
    // References of lost maps are not known, nor are those of an extent whose record was lost and written anew.
    if row.references == References::Unknown || lacks_maps(view) && row.references.cover(&counted) {
        return;
    }
    if row.references != counted {
        let what =
            format!("the reference count of extent {id} is {}, but should be {counted}", row.references);
        findings.add_to(FaultKind::Extent, used.map(|used| used.file), what);
    }
}

/// Adds an extent to its segment.
fn place(
    placements: &mut Placements,
    id: ExtentId,
    record: ExtentRecord,
    used: Option<Use>,
    findings: &mut Findings,
) {
    if let Some(used) = &used {
        if used.reach > u64::from(record.length) {
            let reach = count(used.reach, "byte");
            let what = format!("its data reaches {reach} into extent {id}, which has {}", record.length);
            findings.add_to(FaultKind::Extent, Some(used.file), what);
        }
        let named = used.all.clipped(sectors(record.length)).named(sectors(record.length));
        if let Some(lacking) = named.into_iter().find(|span| !record.kept.has(*span)) {
            let bytes = lacking.bytes(record.length);
            let what = format!(
                "its data is in bytes {} to {} of extent {id}, of which its segment has only a part",
                bytes.start,
                bytes.end - 1
            );
            findings.add_to(FaultKind::Extent, Some(used.file), what);
        }
    }
    placements.entry(record.segment).or_default().extents.push(Placed { id, record, used });
}

fn check_segment(
    view: &View,
    id: SegmentId,
    placement: &mut Placement,
    findings: &mut Findings,
    summary: &mut Summary,
) {
    placement.extents.sort_unstable_by_key(|placed| (placed.record.offset, placed.id));
    summary.live_bytes = summary.live_bytes.saturating_add(placement.live);
    let Some(row) = placement.row else {
        if view.is_lost(&key::segment(id)) {
            let what = format!("the record of segment {id} is lost; the data in it can be read");
            return findings.add(FaultKind::Lost, None, what);
        }
        return lost(
            id,
            placement,
            "of which neither index nor journal knows; the next start would delete it",
            findings,
        );
    };
    summary.segments += 1;
    let lacks_extents = row.live > placement.live && lacks(view, POOL, Table::Extent);
    if placement.is_in_index && row.live != placement.live && !lacks_extents {
        let what =
            format!("the live-byte count of segment {id} is {}, but should be {}", row.live, placement.live);
        findings.add(FaultKind::Segment, None, what);
    }
    if !placement.is_in_index && placement.live > 0 && !view.is_lost(&key::segment(id)) {
        let live = count(placement.live, "byte");
        let what = format!("segment {id} is missing in the index, which places {live} in it");
        findings.add(FaultKind::Segment, None, what);
    }
    if !placement.is_present {
        lost(id, placement, "whose file is missing", findings);
        if placement.extents.is_empty() {
            findings.note(format!("the file of segment {id} is missing; nothing lies in it"));
        }
    }
    let mut behind = BLOCK_BYTES;
    for placed in &placement.extents {
        let mut add = |what: &str| {
            let what = format!("extent {} of segment {id} at {} {what}", placed.id, placed.record.offset);
            findings.add_to(FaultKind::Extent, placed.file(), what);
        };
        if placed.from() < BLOCK_BYTES || placed.to() > row.capacity {
            add("is not within it");
        } else if placed.from() < behind {
            add("overlaps another one");
        }
        if placed.record.stored == 0 || placed.record.stored as usize > EXTENT_BYTES_MAX {
            add(&format!("has an impossible length of {}", count(placed.record.stored.into(), "byte")));
        }
        behind = behind.max(placed.to());
    }
}

/// Reports a fault for each file with data in an unreadable segment, and one if only freed data is lost.
fn lost(id: SegmentId, placement: &Placement, why: &str, findings: &mut Findings) {
    let mut files: BTreeMap<Option<ObjectId>, u64> = BTreeMap::new();
    for placed in &placement.extents {
        *files.entry(placed.file()).or_default() += u64::from(placed.record.stored);
    }
    for (file, bytes) in files {
        findings.add_to(
            FaultKind::Segment,
            file,
            format!("{} of data should be in segment {id}, {why}", count(bytes, "byte")),
        );
    }
}
