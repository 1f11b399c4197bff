//! FREE_ALL (XNFS section 10.3): a client that is not monitored restarted; frees all that it held.

use wire::nlm4::Notify;
use wire::xdr::Encoder;

use crate::call::{Call, Handled, Stop};

use super::Rejection;

pub(super) fn run<'a>(call: &Call<'a>, _: &mut Encoder<'_>) -> Handled<'a> {
    let args: Notify<'_> = call.arguments()?;
    super::admitted(call)?;
    let (context, origin) = (super::context(call), super::origin(call));
    let freed = super::state(call).free_all(&context, origin, args.name.as_bytes());
    match freed.map_err(Rejection::from) {
        Ok(token) => Ok(super::after(call, token)),
        Err(Rejection::Stop(stop)) => Err(stop),
        // The procedure has no result to report it in.
        Err(Rejection::Stat(_)) => Err(Stop::Failed),
    }
}
