//! BACKCHANNEL_CTL (RFC 8881 section 18.33): changes how callbacks of a session are made.

use std::sync::Arc;

use wire::nfs4::{BackchannelCtlArgs, BackchannelCtlRes, NfsStat4};
use wire::xdr::{Encode as _, Encoder};

use crate::v4::context::{Compound, Done};
use crate::v4::ops::create_session::security;

pub(crate) fn run(compound: &mut Compound<'_>, args: &BackchannelCtlArgs<'_>, out: &mut Encoder<'_>) -> Done {
    let session = compound.slot.as_ref().map(|slot| Arc::clone(&slot.session));
    let session = session.ok_or(NfsStat4::OpNotInSession)?;
    let (context, security) = (compound.state_context(), security(&args.sec_parms));
    let by = (&*session, &compound.peer()?);
    let token = compound.state().backchannel_ctl(&context, by, args.cb_program, security)?;
    compound.wait_for_token(token);
    BackchannelCtlRes::Ok(()).encode(out);
    Ok(())
}
