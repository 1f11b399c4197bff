//! DEALLOCATE (RFC 7862 section 15.4): punches a hole.

use wire::nfs4::{DeallocateArgs, DeallocateRes};
use wire::xdr::{Encode as _, Encoder};

use crate::v4::context::{Compound, Done};
use crate::v4::ops::allocate::writable;

pub(crate) fn run(compound: &mut Compound<'_>, args: &DeallocateArgs, out: &mut Encoder<'_>) -> Done {
    let file = compound.changeable()?;
    let _in_flight = writable(compound, &file, args.stateid, args.offset, args.length)?;
    compound.note_change();
    // Each part is one journal entry.
    while compound.parts.done < args.length {
        compound.begin_part()?;
        let done = compound.parts.done;
        let (offset, length) = (args.offset + done, args.length - done);
        let punched = file.volume.deallocate(&file.request(), file.ino, offset, length);
        compound.parts.done += compound.answered(file.volume, punched)?.count;
    }
    DeallocateRes::Ok(()).encode(out);
    Ok(())
}
