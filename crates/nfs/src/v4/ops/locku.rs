//! LOCKU (RFC 8881 section 18.12): unlocks a range.

use wire::nfs4::{LockuArgs, LockuOk, LockuRes, NfsStat4};
use wire::xdr::{Encode as _, Encoder};

use crate::state::ids::StateId;
use crate::state::locks::ranges::Range;
use crate::state::stateids::HeldKind;
use crate::v4::context::{Compound, Done};

pub(crate) fn run(compound: &mut Compound<'_>, args: &LockuArgs, out: &mut Encoder<'_>) -> Done {
    let file = compound.file()?.file_id();
    let stateid: StateId = compound.stateid(args.lock_stateid)?.into();
    compound.with_held(HeldKind::Locks, (file, stateid), args.seqid, out, |compound, entry, out| {
        let range = Range::new(args.offset, args.length).ok_or(NfsStat4::Inval)?;
        if compound.is_retry_after_restart(entry, stateid, || !compound.state().has_any_lock(entry, range)) {
            return unlocked(compound, entry.stateid(), out);
        }
        compound.state().verify(entry, stateid)?;
        let (stateid, token) = compound.state().unlock(&compound.state_context(), entry, range)?;
        compound.wait_for_token(token);
        unlocked(compound, stateid, out)
    })
}

fn unlocked(compound: &mut Compound<'_>, stateid: StateId, out: &mut Encoder<'_>) -> Done {
    compound.current_stateid = Some(stateid.into());
    LockuRes::Ok(LockuOk { lock_stateid: stateid.into() }).encode(out);
    Ok(())
}
