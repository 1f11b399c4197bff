//! RECLAIM_COMPLETE (RFC 8881 section 18.51): ends a client's reclaims. A restart loses nothing, so there is nothing to
//! reclaim, but every new client sends it.

use wire::nfs4::{NfsStat4, ReclaimCompleteArgs, ReclaimCompleteRes};
use wire::xdr::{Encode as _, Encoder};

use crate::state::{SlotGuard, StateError};
use crate::v4::context::{Compound, Done};

pub(crate) fn run(compound: &mut Compound<'_>, args: &ReclaimCompleteArgs, out: &mut Encoder<'_>) -> Done {
    if args.one_fs {
        // For a migrated file system; this server has none.
        compound.target()?;
    } else {
        let client = compound.session_client().ok_or(NfsStat4::OpNotInSession)?;
        let again = compound.slot.as_ref().is_some_and(SlotGuard::may_have_run_before);
        match compound.state().reclaim_complete(&compound.state_context(), &client) {
            Ok(token) => compound.wait_for_token(token),
            // It succeeded before a restart, and the reply was lost.
            Err(StateError::AlreadyReclaimed) if again => {}
            Err(error) => return Err(error.into()),
        }
    }
    ReclaimCompleteRes::Ok(()).encode(out);
    Ok(())
}
