//! RELEASE_LOCKOWNER (RFC 7530 section 16.37): forgets an NFSv4.0 lock owner.

use wire::nfs4::{ReleaseLockownerArgs, ReleaseLockownerRes};
use wire::xdr::{Encode as _, Encoder};

use crate::v4::context::{Compound, Done};

pub(crate) fn run(
    compound: &mut Compound<'_>,
    args: &ReleaseLockownerArgs<'_>,
    out: &mut Encoder<'_>,
) -> Done {
    let client = compound.client(args.lock_owner.clientid)?;
    compound.state().release_lock_owner(&compound.state_context(), &client, args.lock_owner.owner.0)?;
    ReleaseLockownerRes::Ok(()).encode(out);
    Ok(())
}
