//! RENEW (RFC 7530 section 16.29): renews the lease of an NFSv4.0 client.

use wire::nfs4::{RenewArgs, RenewRes};
use wire::xdr::{Encode as _, Encoder};

use crate::state::ids::ClientId;
use crate::v4::context::{Compound, Done};

pub(crate) fn run(compound: &mut Compound<'_>, args: &RenewArgs, out: &mut Encoder<'_>) -> Done {
    compound.state().renew(&compound.state_context(), ClientId(args.clientid.0), &compound.peer()?)?;
    RenewRes::Ok(()).encode(out);
    Ok(())
}
