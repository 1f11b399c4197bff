//! OPEN_CONFIRM (RFC 7530 section 16.18): an open owner of NFSv4.0 is not one of a repeated old request.

use wire::nfs4::{NfsStat4, OpenConfirmArgs, OpenConfirmOk, OpenConfirmRes};
use wire::xdr::{Encode as _, Encoder};

use crate::state::Caller;
use crate::v4::context::{Compound, Done};

pub(crate) fn run(compound: &mut Compound<'_>, args: &OpenConfirmArgs, out: &mut Encoder<'_>) -> Done {
    let file = compound.file()?.file_id();
    let stateid = args.open_stateid.into();
    let holding = compound.state().open_of(&compound.ask(), Caller::Zero, stateid, file)?;
    let open = holding.as_open().ok_or(NfsStat4::BadStateId)?;
    compound.in_turn(&open.owner.turns, args.seqid, out, |compound, out| {
        compound.state().verify(&holding, stateid)?;
        let stateid = compound.state().confirm_open(&compound.ask(), &holding)?;
        OpenConfirmRes::Ok(OpenConfirmOk { open_stateid: stateid.into() }).encode(out);
        Ok(())
    })
}
