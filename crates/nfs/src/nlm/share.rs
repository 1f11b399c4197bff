//! SHARE (XNFS section 10.3): opens a file with a share reservation. NFSv4 opens and shares respect each other.

use wire::nlm4::{Nlm4Share, Nlm4Stats, ShareArgs, ShareRes};
use wire::xdr::Encoder;

use crate::call::{Call, Handled};
use crate::state::files::share::Mode;
use crate::state::hosts::Requester;

use super::Done;

pub(super) fn run<'a>(call: &Call<'a>, out: &mut Encoder<'_>) -> Handled<'a> {
    let args: ShareArgs<'a> = call.arguments()?;
    let (stat, token) = super::status_of(share(call, &args))?;
    super::reply(call, out, (ShareRes { cookie: args.cookie, stat, sequence: 0 }, token))
}

fn share(call: &Call<'_>, args: &ShareArgs<'_>) -> Done {
    let Nlm4Share { caller_name, fh, oh, mode, access } = args.share;
    let object = super::object(call, fh)?;
    let mode = Mode::share(access.code(), mode.code()).ok_or(Nlm4Stats::Failed)?;
    super::check_access(&object, super::READ_OR_WRITE)?;
    if mode.writes() || mode.denies() {
        super::check_exclusion(&object)?;
    }
    // A SHARE does not carry the state of the status monitor.
    let client = super::client(call, caller_name, 0, &object)?;
    let requester = Requester { client: &client, file: object.file_id(), owner: oh.as_bytes() };
    let token = super::state(call).share(&super::context(call), requester, mode, args.reclaim)?;
    Ok((Nlm4Stats::Granted, token))
}
