//! CLOSE (RFC 8881 section 18.2): ends an open, and the locks that depend on it.

use wire::nfs4::{CloseArgs, CloseOk, CloseRes, Stateid4};
use wire::xdr::{Encode as _, Encoder};

use crate::state::ids::StateId;
use crate::state::stateids::HeldKind;
use crate::v4::context::{Compound, Done};

pub(crate) fn run(compound: &mut Compound<'_>, args: &CloseArgs, out: &mut Encoder<'_>) -> Done {
    let file = compound.file()?.file_id();
    let stateid: StateId = compound.stateid(args.open_stateid)?.into();
    if compound.is_release_retry(stateid) {
        compound.current_stateid = None;
        CloseRes::Ok(CloseOk { open_stateid: Stateid4::INVALID }).encode(out);
        return Ok(());
    }
    compound.with_held(HeldKind::Open, (file, stateid), args.seqid, out, |compound, entry, out| {
        compound.state().verify(entry, stateid)?;
        let (stateid, token) = compound.state().close(&compound.state_context(), entry)?;
        compound.wait_for_token(token);
        let open_stateid = if compound.minor == 0 { stateid.into() } else { Stateid4::INVALID };
        compound.current_stateid = None;
        CloseRes::Ok(CloseOk { open_stateid }).encode(out);
        Ok(())
    })
}
