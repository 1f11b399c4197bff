//! UNLOCK (XNFS section 10.3): frees a range, whether it was locked or not.

use wire::nlm4::{Nlm4Stats, Procedure, Res, UnlockArgs};
use wire::xdr::Encoder;

use crate::call::{Call, Handled, Stop};
use crate::state::DurabilityToken;
use crate::state::hosts::Requester;

use super::Done;

pub(super) fn run<'a>(call: &Call<'a>, out: &mut Encoder<'_>) -> Handled<'a> {
    super::reply(call, out, evaluate(call)?)
}

pub(super) fn message<'a>(call: &Call<'a>, _: &mut Encoder<'_>) -> Handled<'a> {
    super::call_back(call, Procedure::UnlockRes, evaluate(call)?)
}

fn evaluate<'a>(call: &Call<'a>) -> Result<(Res<'a>, Option<DurabilityToken>), Stop> {
    let args: UnlockArgs<'a> = call.arguments()?;
    super::res(args.cookie, unlock(call, &args))
}

fn unlock(call: &Call<'_>, args: &UnlockArgs<'_>) -> Done {
    let lock = &args.alock;
    let file = super::object(call, lock.fh)?.file_id();
    let (range, owner) = (super::range(lock)?, super::owner(lock));
    let Some(client) = super::known(call, lock.caller_name) else { return Ok((Nlm4Stats::Granted, None)) };
    let requester = Requester { client: &client, file, owner: &owner };
    let token = super::state(call).unlock_for_host(&super::context(call), requester, range)?;
    Ok((Nlm4Stats::Granted, token))
}
