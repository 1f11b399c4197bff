//! The extents of one segment, found by their headers.

use super::{Line, Visit, unreadable};
use crate::api::ids::SegmentId;
use crate::encoding::key;
use crate::encoding::record::{BLOCK, ExtentHeader, ExtentRecord};
use crate::media::Media;
use crate::offline::check::view::View;
use crate::open::OpenError;
use crate::segments::find_extents;

/// Bytes read at a time.
const PIECE_BYTES: u64 = 4 << 20;

/// Dumps the extents that begin in a segment of `capacity` bytes.
pub(super) fn extents(
    media: &dyn Media,
    view: &View,
    id: SegmentId,
    capacity: u64,
    visit: Visit<'_>,
) -> Result<(), OpenError> {
    let failed = |error| OpenError(format!("segment {id} cannot be read: {error}"));
    let blob = media.open_blob(id).map_err(failed)?;
    let mut offset = 0;
    while offset < capacity {
        let length = PIECE_BYTES.min(capacity - offset);
        let mut bytes = vec![0; usize::try_from(length).unwrap_or(0)];
        blob.read_at(offset, &mut bytes).map_err(failed)?;
        let is_last = offset + length == capacity;
        let (found, scanned) = find_extents(&bytes, is_last);
        for (start, header) in found {
            let data = bytes.get(start..start + header.length as usize).unwrap_or(&[]);
            let line = extent_line(view, id, offset + start as u64, header, data)?;
            if visit(line).is_break() {
                return Ok(());
            }
        }
        if is_last {
            return Ok(());
        }
        // Always advance, even if no extent ends within a whole piece.
        offset += (scanned as u64).max(BLOCK as u64);
    }
    Ok(())
}

fn extent_line(
    view: &View,
    id: SegmentId,
    offset: u64,
    header: ExtentHeader,
    data: &[u8],
) -> Result<Line, OpenError> {
    let line = Line::new("extent").number("id", header.id.0).number("offset", offset);
    let line = line.number("length", header.length.into());
    let row = view.get(&key::extent(header.id)).map_err(unreadable)?;
    let row = row.and_then(|row| ExtentRecord::decode(&row).ok());
    let here = row.filter(|row| row.segment == id && row.offset == offset);
    let Some(row) = here else { return Ok(line.flag("used", false)) };
    let verifies = row.checksums == ExtentRecord::of(data, id, offset).checksums;
    let most = row.references.most().unwrap_or(u32::MAX);
    let live = row.live_bytes(&row.references);
    let line = line.flag("used", true).number("references", most.into()).number("live", live.into());
    Ok(line.flag("verifies", verifies))
}
