//! UNSHARE (XNFS section 10.3): ends the share reservations of an owner.

use wire::nlm4::{Nlm4Share, Nlm4Stats, ShareArgs, ShareRes};
use wire::xdr::Encoder;

use crate::call::{Call, Handled};
use crate::state::hosts::Requester;

use super::Done;

pub(super) fn run<'a>(call: &Call<'a>, out: &mut Encoder<'_>) -> Handled<'a> {
    let args: ShareArgs<'a> = call.arguments()?;
    let (stat, token) = super::status_of(unshare(call, &args))?;
    super::reply(call, out, (ShareRes { cookie: args.cookie, stat, sequence: 0 }, token))
}

fn unshare(call: &Call<'_>, args: &ShareArgs<'_>) -> Done {
    let Nlm4Share { caller_name, fh, oh, .. } = args.share;
    let file = super::object(call, fh)?.file_id();
    let Some(client) = super::known(call, caller_name) else { return Ok((Nlm4Stats::Granted, None)) };
    let requester = Requester { client: &client, file, owner: oh.as_bytes() };
    Ok((Nlm4Stats::Granted, super::state(call).unshare(&super::context(call), requester)?))
}
