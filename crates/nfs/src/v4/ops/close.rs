//! CLOSE (RFC 8881 section 18.2): an owner does not need a file any more; its locks there go too.

use wire::nfs4::{CloseArgs, CloseOk, CloseRes, NfsStat4, Stateid4};
use wire::xdr::{Encode as _, Encoder};

use crate::state::ids::StateId;
use crate::v4::context::{Compound, Done};
use crate::v4::state::caller;

pub(crate) fn run(compound: &mut Compound<'_>, args: &CloseArgs, out: &mut Encoder<'_>) -> Done {
    let file = compound.file()?.file_id();
    let stateid: StateId = compound.stateid(args.open_stateid)?.into();
    let client = compound.session_client();
    if compound.is_given_up(stateid) {
        compound.current_stateid = None;
        CloseRes::Ok(CloseOk { open_stateid: Stateid4::INVALID }).encode(out);
        return Ok(());
    }
    let holding = compound.state().open_of(&compound.ask(), caller(client.as_ref()), stateid, file)?;
    let open = holding.as_open().ok_or(NfsStat4::BadStateId)?;
    compound.in_turn(&open.owner.turns, args.seqid, out, |compound, out| {
        compound.state().verify(&holding, stateid)?;
        let (stateid, kept) = compound.state().close(&compound.ask(), &holding)?;
        compound.wait_for_kept(kept);
        let open_stateid = if compound.minor == 0 { stateid.into() } else { Stateid4::INVALID };
        compound.current_stateid = None;
        CloseRes::Ok(CloseOk { open_stateid }).encode(out);
        Ok(())
    })
}
