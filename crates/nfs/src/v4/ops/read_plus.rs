//! READ_PLUS (RFC 7862 section 15.10): reads a file, reporting its holes.

use volume::limits::TRANSFER_BYTES_MAX;
use volume::results::Piece;
use wire::nfs4::{NfsStat4, ReadPlusArgs, ReadPlusEncoder};
use wire::xdr::Encoder;

use crate::summary::Transferred;
use crate::v4::context::{Compound, Done};
use crate::v4::ops::read::{readable, shortened};
use crate::v4::turns::{BYTES_OF_WEIGHT_1, PIECES_OF_WEIGHT_1};

/// Bytes around the data of one segment: kind, offset, length and padding.
const SEGMENT_BYTES: usize = 4 + 8 + 8 + 3;

/// Bytes around the data of all segments.
const SEGMENTS_BYTES_MAX: usize = wire::limits::READ_PLUS_SEGMENTS_MAX * SEGMENT_BYTES;

pub(crate) fn run(compound: &mut Compound<'_>, args: &ReadPlusArgs, out: &mut Encoder<'_>) -> Done {
    let file = compound.file()?;
    let count = args.count.min(TRANSFER_BYTES_MAX);
    readable(compound, &file, args.stateid)?;
    let room = compound.room(out.position());
    let count = shortened(count, args.offset, room.saturating_sub(SEGMENTS_BYTES_MAX).max(room / 2))?;
    let read = file.volume.read(&file.request(), file.ino, args.offset, count);
    let read = compound.answered(file.volume, read)?;
    compound.note_transferred(file.volume, Transferred::read(read.count));
    compound.add_weight(read.pieces.len(), PIECES_OF_WEIGHT_1);
    compound.add_weight(read.count, BYTES_OF_WEIGHT_1);
    let mut result = ReadPlusEncoder::begin(out);
    let (mut offset, mut pieces) = (args.offset, read.pieces.iter().peekable());
    while let Some(piece) = pieces.peek() {
        if !result.has_room() {
            break;
        }
        if let Piece::Zeros(length) = piece {
            let length = u64::try_from(*length).map_err(|_| NfsStat4::ServerFault)?;
            result.push_hole(offset, length);
            offset += length;
            pieces.next();
            continue;
        }
        let mut length = 0;
        result.push_data(offset, |buffer| {
            while let Some(Piece::Data { bytes, start, end }) =
                pieces.next_if(|piece| matches!(piece, Piece::Data { .. }))
            {
                buffer.extend_from_slice(bytes.get(*start..*end).expect("a piece lies within its buffer"));
                length += u64::try_from(end - start).expect("buffers are shorter");
            }
        });
        offset += length;
    }
    result.finish(read.eof && pieces.peek().is_none());
    Ok(())
}
