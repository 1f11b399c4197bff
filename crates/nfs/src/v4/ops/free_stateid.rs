//! FREE_STATEID (RFC 8881 section 18.38): frees a stateid without locks, or one that was revoked.

use wire::nfs4::{FreeStateidArgs, FreeStateidRes, NfsStat4};
use wire::xdr::{Encode as _, Encoder};

use crate::state::ids::StateId;
use crate::v4::context::{Compound, Done};

pub(crate) fn run(compound: &mut Compound<'_>, args: &FreeStateidArgs, out: &mut Encoder<'_>) -> Done {
    let client = compound.session_client().ok_or(NfsStat4::OpNotInSession)?;
    let stateid: StateId = compound.stateid(args.stateid)?.into();
    if !compound.is_release_retry(stateid) {
        compound.state().free_stateid(&compound.state_context(), &client, stateid)?;
    }
    FreeStateidRes::Ok(()).encode(out);
    Ok(())
}
