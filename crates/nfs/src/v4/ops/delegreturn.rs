//! DELEGRETURN (RFC 8881 section 18.6): returns a delegation.

use wire::nfs4::{DelegreturnArgs, DelegreturnRes};
use wire::xdr::{Encode as _, Encoder};

use crate::state::ids::StateId;
use crate::v4::context::{Compound, Done};

pub(crate) fn run(compound: &mut Compound<'_>, args: &DelegreturnArgs, out: &mut Encoder<'_>) -> Done {
    let file = compound.file()?.file_id();
    let stateid: StateId = compound.stateid(args.deleg_stateid)?.into();
    if compound.is_release_retry(stateid) {
        DelegreturnRes::Ok(()).encode(out);
        return Ok(());
    }
    let client = compound.session_client();
    let context = compound.state_context();
    compound.state().return_stateid(&context, compound.caller(client.as_ref())?, stateid, file)?;
    DelegreturnRes::Ok(()).encode(out);
    Ok(())
}
