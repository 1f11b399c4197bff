//! READ (RFC 8881 section 18.22): reads a file. Short data is copied into the reply; long data is sent from the
//! engine's buffers if nothing follows it.

use volume::limits::TRANSFER_BYTES_MAX;
use volume::results::Piece;
use wire::nfs4::{NfsStat4, ReadArgs, ReadEncoder, Stateid4};
use wire::xdr::Encoder;

use crate::call::Object;
use crate::limits::{IN_PARTS_BYTES_MIN, PIECE_BYTES_MIN};
use crate::state::stateids::IoMode;
use crate::summary::Transferred;
use crate::v4::context::{Compound, Done, OpStop};
use crate::v4::regular;
use crate::v4::turns::{BYTES_OF_WEIGHT_1, PIECES_OF_WEIGHT_1};

pub(crate) fn run(compound: &mut Compound<'_>, args: &ReadArgs, out: &mut Encoder<'_>) -> Done {
    let file = compound.file()?;
    let count = args.count.min(TRANSFER_BYTES_MAX);
    readable(compound, &file, args.stateid)?;
    let room = compound.room(out.position()).saturating_sub(ReadEncoder::HEADER_BYTES);
    let count = shortened(count, args.offset, room)?;
    let read = file.volume.read(&file.request(), file.ino, args.offset, count);
    let read = compound.answered(file.volume, read)?;
    compound.note_transferred(file.volume, Transferred::read(read.count));
    compound.add_weight(read.pieces.len(), PIECES_OF_WEIGHT_1);
    let in_parts = read.count >= IN_PARTS_BYTES_MIN
        && read.count.is_multiple_of(4)
        && read.is_in_long_pieces(PIECE_BYTES_MIN);
    if in_parts && compound.may_have_tail() {
        ReadEncoder::begin(out, 0).finish_without_data(read.eof, read.count);
        compound.set_tail(read.pieces.into_iter().filter_map(Piece::into_slice).collect());
        return Ok(());
    }
    compound.add_weight(read.count, BYTES_OF_WEIGHT_1);
    let mut result = ReadEncoder::begin(out, read.count);
    for piece in &read.pieces {
        match piece {
            Piece::Data { bytes, start, end } => {
                result.push(bytes.get(*start..*end).expect("a piece lies within its buffer"));
            }
            Piece::Zeros(length) => result.push_zeros(*length),
        }
    }
    result.finish(read.eof);
    Ok(())
}

/// Checks that a stateid allows reading a regular file.
pub(crate) fn readable<'c>(
    compound: &mut Compound<'c>,
    file: &Object<'c>,
    stateid: Stateid4,
) -> Result<(), OpStop> {
    regular::check_io(compound, file, stateid, IoMode::Read).map(drop)
}

/// Returns how much to read into a reply with `room` bytes: a READ may return less than was requested.
///
/// # Errors
/// NFS4ERR_REP_TOO_BIG if there is no room.
pub(crate) fn shortened(count: u32, offset: u64, room: usize) -> Result<u32, OpStop> {
    let to_the_end = u32::try_from(u64::MAX - offset).unwrap_or(u32::MAX);
    let room = u32::try_from(room & !3).unwrap_or(u32::MAX);
    if room == 0 && count > 0 { Err(NfsStat4::RepTooBig.into()) } else { Ok(count.min(room).min(to_the_end)) }
}
