//! COPY (RFC 7862 section 15.2), within the server: done before the reply, by sharing what is stored. Of much, less is
//! copied than was asked for; the client goes on behind that.

use wire::nfs4::{CopyArgs, CopyOk, CopyRequirements4, CopyRes, NfsStat4, StableHow4, WriteResponse4};
use wire::xdr::{Encode as _, Encoder};

use crate::v4::clone::{Copied, both};
use crate::v4::context::{Compound, Done};

pub(super) fn run(compound: &mut Compound<'_>, args: &CopyArgs<'_>, out: &mut Encoder<'_>) -> Done {
    if !args.source_server.is_empty() {
        return Err(NfsStat4::NotSupp.into());
    }
    let (offset, at) = (args.src_offset, args.dst_offset);
    let Copied { from, to, size } =
        both(compound, (args.src_stateid, offset), (args.dst_stateid, at), args.count)?;
    if offset > size || offset.checked_add(args.count).is_none_or(|end| end > size) {
        return Err(NfsStat4::Inval.into());
    }
    compound.note_change();
    let copied = to.volume.copy_range(&to.request(), (from.ino, offset), (to.ino, at), args.count);
    let count = compound.answered(to.volume, copied)?.count;
    CopyRes::Ok(CopyOk {
        response: WriteResponse4 {
            callback_id: None,
            count,
            // The reply waits for the journal.
            committed: StableHow4::FileSync,
            writeverf: to.volume.write_verifier().0,
        },
        requirements: CopyRequirements4 { consecutive: true, synchronous: true },
    })
    .encode(out);
    Ok(())
}
