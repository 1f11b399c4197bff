//! GRANTED (XNFS section 10.3): reports a lock to a waiter. This server waits for none.

use wire::nlm4::{Nlm4Stats, Procedure, Res, TestArgs};
use wire::xdr::Encoder;

use crate::call::{Call, Handled, Stop};
use crate::state::DurabilityToken;

pub(super) fn run<'a>(call: &Call<'a>, out: &mut Encoder<'_>) -> Handled<'a> {
    super::reply(call, out, evaluate(call)?)
}

pub(super) fn message<'a>(call: &Call<'a>, _: &mut Encoder<'_>) -> Handled<'a> {
    super::call_back(call, Procedure::GrantedRes, evaluate(call)?)
}

fn evaluate<'a>(call: &Call<'a>) -> Result<(Res<'a>, Option<DurabilityToken>), Stop> {
    let args: TestArgs<'a> = call.arguments()?;
    super::res(args.cookie, Ok((Nlm4Stats::Denied, None)))
}
