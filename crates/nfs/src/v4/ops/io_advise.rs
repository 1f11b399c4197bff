//! IO_ADVISE (RFC 7862 section 15.5): accepts hints and follows none; the cache watches accesses instead.

use wire::nfs4::{Bitmap4, IoAdviseArgs, IoAdviseOk, IoAdviseRes, NfsStat4};
use wire::xdr::{Encode as _, Encoder};

use crate::state::stateids::IoMode;
use crate::v4::context::{Compound, Done};
use crate::v4::regular;
use crate::v4::state::check_io;

pub(crate) fn run(compound: &mut Compound<'_>, args: &IoAdviseArgs, out: &mut Encoder<'_>) -> Done {
    let file = compound.object_or(NfsStat4::WrongType)?;
    regular::check(compound, &file)?;
    let stateid = compound.stateid(args.stateid)?;
    drop(check_io(compound, stateid, &file, IoMode::Read)?);
    IoAdviseRes::Ok(IoAdviseOk { hints: Bitmap4::EMPTY }).encode(out);
    Ok(())
}
