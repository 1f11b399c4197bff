//! File data: verifies every byte of every extent against its checksums.

use super::extents::{Placed, Placements};
use super::findings::Findings;
use super::{FaultKind, Summary};
use crate::api::ids::SegmentId;
use crate::count::count;
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
        let of_data = count(stored as u64, "byte");
        let what = format!("{of_data} of data in segment {id} at {} cannot be read: {error}", record.offset);
        return findings.add_to(FaultKind::Data, placed.file(), what);
    }
    let (header, data) = bytes.split_at(ExtentHeader::BYTES);
    if ExtentHeader::decode(header) != Some(ExtentHeader { id: placed.id, length: record.stored }) {
        let what = format!(
            "the header of extent {} in segment {id} is damaged: its data can be read, but its segment can never be \
             freed",
            placed.id
        );
        findings.add_to(FaultKind::Data, placed.file(), what);
    }
    let verified: Vec<bool> = (data.chunks(BLOCK).enumerate())
        .map(|(number, block)| {
            let place = record.offset.saturating_add((number * BLOCK) as u64);
            record.checksums.get(number) == Some(&ExtentRecord::checksum(block, id, place))
        })
        .collect();
    // One fault for each run of damaged blocks.
    let mut from = 0;
    for run in verified.chunk_by(|one, next| one == next) {
        let to = stored.min(from + run.len() * BLOCK);
        if run[0] {
            summary.verified_bytes += (to - from) as u64;
        } else {
            let hurt = bytes_of_file(placed, from as u64, to as u64)
                .map_or("data".to_owned(), |at| format!("its data near byte {at}"));
            let (start, end) =
                (record.offset.saturating_add(from as u64), record.offset.saturating_add(to as u64));
            let what =
                format!("{hurt} is damaged: segment {id} from {start} to {end} does not match its checksums");
            findings.add_to(FaultKind::Data, placed.file(), what);
        }
        from = to;
    }
}

/// Returns where stored bytes `[from, to)` of an extent lie in the first file that uses it, as far as that shows them.
fn bytes_of_file(placed: &Placed, from: u64, to: u64) -> Option<u64> {
    let (start, offset) = placed.used.as_ref()?.start;
    let mut pieces = placed.record.pieces(0, placed.record.length);
    let first = pieces.find(|piece| from < u64::from(piece.stored + (piece.end - piece.start)))?;
    // From here on, bytes of the extent.
    let moved = u64::from(first.start - first.stored);
    let (from, to) = (from + moved, to + moved);
    (to > u64::from(offset)).then(|| start.saturating_add(from.saturating_sub(u64::from(offset))))
}
