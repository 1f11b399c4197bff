//! DESTROY_CLIENTID (RFC 8881 section 18.50).

use wire::nfs4::{DestroyClientIdArgs, DestroyClientIdRes};
use wire::xdr::{Encode as _, Encoder};

use crate::state::ids::ClientId;
use crate::v4::context::{Compound, Done};

pub(crate) fn run(compound: &mut Compound<'_>, args: &DestroyClientIdArgs, out: &mut Encoder<'_>) -> Done {
    let (id, peer) = (ClientId(args.clientid.0), compound.peer()?);
    compound.state().destroy_client_id(&compound.state_context(), id, &peer)?;
    DestroyClientIdRes::Ok(()).encode(out);
    Ok(())
}
