//! SETCLIENTID_CONFIRM (RFC 7530 section 16.34): confirms an NFSv4.0 client.

use wire::nfs4::{SetClientIdConfirmArgs, SetClientIdConfirmRes};
use wire::xdr::{Encode as _, Encoder};

use crate::state::ids::ClientId;
use crate::v4::context::{Compound, Done};

pub(crate) fn run(compound: &mut Compound<'_>, args: &SetClientIdConfirmArgs, out: &mut Encoder<'_>) -> Done {
    let (id, peer) = (ClientId(args.clientid.0), compound.peer()?);
    let token =
        compound.state().confirm_client_id(&compound.state_context(), id, args.setclientid_confirm, &peer)?;
    if let Some(token) = token {
        compound.wait_for_token(token);
    }
    SetClientIdConfirmRes::Ok(()).encode(out);
    Ok(())
}
