//! The Network Lock Manager, version 4 (XNFS chapter 10): locks and share reservations of NFSv3. One procedure per
//! file, each with `run`, which replies, and `message`, which calls the host with the result (`*_RES`) instead.
//!
//! Locks are in the tables of [`crate::state::hosts`], which NFSv4 shares. Handles are resolved as in NFSv3, under the
//! same rules of exports.

use std::sync::Arc;

use volume::attributes::FileType;
use volume::request::Durable;
use volume::results::AccessMask;
use wire::nfs3::{FileHandle3, NfsStat3};
use wire::nlm4::{HostName, Netobj, Nlm4Lock, Nlm4Stats, Procedure, Res};
use wire::rpc::AuthStat;
use wire::xdr::{Encode, Encoder};

use crate::call::Operation;
use crate::call::{After, Call, Handled, Object, Stop};
use crate::state::clients::client::{Client, Host};
use crate::state::hosts::{Origin, owner_name};
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

/// The answers to messages; this server sends none.
const IGNORED: Operation = null::OPERATION;
/// Local procedures such as SM_NOTIFY: hosts notify the status monitor, which is part of this server.
pub(crate) const UNAVAILABLE: Operation = operation(|_, _| Err(Stop::Unavailable));

/// The procedures by number ([`Procedure`]).
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
    // NM_LOCK. Every holder of a lock is notified of restarts, as far as possible.
    operation(lock::run),
    operation(free_all::run),
];

/// Why a procedure has no result of its own.
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
            StateError::Unfinished => Stop::WouldBlock.into(),
            // The client is being removed.
            StateError::Expired => Stop::Later.into(),
            // A delegation is being recalled. This is how NLM says "in a few seconds".
            StateError::TryLater => Nlm4Stats::DeniedGracePeriod.into(),
            StateError::LimitReached => Nlm4Stats::DeniedNolocks.into(),
            StateError::NothingToReclaim | StateError::ShareDenied => Nlm4Stats::Denied.into(),
            StateError::Engine(error) => engine(error),
            _ => Nlm4Stats::Failed.into(),
        }
    }
}

/// Maps an error of the engine.
fn engine(error: volume::request::Error) -> Rejection {
    match status::nfs3(error) {
        Err(retry) => Stop::from(retry).into(),
        Ok(NfsStat3::Stale | NfsStat3::BadHandle) => Nlm4Stats::StaleFh.into(),
        Ok(NfsStat3::NoSpc | NfsStat3::Acces) => Nlm4Stats::DeniedNolocks.into(),
        Ok(NfsStat3::Rofs) => Nlm4Stats::Rofs.into(),
        Ok(_) => Nlm4Stats::Failed.into(),
    }
}

/// The outcome of a procedure, and what its reply waits for.
type Done = Result<(Nlm4Stats, Option<DurabilityToken>), Rejection>;

/// Returns a result that is only a status.
fn res<'a>(cookie: Netobj<'a>, done: Done) -> Result<(Res<'a>, Option<DurabilityToken>), Stop> {
    let (stat, token) = status_of(done)?;
    Ok((Res { cookie, stat }, token))
}

/// Returns the status of an outcome, including a rejection.
fn status_of(done: Done) -> Result<(Nlm4Stats, Option<DurabilityToken>), Stop> {
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

/// Calls the host with a result; the reply is empty.
fn call_back<'a>(
    call: &Call<'a>,
    procedure: Procedure,
    (result, token): (impl Encode, Option<DurabilityToken>),
) -> Handled<'a> {
    admitted(call)?;
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
    call.service.state_context(call.now)
}

/// Checks that an export admits the caller, for procedures without a handle, and before the caller is called back.
///
/// # Errors
/// AUTH_TOOWEAK if none does, or if all that do require a privileged port and the caller's is not.
pub(crate) fn admitted(call: &Call<'_>) -> Result<(), Stop> {
    let admitted = call.service.exports.admit(call.connection.peer);
    if admitted { Ok(()) } else { Err(Stop::Auth(AuthStat::TooWeak)) }
}

/// Returns where a call comes from.
fn origin(call: &Call<'_>) -> Origin {
    Origin { address: call.client(), privileged: call.connection.is_privileged() }
}

/// Resolves a handle.
fn object<'a>(call: &Call<'a>, handle: Netobj<'a>) -> Result<Object<'a>, Rejection> {
    let handle = FileHandle3::new(handle.as_bytes()).ok_or(Nlm4Stats::StaleFh)?;
    call.object(handle).map_err(|stop| match stop {
        Stop::Status(NfsStat3::Acces) => Nlm4Stats::DeniedNolocks.into(),
        Stop::Status(_) => Nlm4Stats::StaleFh.into(),
        stop => stop.into(),
    })
}

/// The rights either of which suffices to read a file, or to lock it together with other readers.
const READ_OR_WRITE: AccessMask = AccessMask(AccessMask::READ | AccessMask::MODIFY);
/// The right to change a file, and so to keep others from it.
const WRITE: AccessMask = AccessMask(AccessMask::MODIFY);

/// Checks that the caller, squashed by the export, may lock a file: a regular file to which it has any of the `sufficient`
/// rights, or which it owns, as it may have changed the mode after opening it.
fn check_access(object: &Object<'_>, sufficient: AccessMask) -> Result<(), Rejection> {
    let request = object.request();
    let promised =
        object.volume.access(&request, object.ino, sufficient).map_err(|failure| engine(failure.error))?;
    let attributes = promised.value.attributes;
    let owns = request.credentials.uid == attributes.uid;
    match attributes.file_type {
        FileType::Regular if promised.value.granted.0 != 0 || owns => Ok(()),
        _ => Err(Nlm4Stats::DeniedNolocks.into()),
    }
}

/// Checks that the caller may keep others from a file: it may write the file, and the export is not read-only.
fn check_exclusion(object: &Object<'_>) -> Result<(), Rejection> {
    if object.export.read_only {
        return Err(Nlm4Stats::Rofs.into());
    }
    check_access(object, WRITE)
}

/// Returns the range of a lock; a length of 0 reaches to the end.
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

/// Returns the calling client, if it is known.
fn known(call: &Call<'_>, name: HostName<'_>) -> Option<Arc<Client>> {
    state(call).known_host(&context(call), origin(call), name.as_bytes())
}

/// Returns the calling client. Its record is durable, or will be before anything in the volume of `object`.
fn client(
    call: &Call<'_>,
    name: HostName<'_>,
    monitor: i32,
    object: &Object<'_>,
) -> Result<Arc<Client>, Rejection> {
    let server = call.connection.local.ip().to_canonical();
    let host = Host { address: call.client(), server, state: monitor };
    let context = context(call);
    let client = state(call).host(&context, (host, call.connection.is_privileged()), name.as_bytes())?;
    match client.recorded.get() {
        Some(token) if token.volume != object.file_id().volume => match context.store.durability(*token) {
            Durable::Yes => Ok(client),
            Durable::NotYet => Err(Stop::Later.into()),
            Durable::Failed => Err(Nlm4Stats::Failed.into()),
        },
        _ => Ok(client),
    }
}
