//! READ (RFC 1813 section 3.3.6): data of a file, copied once, from the engine's buffers into the reply.

use volume::limits::TRANSFER_BYTES;
use volume::results::Piece;
use wire::nfs3::{NfsStat3, ReadArgs, ReadEncoder, ReadFail};
use wire::xdr::Encoder;

use crate::call::{Call, Handled};

pub(super) fn run<'a>(call: &Call<'a>, out: &mut Encoder<'_>) -> Handled<'a> {
    let args: ReadArgs<'_> = call.arguments()?;
    let file = call.object(args.file)?;
    // A READ may return less than was asked for (RFC 1813 section 3.3.6).
    let to_the_end = u32::try_from(u64::MAX - args.offset).unwrap_or(u32::MAX);
    let count = args.count.min(TRANSFER_BYTES).min(to_the_end);
    match file.volume.read(&file.request(), file.ino, args.offset, count) {
        Ok(promised) => {
            let read = &promised.value;
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
        Err(failure) => file.fail(&failure, out, |file_attributes| ReadFail { file_attributes }),
    }
}

pub(super) fn failed(status: NfsStat3, out: &mut Encoder<'_>) {
    super::fail(out, status, ReadFail { file_attributes: None });
}
