//! CANCEL (XNFS section 10.3): ends a wait for a lock.

use wire::nlm4::{CancelArgs, Nlm4Stats, Procedure, Res};
use wire::xdr::Encoder;

use crate::call::{Call, Handled, Stop};
use crate::state::DurabilityToken;
use crate::state::hosts::Requester;

use super::Done;

pub(super) fn run<'a>(call: &Call<'a>, out: &mut Encoder<'_>) -> Handled<'a> {
    super::reply(call, out, evaluate(call)?)
}

pub(super) fn message<'a>(call: &Call<'a>, _: &mut Encoder<'_>) -> Handled<'a> {
    super::call_back(call, Procedure::CancelRes, evaluate(call)?)
}

fn evaluate<'a>(call: &Call<'a>) -> Result<(Res<'a>, Option<DurabilityToken>), Stop> {
    let args: CancelArgs<'a> = call.arguments()?;
    super::res(args.cookie, cancel(call, &args))
}

/// Denied if there is no such wait.
fn cancel(call: &Call<'_>, args: &CancelArgs<'_>) -> Done {
    let lock = &args.alock;
    let file = super::object(call, lock.fh)?.file_id();
    let (range, owner) = (super::range(lock)?, super::owner(lock));
    let Some(client) = super::known(call, lock.caller_name) else { return Ok((Nlm4Stats::Denied, None)) };
    let requester = Requester { client: &client, file, owner: &owner };
    let (waited, token) = super::state(call).cancel(&super::context(call), requester, range)?;
    Ok((if waited { Nlm4Stats::Granted } else { Nlm4Stats::Denied }, token))
}
