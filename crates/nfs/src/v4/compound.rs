//! COMPOUND (RFC 8881 section 16.2): operations in order, until one fails.

use wire::nfs3::NfsStat3;
use wire::xdr::{Decode, DecodeError, Decoder, Encode as _, Encoder};

use crate::call::{After, Call, Handled};

/// NFS4ERR_MINOR_VERS_MISMATCH (RFC 7530 section 13.1.3.6).
const MINOR_VERS_MISMATCH: u32 = 10_021;

/// A COMPOUND that stopped on its way, to be gone on with.
#[derive(Debug)]
pub struct Progress(());

/// The tag of a COMPOUND.
struct Tag<'a>(&'a [u8]);

impl<'a> Decode<'a> for Tag<'a> {
    fn decode(input: &mut Decoder<'a>) -> Result<Self, DecodeError> {
        Ok(Tag(input.opaque(1024)?))
    }
}

pub(super) fn run<'a>(call: &Call<'a>, out: &mut Encoder<'_>) -> Handled<'a> {
    let tag: Tag<'_> = call.arguments()?;
    out.u32(MINOR_VERS_MISMATCH);
    out.opaque(tag.0);
    out.u32(0);
    Ok(After::NOW)
}

/// What is shown was lost: no operation has a result.
pub(super) fn failed(status: NfsStat3, out: &mut Encoder<'_>) {
    // The numbers of both versions are the same.
    status.encode(out);
    out.opaque(b"");
    out.u32(0);
}
