//! OPEN_CONFIRM (RFC 7530 section 16.18): confirms that an NFSv4.0 open owner is not from a replayed old request.

use wire::nfs4::{OpenConfirmArgs, OpenConfirmOk, OpenConfirmRes};
use wire::xdr::{Encode as _, Encoder};

use crate::state::stateids::HeldKind;
use crate::v4::context::{Compound, Done};

pub(crate) fn run(compound: &mut Compound<'_>, args: &OpenConfirmArgs, out: &mut Encoder<'_>) -> Done {
    let file = compound.file()?.file_id();
    let stateid = args.open_stateid.into();
    compound.with_held(HeldKind::Open, (file, stateid), args.seqid, out, |compound, entry, out| {
        compound.state().verify(entry, stateid)?;
        let stateid = compound.state().confirm_open(&compound.state_context(), entry)?;
        OpenConfirmRes::Ok(OpenConfirmOk { open_stateid: stateid.into() }).encode(out);
        Ok(())
    })
}
