//! The payload of a large WRITE: where it is in a record of which only the start has arrived, and what becomes of it.

use volume::bytes::{Arriving, Received};
use wire::nfs3::{self, Procedure, WriteArgs};
use wire::nfs4::compound::CompoundReader;
use wire::nfs4::{self, ArgOp4};
use wire::rpc::decode_call_in;
use wire::xdr::{Decode as _, Decoder, Payload};

/// A payload that is being received.
#[derive(Debug)]
pub struct ArrivingPayload {
    /// Where it begins in the record.
    pub(crate) at: usize,
    pub(crate) data: Arriving,
}

impl ArrivingPayload {
    /// Returns a payload that begins behind the first `at` bytes of its record.
    #[must_use]
    pub fn new(at: usize, data: Arriving) -> ArrivingPayload {
        ArrivingPayload { at, data }
    }
}

/// A payload that was received into the memory where it stays. A clone shares it.
#[derive(Clone, Debug)]
pub struct ReceivedPayload {
    /// Where it belongs in the record.
    pub(crate) at: usize,
    pub(crate) data: Received,
}

impl ReceivedPayload {
    /// Returns its bytes.
    #[must_use]
    pub fn data(&self) -> &Received {
        &self.data
    }
}

impl From<ArrivingPayload> for ReceivedPayload {
    fn from(payload: ArrivingPayload) -> ReceivedPayload {
        ReceivedPayload { at: payload.at, data: payload.data.finish() }
    }
}

/// The place of the payload of a WRITE.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place<'r> {
    /// Where it begins in the record.
    pub(crate) at: usize,
    /// Its length in bytes.
    pub(crate) length: usize,
    /// The offset in the file.
    pub(crate) offset: u64,
    /// The file's handle, as the client sent it.
    pub(crate) handle: &'r [u8],
}

/// Finds the payload of a WRITE that ends beyond the `start` of a record of `length` bytes. None if the record has none, or if
/// more of it must arrive to know.
pub(crate) fn place_of(start: &[u8], length: usize) -> Option<Place<'_>> {
    let (header, mut input) = decode_call_in(Decoder::of_start(start, length)).ok()?;
    let place = |data: Payload<'_>, offset, handle| {
        let is_missing = data.bytes().is_none();
        is_missing.then(|| Place { at: start.len() - data.here().len(), length: data.len(), offset, handle })
    };
    match (header.program, header.version) {
        (nfs3::PROGRAM, nfs3::VERSION) if header.procedure == Procedure::Write.code() => {
            let args = WriteArgs::decode(&mut input).ok()?;
            place(args.data, args.offset, args.file.as_bytes())
        }
        (nfs4::PROGRAM, nfs4::VERSION) if header.procedure == nfs4::Procedure::Compound.code() => {
            let mut current = None;
            for operation in CompoundReader::new(input).ok()?.map_while(Result::ok) {
                match operation {
                    ArgOp4::Putfh(args) => current = Some(args.object.as_bytes()),
                    ArgOp4::Write(args) if args.data.bytes().is_none() => {
                        return place(args.data, args.offset, current?);
                    }
                    _ => {}
                }
            }
            None
        }
        _ => None,
    }
}
