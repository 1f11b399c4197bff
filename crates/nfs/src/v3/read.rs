//! READ (RFC 1813 section 3.3.6): reads data. Small data is copied into the reply; large data is sent from the engine's
//! buffers.

use volume::limits::TRANSFER_BYTES_MAX;
use volume::results::Piece;
use wire::nfs3::{NfsStat3, PostOpAttr, ReadArgs, ReadEncoder};
use wire::xdr::Encoder;

use crate::call::{Call, Handled};
use crate::limits::{IN_PARTS_BYTES_MIN, PIECE_BYTES_MIN};
use crate::state::stateids::IoMode;
use crate::summary::Transferred;

pub(super) fn run<'a>(call: &Call<'a>, out: &mut Encoder<'_>) -> Handled<'a> {
    let args: ReadArgs<'_> = call.arguments()?;
    let file = call.object(args.file)?;
    drop(call.check_io(&file, IoMode::Read)?);
    // A READ may return less than requested (RFC 1813 section 3.3.6).
    let to_the_end = u32::try_from(u64::MAX - args.offset).unwrap_or(u32::MAX);
    let count = args.count.min(TRANSFER_BYTES_MAX).min(to_the_end);
    match file.volume.read(&file.request(), file.ino, args.offset, count) {
        Ok(promised) => {
            let read = promised.value;
            call.transferred.set(Transferred::read(read.count));
            if read.count >= IN_PARTS_BYTES_MIN
                && read.count.is_multiple_of(4)
                && read.is_in_long_pieces(PIECE_BYTES_MIN)
            {
                let attributes = file.fattr3(&read.attributes);
                ReadEncoder::begin(out, 0).finish_without_data(&attributes, read.eof, read.count);
                call.tail.set(read.pieces.into_iter().filter_map(Piece::into_slice).collect());
                return Ok(file.after(promised.after));
            }
            let mut result = ReadEncoder::begin(out, read.count);
            for piece in &read.pieces {
                match piece {
                    Piece::Data { bytes, start, end } => {
                        result.push(bytes.get(*start..*end).expect("a piece lies within its buffer"));
                    }
                    Piece::Zeros(length) => result.push_zeros(*length),
                }
            }
            result.finish(&file.fattr3(&read.attributes), read.eof);
            Ok(file.after(promised.after))
        }
        Err(failure) => file.fail(&failure, out, |attributes| attributes),
    }
}

pub(super) fn failed(status: NfsStat3, out: &mut Encoder<'_>) {
    super::fail(out, status, PostOpAttr::None);
}
