//! The Network Status Monitor, version 1 (XNFS chapter 11), as far as other hosts use it: they report their restarts.
//! Its procedures for programs on the same host are not offered: this server is the only one.

use wire::nsm::{SmName, SmRes, SmStatRes, StatChge};
use wire::rpc::AuthStat;
use wire::xdr::{Encode as _, Encoder};

use crate::call::Operation;
use crate::call::{After, Call, Handled, Stop};
use crate::nlm::{UNAVAILABLE, admitted, after, context, state};
use crate::state::StateError;
use crate::v3::null;

/// The procedures by number ([`wire::nsm::Procedure`]).
pub(crate) static OPERATIONS: [Operation; 7] = [
    null::OPERATION,
    Operation { run: stat, failed: None, changes: false },
    UNAVAILABLE,
    UNAVAILABLE,
    UNAVAILABLE,
    UNAVAILABLE,
    Operation { run: notify, failed: None, changes: false },
];

/// STAT: every host that holds a lock is notified of restarts.
fn stat<'a>(call: &Call<'a>, out: &mut Encoder<'_>) -> Handled<'a> {
    call.arguments::<SmName<'_>>()?;
    SmStatRes { res_stat: SmRes::Succ, state: state(call).monitor_state() }.encode(out);
    Ok(After::NOW)
}

/// NOTIFY: the calling host has restarted, so its locks are freed. Status monitors call from privileged ports; anyone
/// else could free the locks of others.
fn notify<'a>(call: &Call<'a>, _: &mut Encoder<'_>) -> Handled<'a> {
    let args: StatChge<'_> = call.arguments()?;
    admitted(call)?;
    if !call.connection.is_privileged() {
        return Err(Stop::Auth(AuthStat::TooWeak));
    }
    let name = args.mon_name.as_bytes();
    match state(call).host_restarted(&context(call), call.client(), name, args.state) {
        Ok(token) => Ok(after(call, token)),
        Err(StateError::Engine(error)) => {
            crate::status::nfs3(error)?;
            Err(Stop::Failed)
        }
        Err(_) => Err(Stop::Later),
    }
}
