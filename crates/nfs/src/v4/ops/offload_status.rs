//! OFFLOAD_STATUS (RFC 7862 section 15.9): reports the progress of a copy that continues after its reply.

use wire::nfs4::{NfsStat4, OffloadStatusArgs, OffloadStatusOk, OffloadStatusRes};
use wire::xdr::{Encode as _, Encoder};

use crate::state::copies::Phase;
use crate::v4::context::{Compound, Done};

pub(crate) fn run(compound: &mut Compound<'_>, args: &OffloadStatusArgs, out: &mut Encoder<'_>) -> Done {
    let file = compound.file()?;
    let client = compound.session_client().ok_or(NfsStat4::OpNotInSession)?;
    let stateid = compound.stateid(args.stateid)?;
    let progress = compound.state().copy_progress(&client, stateid.into(), file.file_id())?;
    compound.wait_for(file.volume, progress.after);
    let complete = match progress.phase {
        Phase::Ended(end) => Some(end.into()),
        Phase::Running | Phase::Syncing => None,
        Phase::Gone => return Err(NfsStat4::BadStateId.into()),
    };
    OffloadStatusRes::Ok(OffloadStatusOk { count: progress.done, complete }).encode(out);
    Ok(())
}
