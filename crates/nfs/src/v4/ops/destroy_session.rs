//! DESTROY_SESSION (RFC 8881 section 18.37).

use wire::nfs4::{DestroySessionArgs, DestroySessionRes, NfsStat4};
use wire::xdr::{Encode as _, Encoder};

use crate::state::ids::SessionId;
use crate::v4::context::{Compound, Done};

pub(crate) fn run(compound: &mut Compound<'_>, args: &DestroySessionArgs, out: &mut Encoder<'_>) -> Done {
    let id = SessionId(args.sessionid.0);
    let own = compound.slot.as_ref().is_some_and(|slot| slot.session.id == id);
    if own && !compound.is_last() {
        return Err(NfsStat4::NotOnlyOp.into());
    }
    let token = compound.state().destroy_session(&compound.state_context(), id, &compound.peer()?)?;
    compound.wait_for_token(token);
    DestroySessionRes::Ok(()).encode(out);
    Ok(())
}
