//! CLONE (RFC 7862 section 15.13): makes a range of the current file share the data of a range of the saved one.

use volume::limits::CLONE_BLOCK_BYTES;
use wire::nfs4::{CloneArgs, CloneRes, NfsStat4, Stateid4};
use wire::xdr::{Encode as _, Encoder};

use crate::call::Object;
use crate::state::delegations::in_flight::InFlightModification;
use crate::state::stateids::IoMode;
use crate::v4::context::{Compound, Done, OpStop};
use crate::v4::regular;
use crate::v4::state::check_io;

pub(crate) fn run(compound: &mut Compound<'_>, args: &CloneArgs, out: &mut Encoder<'_>) -> Done {
    let (offset, at) = (args.src_offset, args.dst_offset);
    let Copied { from, to, size, in_flight: _in_flight } =
        check_files(compound, args.src_stateid, args.dst_stateid)?;
    // A target that is the source itself grows by the parts that are done.
    if compound.parts.is_first() {
        let rest = size.checked_sub(offset).ok_or(NfsStat4::Inval)?;
        let count = if args.count == 0 { rest } else { args.count };
        let is_whole = count == rest || count < rest && count.is_multiple_of(CLONE_BLOCK_BYTES);
        if !is_whole || !offset.is_multiple_of(CLONE_BLOCK_BYTES) || !at.is_multiple_of(CLONE_BLOCK_BYTES) {
            return Err(NfsStat4::Inval.into());
        }
        compound.parts.wanted = count;
    }
    let count = compound.parts.wanted;
    compound.note_change();
    // Each part is one journal entry.
    while compound.parts.done < count {
        compound.begin_part()?;
        let done = compound.parts.done;
        let (source, target) = ((from.ino, offset + done), (to.ino, at + done));
        // Only the whole range ends at multiples of a block. Parts end between mappings.
        let part = to.volume.copy_range(&to.request(), source, target, count - done);
        compound.parts.done += compound.answered(to.volume, part)?.count;
    }
    CloneRes::Ok(()).encode(out);
    Ok(())
}

/// The two files of CLONE and COPY, and the size of the source.
pub(crate) struct Copied<'c> {
    pub(crate) from: Object<'c>,
    pub(crate) to: Object<'c>,
    pub(crate) size: u64,
    /// Held until all is copied.
    pub(crate) in_flight: InFlightModification<'c>,
}

/// Checks that the saved file may be read and the current one written, by their types and stateids.
///
/// # Errors
/// NFS4ERR_XDEV between volumes; NFS4ERR_WRONG_TYPE and the like.
pub(crate) fn check_files<'c>(
    compound: &mut Compound<'c>,
    from_stateid: Stateid4,
    to_stateid: Stateid4,
) -> Result<Copied<'c>, OpStop> {
    let to = compound.changeable()?;
    let from = compound.saved_object_or(NfsStat4::Xdev)?;
    if !from.is_beside(&to) {
        return Err(NfsStat4::Xdev.into());
    }
    let size = regular::check(compound, &from)?.size;
    regular::check(compound, &to)?;
    // The current stateid belongs to its own filehandle.
    let from_stateid = compound.saved_stateid(from_stateid)?;
    let to_stateid = compound.stateid(to_stateid)?;
    drop(check_io(compound, from_stateid, &from, IoMode::Read)?);
    let in_flight = check_io(compound, to_stateid, &to, IoMode::Write)?;
    Ok(Copied { from, to, size, in_flight })
}
