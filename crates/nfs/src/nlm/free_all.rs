//! FREE_ALL (XNFS section 10.3): a client that is not monitored restarted; it has nothing any more.

use wire::nlm4::Notify;
use wire::xdr::Encoder;

use crate::call::{Call, Handled, Stop};

use super::Refused;

pub(super) fn run<'a>(call: &Call<'a>, _: &mut Encoder<'_>) -> Handled<'a> {
    let args: Notify<'_> = call.arguments()?;
    let freed = super::state(call).free_all(&super::context(call), call.client(), args.name.as_bytes());
    match freed.map_err(Refused::from) {
        Ok(kept) => Ok(super::after(call, kept)),
        Err(Refused::Stop(stop)) => Err(stop),
        // There is no result to say it in.
        Err(Refused::Stat(_)) => Err(Stop::Failed),
    }
}
