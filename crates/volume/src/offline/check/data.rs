//! File data: verifies every byte of every extent against its checksums.

use super::extents::{Placed, Placements};
use super::findings::Findings;
use super::{FaultKind, Summary};
use crate::api::ids::SegmentId;
use crate::encoding::record::{BLOCK, ExtentHeader, ExtentRecord};
use crate::limits::EXTENT_BYTES_MAX;
use crate::media::{Blob, Media};

/// Reads and verifies all extents, segment by segment from front to back.
pub(super) fn check_data(
    media: &dyn Media,
    segments: &Placements,
    findings: &mut Findings,
    summary: &mut Summary,
) {
    for (id, placement) in segments.iter().filter(|(_, placement)| placement.is_present) {
        if placement.extents.is_empty() {
            continue;
        }
        match media.open_blob(*id) {
            Ok(blob) => {
                for placed in &placement.extents {
                    check_extent(*id, blob.as_ref(), placed, findings, summary);
                }
            }
            Err(error) => {
                findings.add(FaultKind::Segment, None, format!("segment {id} cannot be opened: {error}"));
            }
        }
    }
}

fn check_extent(
    id: SegmentId,
    blob: &dyn Blob,
    placed: &Placed,
    findings: &mut Findings,
    summary: &mut Summary,
) {
    let record = &placed.record;
    let stored = record.stored as usize;
    // An impossible length was reported; there is no memory to waste on it.
    let Some(from) =
        record.offset.checked_sub(ExtentHeader::BYTES as u64).filter(|_| stored <= EXTENT_BYTES_MAX)
    else {
        return;
    };
    let mut bytes = vec![0; ExtentHeader::BYTES + stored];
    if let Err(error) = blob.read_at(from, &mut bytes) {
        let what =
            format!("{stored} bytes of data in segment {id} at {} cannot be read: {error}", record.offset);
        return findings.add(FaultKind::Data, placed.ino(), what);
    }
    let (header, data) = bytes.split_at(ExtentHeader::BYTES);
    if ExtentHeader::decode(header) != Some(ExtentHeader { id: placed.id, length: record.stored }) {
        let what = format!(
            "the header of extent {} in segment {id} is damaged: its data can be read, but its segment never be given back",
            placed.id
        );
        findings.add(FaultKind::Data, placed.ino(), what);
    }
    for (number, block) in data.chunks(BLOCK).enumerate() {
        let skipped = (number * BLOCK) as u64;
        let place = record.offset.saturating_add(skipped);
        if record.checksums.get(number) == Some(&ExtentRecord::checksum(block, id, place)) {
            summary.verified_bytes += block.len() as u64;
        } else {
            let hurt = bytes_of_file(placed, skipped)
                .map_or("data".to_owned(), |at| format!("its data near byte {at}"));
            let what = format!("{hurt} is damaged: segment {id} at {place} does not match its checksum");
            findings.add(FaultKind::Data, placed.ino(), what);
        }
    }
}

/// Returns where the bytes after the first `skipped` lie in the first file that uses the extent.
fn bytes_of_file(placed: &Placed, skipped: u64) -> Option<u64> {
    let (start, offset) = placed.used?.start;
    let block_end = skipped + BLOCK as u64;
    (block_end > u64::from(offset)).then(|| start.saturating_add(skipped.saturating_sub(u64::from(offset))))
}
