//! The Network Lock Manager, version 4 (XNFS chapter 10): locks and share reservations of NFSv3. One procedure per file,
//! each with `run`, which replies, and `message`, which has the host called with the result (`*_RES`) instead.
//!
//! What is locked is kept with what NFSv4 locks, see [`crate::state::hosts`], so that both see each other's. Handles
//! are resolved as NFSv3 does it, under the same rules of exports.

use std::sync::Arc;

use volume::attributes::FileType;
use volume::request::Durable;
use volume::results::AccessMask;
use wire::nfs3::{FileHandle3, NfsStat3};
use wire::nlm4::{HostName, Netobj, Nlm4Lock, Nlm4Stats, Procedure, Res};
use wire::rpc::Credential;
use wire::xdr::{Encode, Encoder};

use crate::call::Operation;
use crate::call::{After, Call, Handled, Object, Stop};
use crate::state::clients::client::{Client, Host};
use crate::state::hosts::owner_name;
use crate::state::locks::ranges::{LockKind, Range};
use crate::state::{Context, DurabilityToken, SharedState, StateError};
use crate::status;
use crate::v3::null;

mod cancel;
mod free_all;
mod granted;
mod lock;
mod share;
mod test;
mod unlock;
mod unshare;

const fn operation(run: for<'a> fn(&Call<'a>, &mut Encoder<'_>) -> Handled<'a>) -> Operation {
    Operation { run, failed: None, changes: false }
}

/// The answer to a message; this server sends none.
const IGNORED: Operation = null::OPERATION;
/// Not for the network, as SM_NOTIFY: hosts tell the status monitor, which is here as well.
pub(crate) const UNAVAILABLE: Operation = operation(|_, _| Err(Stop::Unavailable));

/// The procedures in the order of their numbers ([`Procedure`]).
pub(crate) static OPERATIONS: [Operation; 24] = [
    null::OPERATION,
    operation(test::run),
    operation(lock::run),
    operation(cancel::run),
    operation(unlock::run),
    operation(granted::run),
    operation(test::message),
    operation(lock::message),
    operation(cancel::message),
    operation(unlock::message),
    operation(granted::message),
    IGNORED,
    IGNORED,
    IGNORED,
    IGNORED,
    IGNORED,
    UNAVAILABLE,
    UNAVAILABLE,
    UNAVAILABLE,
    UNAVAILABLE,
    operation(share::run),
    operation(unshare::run),
    // NM_LOCK. Whoever holds a lock is told of restarts, as far as that is possible.
    operation(lock::run),
    operation(free_all::run),
];

/// Why there is no result of a procedure's own.
enum Rejection {
    Stat(Nlm4Stats),
    Stop(Stop),
}

impl From<Nlm4Stats> for Rejection {
    fn from(stat: Nlm4Stats) -> Rejection {
        Rejection::Stat(stat)
    }
}

impl From<Stop> for Rejection {
    fn from(stop: Stop) -> Rejection {
        Rejection::Stop(stop)
    }
}

impl From<StateError> for Rejection {
    fn from(error: StateError) -> Rejection {
        match error {
            // The client is being removed.
            StateError::Expired => Stop::Busy.into(),
            // A delegation is being recalled. This is how NLM says "in a few seconds".
            StateError::TryLater => Nlm4Stats::DeniedGracePeriod.into(),
            StateError::LimitReached => Nlm4Stats::DeniedNolocks.into(),
            StateError::NothingToReclaim | StateError::ShareDenied => Nlm4Stats::Denied.into(),
            StateError::Engine(error) => engine(error),
            _ => Nlm4Stats::Failed.into(),
        }
    }
}

/// What to say when the engine does not do something.
fn engine(error: volume::request::Error) -> Rejection {
    match status::nfs3(error) {
        Err(retry) => Stop::from(retry).into(),
        Ok(NfsStat3::Stale | NfsStat3::BadHandle) => Nlm4Stats::StaleFh.into(),
        Ok(NfsStat3::NoSpc | NfsStat3::Acces) => Nlm4Stats::DeniedNolocks.into(),
        Ok(NfsStat3::Rofs) => Nlm4Stats::Rofs.into(),
        Ok(_) => Nlm4Stats::Failed.into(),
    }
}

/// What a procedure did: how it ended, and what telling that waits for.
type Done = Result<(Nlm4Stats, Option<DurabilityToken>), Rejection>;

/// The result that has nothing but a status.
fn res<'a>(cookie: Netobj<'a>, done: Done) -> Result<(Res<'a>, Option<DurabilityToken>), Stop> {
    let (stat, token) = settle(done)?;
    Ok((Res { cookie, stat }, token))
}

/// How it ended, a refusal included.
fn settle(done: Done) -> Result<(Nlm4Stats, Option<DurabilityToken>), Stop> {
    match done {
        Ok(done) => Ok(done),
        Err(Rejection::Stat(stat)) => Ok((stat, None)),
        Err(Rejection::Stop(stop)) => Err(stop),
    }
}

/// Replies with a result.
fn reply<'a>(
    call: &Call<'a>,
    out: &mut Encoder<'_>,
    (result, token): (impl Encode, Option<DurabilityToken>),
) -> Handled<'a> {
    result.encode(out);
    Ok(after(call, token))
}

/// Has the host called with a result; the reply is empty.
fn call_back<'a>(
    call: &Call<'a>,
    procedure: Procedure,
    (result, token): (impl Encode, Option<DurabilityToken>),
) -> Handled<'a> {
    let mut bytes = Vec::with_capacity(64);
    result.encode(&mut Encoder::new(&mut bytes));
    state(call).call_back(&context(call), call.client(), procedure.code(), bytes, token);
    Ok(after(call, token))
}

pub(crate) fn after<'a>(call: &Call<'a>, token: Option<DurabilityToken>) -> After<'a> {
    call.changed.set(token.is_some());
    After(token.and_then(|token| call.service.volume(token.volume).map(|volume| (volume, token.after))))
}

pub(crate) fn state<'a>(call: &Call<'a>) -> &'a SharedState {
    &call.service.shared.state
}

pub(crate) fn context<'a>(call: &Call<'a>) -> Context<'a> {
    call.service.context(call.now)
}

/// What a handle names.
fn object<'a>(call: &Call<'a>, handle: Netobj<'a>) -> Result<Object<'a>, Rejection> {
    let handle = FileHandle3::new(handle.as_bytes()).ok_or(Nlm4Stats::StaleFh)?;
    call.object(handle).map_err(|stop| match stop {
        Stop::Status(NfsStat3::Acces) => Nlm4Stats::DeniedNolocks.into(),
        Stop::Status(_) => Nlm4Stats::StaleFh.into(),
        stop => stop.into(),
    })
}

/// Whether the caller may lock a file: a regular one, that it may read or write, or owns, as it may have changed the mode
/// after it opened the file.
fn check_access(call: &Call<'_>, object: &Object<'_>) -> Result<(), Rejection> {
    let request = object.request();
    let wanted = AccessMask(AccessMask::READ | AccessMask::MODIFY);
    let promised =
        object.volume.access(&request, object.ino, wanted).map_err(|failure| engine(failure.error))?;
    let attributes = promised.value.attributes;
    let owns = matches!(call.header.credential, Credential::Sys(caller) if caller.uid == attributes.uid);
    match attributes.file_type {
        FileType::Regular if promised.value.granted.0 != 0 || owns => Ok(()),
        _ => Err(Nlm4Stats::DeniedNolocks.into()),
    }
}

/// The range of a lock; a length of 0 reaches to the end.
fn range(lock: &Nlm4Lock<'_>) -> Result<Range, Rejection> {
    let length = if lock.l_len == 0 { u64::MAX } else { lock.l_len };
    Range::new(lock.l_offset, length).ok_or(Nlm4Stats::Fbig.into())
}

fn kind(exclusive: bool) -> LockKind {
    if exclusive { LockKind::Write } else { LockKind::Read }
}

fn owner(lock: &Nlm4Lock<'_>) -> Box<[u8]> {
    owner_name(lock.svid, lock.oh.as_bytes())
}

/// The client that calls, if it was here before.
fn known(call: &Call<'_>, name: HostName<'_>) -> Option<Arc<Client>> {
    state(call).known_host(&context(call), call.client(), name.as_bytes())
}

/// The client that calls, and whose record is durable or will be before anything that is kept in the volume of `object`.
fn client(
    call: &Call<'_>,
    name: HostName<'_>,
    monitor: i32,
    object: &Object<'_>,
) -> Result<Arc<Client>, Rejection> {
    let server = call.connection.local.ip().to_canonical();
    let host = Host { address: call.client(), server, state: monitor };
    let context = context(call);
    let client = state(call).host(&context, host, name.as_bytes())?;
    match client.recorded.get() {
        Some(token) if token.volume != object.file_id().volume => match context.store.durability(*token) {
            Durable::Yes => Ok(client),
            Durable::NotYet => Err(Stop::Busy.into()),
            Durable::Failed => Err(Nlm4Stats::Failed.into()),
        },
        _ => Ok(client),
    }
}
