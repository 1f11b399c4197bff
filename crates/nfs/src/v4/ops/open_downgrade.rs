//! OPEN_DOWNGRADE (RFC 8881 section 18.18): reduces the access of an open.

use wire::nfs4::{NfsStat4, OpenDowngradeArgs, OpenDowngradeOk, OpenDowngradeRes, share_access};
use wire::xdr::{Encode as _, Encoder};

use crate::state::files::share::Mode;
use crate::state::ids::StateId;
use crate::state::stateids::HeldKind;
use crate::v4::context::{Compound, Done};

pub(crate) fn run(compound: &mut Compound<'_>, args: &OpenDowngradeArgs, out: &mut Encoder<'_>) -> Done {
    let file = compound.file()?.file_id();
    let stateid: StateId = compound.stateid(args.open_stateid)?.into();
    compound.with_held(HeldKind::Open, (file, stateid), args.seqid, out, |compound, entry, out| {
        // Requests for delegations have no meaning here.
        let access = args.share_access & !share_access::WANT_DELEG_MASK;
        let mode = Mode::new(access, args.share_deny).ok_or(NfsStat4::Inval)?;
        let stateid = if compound.is_retry_after_restart(entry, stateid, || entry.mode() == Some(mode)) {
            entry.stateid()
        } else {
            compound.state().verify(entry, stateid)?;
            let (stateid, token) = compound.state().downgrade(&compound.state_context(), entry, mode)?;
            compound.wait_for_token(token);
            stateid
        };
        compound.current_stateid = Some(stateid.into());
        OpenDowngradeRes::Ok(OpenDowngradeOk { open_stateid: stateid.into() }).encode(out);
        Ok(())
    })
}
