//! LOCK and NM_LOCK (XNFS section 10.3): a lock, or a position in the queue for it.

use wire::nlm4::{LockArgs, Nlm4Stats, Procedure, Res};
use wire::xdr::Encoder;

use crate::call::{Call, Handled, Stop};
use crate::state::DurabilityToken;
use crate::state::hosts::Requester;
use crate::state::locks::{LockError, LockRequest};

use super::Done;

pub(super) fn run<'a>(call: &Call<'a>, out: &mut Encoder<'_>) -> Handled<'a> {
    super::reply(call, out, evaluate(call)?)
}

pub(super) fn message<'a>(call: &Call<'a>, _: &mut Encoder<'_>) -> Handled<'a> {
    super::call_back(call, Procedure::LockRes, evaluate(call)?)
}

fn evaluate<'a>(call: &Call<'a>) -> Result<(Res<'a>, Option<DurabilityToken>), Stop> {
    let args: LockArgs<'a> = call.arguments()?;
    super::res(args.cookie, lock(call, &args))
}

fn lock(call: &Call<'_>, args: &LockArgs<'_>) -> Done {
    let lock = &args.alock;
    let object = super::object(call, lock.fh)?;
    if args.exclusive {
        super::check_exclusion(&object)?;
    } else {
        super::check_access(&object, super::READ_OR_WRITE)?;
    }
    let (range, kind) = (super::range(lock)?, super::kind(args.exclusive));
    let wanted = LockRequest { range, kind, waits: args.block && !args.reclaim };
    let owner = super::owner(lock);
    let client = super::client(call, lock.caller_name, args.state, &object)?;
    let requester = Requester { client: &client, file: object.file_id(), owner: &owner };
    match super::state(call).lock_for_host(&super::context(call), requester, &wanted, args.reclaim) {
        Ok(token) => Ok((Nlm4Stats::Granted, Some(token))),
        Err(LockError::Denied(denied)) => {
            Ok((if denied.waits { Nlm4Stats::Blocked } else { Nlm4Stats::Denied }, None))
        }
        Err(LockError::Failed(error)) => Err(error.into()),
    }
}
