//! LOCK (RFC 8881 section 18.10): locks a range for an owner. LOCKT and LOCKU use parts of this module.

use wire::nfs4::{
    ClientId4, ExistLockOwner4, LockArgs, LockDenied, LockFail, LockOk, LockRes, Locker4, NfsLockType4,
    NfsStat4, OpenToLockOwner4, OwnerId4, StateOwner4,
};
use wire::xdr::{Encode as _, Encoder};

use crate::state::SlotGuard;
use crate::state::clients::client::LockOwnerId;
use crate::state::clients::owner_sequence::OwnerSequence;
use crate::state::ids::{ClientId, FileId, StateId};
use crate::state::locks::ranges::{LockKind, Range};
use crate::state::locks::{Denied, LockError, LockRequest, Locker};
use crate::state::stateids::HeldKind;
use crate::v4::context::{Compound, Done, OpStop};

pub(crate) fn run(compound: &mut Compound<'_>, args: &LockArgs<'_>, out: &mut Encoder<'_>) -> Done {
    let file = compound.file()?.file_id();
    match &args.locker {
        Locker4::OpenOwner(locker) => first(compound, file, args, locker, out),
        Locker4::LockOwner(locker) => further(compound, file, args, locker, out),
    }
}

/// Decodes the request.
fn wanted(args: &LockArgs<'_>) -> Result<LockRequest, OpStop> {
    let range = Range::new(args.offset, args.length).ok_or(NfsStat4::Inval)?;
    Ok(LockRequest { range, kind: kind(args.locktype), waits: args.locktype.is_blocking() })
}

/// The first lock of an owner in a file, under an open.
fn first(
    compound: &mut Compound<'_>,
    file: FileId,
    args: &LockArgs<'_>,
    locker: &OpenToLockOwner4<'_>,
    out: &mut Encoder<'_>,
) -> Done {
    let stateid = compound.stateid(locker.open_stateid)?.into();
    compound.with_held(HeldKind::Open, (file, stateid), locker.open_seqid, out, |compound, open, out| {
        if compound.client(locker.lock_owner.clientid)?.id != open.client.id {
            return Err(NfsStat4::BadStateId.into());
        }
        compound.state().verify(open, stateid)?;
        let wanted = wanted(args)?;
        let now = compound.now.steady;
        let name = locker.lock_owner.owner.0;
        let owner = compound.state().lock_owner(&open.client, name, || OwnerSequence::new(now))?;
        let by = Locker::New { open, owner: &owner };
        if compound.slot.as_ref().is_some_and(SlotGuard::may_have_run_before)
            && let Some(stateid) = compound.state().locked(by, &wanted)
        {
            return locked(compound, stateid, out);
        }
        if lock(compound, args, by, &wanted, out)? {
            owner.sequence.begin_with(locker.lock_seqid);
        }
        Ok(())
    })
}

/// A further lock of an owner with a lock stateid.
fn further(
    compound: &mut Compound<'_>,
    file: FileId,
    args: &LockArgs<'_>,
    locker: &ExistLockOwner4,
    out: &mut Encoder<'_>,
) -> Done {
    let stateid: StateId = compound.stateid(locker.lock_stateid)?.into();
    compound.with_held(HeldKind::Locks, (file, stateid), locker.lock_seqid, out, |compound, entry, out| {
        let wanted = wanted(args)?;
        let by = Locker::Known(entry);
        if compound.is_retry_after_restart(entry, stateid, || compound.state().locked(by, &wanted).is_some())
        {
            return locked(compound, entry.stateid(), out);
        }
        compound.state().verify(entry, stateid)?;
        lock(compound, args, by, &wanted, out).map(drop)
    })
}

/// Locks and writes the result. Returns whether there is a lock.
fn lock(
    compound: &mut Compound<'_>,
    args: &LockArgs<'_>,
    by: Locker<'_>,
    wanted: &LockRequest,
    out: &mut Encoder<'_>,
) -> Result<bool, OpStop> {
    // A restart loses no locks, so only existing ones can be reclaimed.
    if args.reclaim && !compound.state().has_lock(by, wanted) {
        return Err(NfsStat4::NoGrace.into());
    }
    match compound.state().lock(&compound.state_context(), by, wanted) {
        Ok((stateid, token)) => {
            compound.wait_for_token(token);
            locked(compound, stateid, out).map(|()| true)
        }
        Err(LockError::Denied(denied)) => {
            let asking = match by {
                Locker::New { open: entry, .. } | Locker::Known(entry) => entry.client.id,
            };
            LockRes::Err(LockFail::Denied(lock_denied(&denied, asking))).encode(out);
            Ok(false)
        }
        Err(LockError::Failed(error)) => Err(error.into()),
    }
}

fn locked(compound: &mut Compound<'_>, stateid: StateId, out: &mut Encoder<'_>) -> Done {
    compound.current_stateid = Some(stateid.into());
    LockRes::Ok(LockOk { lock_stateid: stateid.into() }).encode(out);
    Ok(())
}

/// Converts the kind of a lock.
pub(crate) fn kind(locktype: NfsLockType4) -> LockKind {
    if locktype.is_exclusive() { LockKind::Write } else { LockKind::Read }
}

/// Encodes a conflict for the client `asking`, which does not learn the id of another client.
pub(crate) fn lock_denied(denied: &Denied, asking: ClientId) -> LockDenied<'_> {
    let locktype = match denied.kind {
        LockKind::Read => NfsLockType4::Read,
        LockKind::Write => NfsLockType4::Write,
    };
    let (LockOwnerId::Nfs4 { client, name } | LockOwnerId::Nlm { client, name }) = &denied.owner;
    let clientid = ClientId4(if *client == asking { client.0 } else { 0 });
    let owner = StateOwner4 { clientid, owner: OwnerId4(name) };
    LockDenied { offset: denied.range.first, length: denied.range.length(), locktype, owner }
}
