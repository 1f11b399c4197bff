//! ALLOCATE (RFC 7862 section 15.1): checks that there is room for a range of a file.

use wire::nfs4::{AllocateArgs, AllocateRes, NfsStat4, Stateid4};
use wire::xdr::{Encode as _, Encoder};

use crate::call::Object;
use crate::state::delegations::in_flight::InFlightModification;
use crate::state::stateids::IoMode;
use crate::v4::context::{Compound, Done, OpStop};
use crate::v4::regular;
use crate::v4::state::check_io;

pub(crate) fn run(compound: &mut Compound<'_>, args: &AllocateArgs, out: &mut Encoder<'_>) -> Done {
    let file = compound.changeable()?;
    let _in_flight = writable(compound, &file, args.stateid, args.offset, args.length)?;
    let allocated = file.volume.allocate(&file.request(), file.ino, args.offset, args.length);
    compound.answered(file.volume, allocated)?;
    compound.note_change();
    AllocateRes::Ok(()).encode(out);
    Ok(())
}

/// Checks that a stateid allows writing a range of a regular file. An empty or overlong range is NFS4ERR_INVAL.
pub(crate) fn writable<'c>(
    compound: &mut Compound<'c>,
    file: &Object<'c>,
    stateid: Stateid4,
    offset: u64,
    length: u64,
) -> Result<InFlightModification<'c>, OpStop> {
    regular::check(compound, file)?;
    let stateid = compound.stateid(stateid)?;
    let in_flight = check_io(compound, stateid, file, IoMode::Write)?;
    if length == 0 || offset.checked_add(length).is_none() {
        Err(NfsStat4::Inval.into())
    } else {
        Ok(in_flight)
    }
}
