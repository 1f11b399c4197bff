//! OFFLOAD_CANCEL (RFC 7862 section 15.8): cancels a copy that continues after its reply. What was copied stays.

use wire::nfs4::{NfsStat4, OffloadCancelArgs, OffloadCancelRes};
use wire::xdr::{Encode as _, Encoder};

use crate::v4::context::{Compound, Done};

pub(crate) fn run(compound: &mut Compound<'_>, args: &OffloadCancelArgs, out: &mut Encoder<'_>) -> Done {
    let file = compound.file()?;
    let client = compound.session_client().ok_or(NfsStat4::OpNotInSession)?;
    let stateid = compound.stateid(args.stateid)?;
    let token =
        compound.state().cancel_copy(&compound.state_context(), &client, stateid.into(), file.file_id())?;
    compound.wait_for_token(token);
    OffloadCancelRes::Ok(()).encode(out);
    Ok(())
}
