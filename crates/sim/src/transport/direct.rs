//! Clients that call the engine's operations.

use std::collections::HashMap;
use std::sync::Arc;

use volume::Volume;
use volume::attributes;
use volume::ids::{Cookie, Ino};
use volume::request::{Access, Answer, Durability, Error, Failure, Journaled, Promised, Request, RequestKey};
use volume::results::{AccessMask, Created, Linked, Listing, Removed, Renamed, Stability, Written};
use volume::state::StateChange;
use volume::time::Time;

use super::{CallStatus, Replayed, Reply, ResolvedCall, Transport};
use crate::call::{
    Attrs, Call, CallResult, CreateHow, EngineOnlyOp, Listed, Operation, OperationId, Success, Wcc, payload,
    target, xattr_name,
};
use crate::engine::{read_bytes, seek};

fn done(outcome: CallResult, state: Vec<StateChange>, after: Durability, replayed: Replayed) -> CallStatus {
    CallStatus::Done(Box::new(Reply { outcome, failure_attributes: Vec::new(), state, after, replayed }))
}

/// Returns the change of protocol state that the call itself asks for.
fn state_changes(id: OperationId, op: EngineOnlyOp) -> Vec<StateChange> {
    let EngineOnlyOp::ChangeState { key, length } = op else { return Vec::new() };
    let value = length.map(|length| payload(id, length.into()).into());
    vec![StateChange { key: [b's', key].into(), value }]
}

/// Executes a call that NFSv3 lacks and that may be repeated.
fn idempotent_nfs4(
    volume: &Volume,
    request: &Request<'_>,
    call: &ResolvedCall,
    op: EngineOnlyOp,
    changes: &[StateChange],
) -> Executed<Success> {
    let ino = Ino(call.object);
    match op {
        EngineOnlyOp::ChangeState { .. } => {
            volume.change_state(changes).map(|after| (Success::Nothing, after)).map_err(Failure::from)
        }
        EngineOnlyOp::Hold { .. } => {
            // The hold comes first: the file may lose its last name at any moment.
            volume.hold(ino);
            let found = volume.attributes(request, ino);
            if found.is_err() {
                volume.release(ino);
            }
            map_promised(found, |seen| Success::Attributes((&seen).into()))
        }
        EngineOnlyOp::Release { .. } => {
            volume.release(ino);
            Ok((Success::Nothing, Durability::NOW))
        }
        EngineOnlyOp::ReapOrphan => {
            let before = volume.orphans().len();
            volume.step_orphans(request.now);
            let gone = before - volume.orphans().len();
            Ok((Success::Reaped(gone), Durability::NOW))
        }
        EngineOnlyOp::SetQuota { owner, limits } => volume
            .set_quota(owner, limits, request.now)
            .map(|after| (Success::Nothing, after))
            .map_err(Failure::from),
        EngineOnlyOp::LookupParent { .. } => map_promised(volume.lookup_parent(request, ino), |found| {
            Success::Found { object: (&found.attributes).into(), directory: Some((&found.directory).into()) }
        }),
        EngineOnlyOp::Seek { offset, content, .. } => {
            map_promised(seek(volume, request, ino, (offset, content)), Success::Sought)
        }
        EngineOnlyOp::Allocate { offset, length, .. } => {
            map_promised(volume.allocate(request, ino, offset, length), |wcc| Success::Set {
                object: (&wcc).into(),
            })
        }
        EngineOnlyOp::Deallocate { offset, length, .. } => {
            map_promised(deallocate(volume, request, ino, (offset, length)), |wcc| Success::Set {
                object: (&wcc).into(),
            })
        }
        EngineOnlyOp::Clone { offset, at, count, copy, .. } => {
            let (from, to) = ((ino, offset), (Ino(call.other), at));
            let answer = match copy {
                true => volume.copy_range(request, from, to, count),
                false => volume.clone_range(request, from, to, count),
            };
            map_promised(answer, |told| Success::Cloned { count: told.count, object: (&told.file).into() })
        }
        EngineOnlyOp::GetXattr { key, .. } => {
            let name = xattr_name(key);
            map_promised(volume.get_xattr(request, ino, &name), |value| Success::Xattr(value.to_vec()))
        }
        EngineOnlyOp::ListXattrs { .. } => map_promised(volume.list_xattrs(request, ino, 0, 100), |told| {
            Success::Xattrs(told.names.iter().map(|name| name.to_vec()).collect())
        }),
        EngineOnlyOp::CreateExclusive { .. }
        | EngineOnlyOp::SetXattr { .. }
        | EngineOnlyOp::RemoveXattr { .. } => Err(Error::Invalid.into()),
    }
}

/// DEALLOCATE, in as many parts as it takes. Files are too small for it to wait between two.
fn deallocate(
    volume: &Volume,
    request: &Request<'_>,
    ino: Ino,
    (offset, length): (u64, u64),
) -> Answer<attributes::Wcc> {
    let mut all = volume.deallocate(request, ino, offset, length)?;
    while all.value.count < length {
        let done = all.value.count;
        let part = volume.deallocate(request, ino, offset + done, length - done)?;
        all.value.count += part.value.count;
        all.value.file.after = part.value.file.after;
        all.after = all.after.and(part.after);
    }
    Ok(Promised { value: all.value.file, after: all.after })
}

/// Returns the record of protocol state that each non-idempotent call writes: the client's last operation.
fn last_operation_record(operation: &Operation) -> StateChange {
    StateChange {
        key: [b'c', operation.client].into(),
        value: Some(operation.id.to_be_bytes().as_slice().into()),
    }
}

/// Calls the engine's operations.
#[derive(Clone, Debug, Default)]
pub struct DirectTransport {
    /// The result for each answer that the engine was given to remember.
    answers: HashMap<Vec<u8>, CallResult>,
}

fn key(call: &ResolvedCall) -> RequestKey {
    let mut bytes = vec![call.operation.client; 16];
    bytes.extend(call.operation.id.to_be_bytes());
    bytes.extend([0; 20]);
    RequestKey::new(bytes)
}

/// Returns bytes that represent a result.
fn encoded(call: &ResolvedCall, outcome: &CallResult) -> Vec<u8> {
    let text = format!("{:?}", outcome);
    let digest =
        text.bytes().fold(7_u64, |digest, byte| digest.wrapping_mul(0x0100_0000_01B3) ^ u64::from(byte));
    let mut bytes = call.operation.id.to_be_bytes().to_vec();
    bytes.extend(digest.to_be_bytes());
    bytes.resize(300, 0x5A);
    bytes
}

type Executed<T> = Result<(T, Durability), Failure>;

fn map_promised<T, U>(answer: Answer<T>, show: impl FnOnce(T) -> U) -> Executed<U> {
    answer.map(|Promised { value, after }| (show(value), after))
}

impl Transport for DirectTransport {
    fn attempt(&mut self, volume: &Arc<Volume>, call: &ResolvedCall, now: i64, access: Access) -> CallStatus {
        let key = key(call);
        let remembered = call.operation.call.is_remembered();
        if remembered && let Some((bytes, after)) = volume.lookup_request(&key) {
            let outcome = self.answers.get(&*bytes).cloned();
            return done(outcome.unwrap_or(Err(Error::Invalid)), Vec::new(), after, Replayed::Yes);
        }
        let credentials = call.operation.user.credentials();
        let now = Time::from_nanos(now);
        let request = Request { credentials: &credentials, now, access, key: remembered.then_some(&key) };
        let mut state = Vec::new();
        let answered = match call.operation.call {
            Call::GetAttributes { .. }
            | Call::Lookup { .. }
            | Call::Access { .. }
            | Call::ReadLink { .. }
            | Call::Read { .. }
            | Call::Write { .. }
            | Call::Commit { .. }
            | Call::ReadDirectory { .. }
            | Call::Status
            | Call::Limits { .. }
            | Call::Configuration { .. }
            | Call::Nothing => idempotent(volume, &request, call),
            Call::EngineOnly(op) if !remembered => {
                let changes = state_changes(call.operation.id, op);
                let answer = idempotent_nfs4(volume, &request, call, op, &changes);
                state.extend(changes);
                answer
            }
            _ => self.non_idempotent(volume, &request, call, &mut state),
        };
        match answered {
            Ok((success, after)) => {
                let outcome = Ok(success);
                let bytes = encoded(call, &outcome);
                if remembered && !self.answers.contains_key(&bytes) {
                    // The call changed nothing, so no journal entry carries its answer.
                    self.remember(volume, &key, bytes, &outcome, after, now);
                }
                if let (Ok(Success::Listing { entries, .. }), Call::ReadDirectory { entries_max, .. }) =
                    (&outcome, call.operation.call)
                    && entries.len() > usize::from(entries_max)
                {
                    return CallStatus::Wrong(format!(
                        "READDIR for {entries_max} names returned {}",
                        entries.len()
                    ));
                }
                done(outcome, state, after, Replayed::No)
            }
            Err(Failure { error: Error::WouldBlock, .. }) => CallStatus::WouldBlock,
            Err(Failure { error: Error::Busy | Error::ObjectBusy, .. }) => CallStatus::Busy,
            Err(Failure { error, after }) => {
                if remembered && !matches!(error, Error::Io | Error::ReadOnly | Error::NoSpace) {
                    let outcome = Err(error);
                    let bytes = encoded(call, &outcome);
                    volume.remember_unchanged(&key, bytes.as_slice().into(), after, now);
                    self.answers.insert(bytes, outcome);
                }
                done(Err(error), Vec::new(), after, Replayed::No)
            }
        }
    }

    fn disconnect(&mut self) {}

    fn fork(&self) -> Box<dyn Transport> {
        Box::new(self.clone())
    }
}

/// Writes the payload of a call, which every other one receives into buffers of the engine.
fn write(
    volume: &Volume,
    request: &Request<'_>,
    call: &ResolvedCall,
    (offset, length): (u64, u32),
    stability: Stability,
) -> Answer<Written> {
    let bytes = payload(call.operation.id, length);
    if call.operation.id.is_multiple_of(2) {
        return volume.write(request, Ino(call.object), offset, &bytes, stability);
    }
    let mut arriving = volume.arriving(offset, bytes.len());
    arriving.take(&bytes);
    volume.write(request, Ino(call.object), offset, &arriving.finish(), stability)
}

/// Executes a call that may be repeated.
fn idempotent(volume: &Volume, request: &Request<'_>, call: &ResolvedCall) -> Executed<Success> {
    let ino = Ino(call.object);
    match call.operation.call {
        Call::GetAttributes { .. } => {
            map_promised(volume.attributes(request, ino), |seen| Success::Attributes((&seen).into()))
        }
        Call::Lookup { name, .. } => map_promised(volume.lookup(request, ino, &name.bytes()), |found| {
            Success::Found { object: (&found.attributes).into(), directory: Some((&found.directory).into()) }
        }),
        Call::Access { mask, .. } => map_promised(volume.access(request, ino, AccessMask(mask)), |told| {
            Success::Accessible { granted: told.granted.0, object: Some((&told.attributes).into()) }
        }),
        Call::ReadLink { .. } => map_promised(volume.read_link(request, ino), |link| Success::Target {
            target: link.target.to_vec(),
            object: Some((&link.attributes).into()),
        }),
        Call::Read { offset, count, .. } => map_promised(volume.read(request, ino, offset, count), |data| {
            Success::Data { bytes: read_bytes(&data), eof: data.eof, object: Some((&data.attributes).into()) }
        }),
        Call::Write { offset, length, stability, .. } => {
            map_promised(write(volume, request, call, (offset, length), stability), |written| {
                Success::Written {
                    count: written.count,
                    committed: written.committed,
                    verifier: written.verifier.0,
                    object: (&written.file).into(),
                }
            })
        }
        Call::Commit { offset, count, .. } => {
            map_promised(volume.commit(request, ino, offset, count), |told| Success::Committed {
                verifier: told.verifier.0,
                object: (&told.file).into(),
            })
        }
        Call::ReadDirectory { entries_max, plus, .. } => {
            let listing =
                volume.read_directory(request, ino, Cookie(call.cookie), usize::from(entries_max), plus);
            map_promised(listing, |listing| listed(&listing))
        }
        Call::Status => map_promised(volume.status(request), |status| Success::Status {
            bytes_used: Some(status.bytes_used),
            inodes_used: status.inodes_used,
        }),
        // Only protocols have these calls; reading the attributes stands in for them.
        _ => map_promised(volume.attributes(request, ino), |seen| Success::Attributes((&seen).into())),
    }
}

/// Executes a call that NFSv3 lacks and whose answer is remembered.
fn non_idempotent_engine_only(
    volume: &Volume,
    request: &Request<'_>,
    call: &ResolvedCall,
    op: EngineOnlyOp,
    note: &mut dyn FnMut(Success) -> Journaled,
) -> Executed<Success> {
    let ino = Ino(call.object);
    let set = |value: &volume::attributes::Wcc| Success::Set { object: value.into() };
    match op {
        EngineOnlyOp::CreateExclusive { name, verifier, set, .. } => {
            let how = CreateHow::ExclusiveWith(verifier, set);
            let mut encode = |value: &Created| note(created(value));
            let answer = volume.create_file(request, ino, &name.bytes(), &how, &mut encode);
            map_promised(answer, |value| created(&value))
        }
        EngineOnlyOp::SetXattr { key, length, how, .. } => {
            let (name, value) = (xattr_name(key), payload(call.operation.id, length.into()));
            let mut encode = |value: &volume::attributes::Wcc| note(set(value));
            let answer = volume.set_xattr(request, ino, &name, &value, how, &mut encode);
            map_promised(answer, |value| set(&value))
        }
        EngineOnlyOp::RemoveXattr { key, .. } => {
            let mut encode = |value: &volume::attributes::Wcc| note(set(value));
            let answer = volume.remove_xattr(request, ino, &xattr_name(key), &mut encode);
            map_promised(answer, |value| set(&value))
        }
        _ => Err(Error::Invalid.into()),
    }
}

fn listed(listing: &Listing) -> Success {
    let entry = |entry: &volume::results::Entry| Listed {
        ino: entry.ino.0,
        cookie: entry.cookie.0,
        name: entry.name.to_vec(),
        attributes: entry.attributes.as_ref().map(Attrs::from),
    };
    Success::Listing {
        entries: listing.entries.iter().map(entry).collect(),
        end: listing.end,
        directory: Some((&listing.directory).into()),
    }
}

fn created(created: &Created) -> Success {
    Success::Created { object: (&created.attributes).into(), directory: (&created.directory).into() }
}

fn removed(removed: &Removed) -> Success {
    Success::Removed { directory: (&removed.directory).into() }
}

fn renamed(renamed: &Renamed) -> Success {
    Success::Renamed { from: (&renamed.from).into(), to: (&renamed.to).into() }
}

fn linked(linked: &Linked) -> Success {
    Success::Linked { object: Some((&linked.attributes).into()), directory: (&linked.directory).into() }
}

impl DirectTransport {
    /// Makes the engine remember an answer in memory.
    fn remember(
        &mut self,
        volume: &Volume,
        key: &RequestKey,
        bytes: Vec<u8>,
        outcome: &CallResult,
        after: Durability,
        now: Time,
    ) {
        volume.remember_unchanged(key, bytes.as_slice().into(), after, now);
        self.answers.insert(bytes, outcome.clone());
    }

    /// Executes a call whose answer is remembered.
    fn non_idempotent(
        &mut self,
        volume: &Volume,
        request: &Request<'_>,
        call: &ResolvedCall,
        state: &mut Vec<StateChange>,
    ) -> Executed<Success> {
        let (ino, other) = (Ino(call.object), Ino(call.other));
        let answers = &mut self.answers;
        let mut note = |success: Success| -> Journaled {
            let outcome = Ok(success);
            let bytes = encoded(call, &outcome);
            state.push(last_operation_record(&call.operation));
            let answer = bytes.as_slice().into();
            answers.insert(bytes, outcome);
            Journaled { answer, state: state.clone() }
        };
        let mut note_created = |value: &Created| note(created(value));
        match call.operation.call {
            Call::Create { name, how, .. } => {
                let answer = volume.create_file(request, ino, &name.bytes(), &how, &mut note_created);
                map_promised(answer, |value| created(&value))
            }
            Call::EngineOnly(op) => non_idempotent_engine_only(volume, request, call, op, &mut note),
            Call::MakeDirectory { name, set, .. } => {
                let answer = volume.make_directory(request, ino, &name.bytes(), &set, &mut note_created);
                map_promised(answer, |value| created(&value))
            }
            Call::MakeSymlink { name, length, set, .. } => {
                let to = target(call.operation.id, length);
                let answer = volume.make_symlink(request, ino, &name.bytes(), &to, &set, &mut note_created);
                map_promised(answer, |value| created(&value))
            }
            Call::MakeNode { name, kind, set, .. } => {
                let answer = volume.make_node(request, ino, &name.bytes(), kind, &set, &mut note_created);
                map_promised(answer, |value| created(&value))
            }
            Call::Remove { name, .. } => {
                let answer = volume.remove(request, ino, &name.bytes(), &mut |value| note(removed(value)));
                map_promised(answer, |value| removed(&value))
            }
            Call::RemoveDirectory { name, .. } => {
                let answer =
                    volume.remove_directory(request, ino, &name.bytes(), &mut |value| note(removed(value)));
                map_promised(answer, |value| removed(&value))
            }
            Call::Rename { name, as_name, .. } => {
                let (name, as_name) = (name.bytes(), as_name.bytes());
                let mut encode = |value: &Renamed| note(renamed(value));
                map_promised(volume.rename(request, (ino, &name), (other, &as_name), &mut encode), |value| {
                    renamed(&value)
                })
            }
            Call::Link { name, .. } => {
                let answer =
                    volume.link(request, ino, other, &name.bytes(), &mut |value| note(linked(value)));
                map_promised(answer, |value| linked(&value))
            }
            Call::SetAttributes { set, .. } => {
                let guard = call.guard.map(Time::from_nanos);
                let mut encode =
                    |value: &volume::attributes::Wcc| note(Success::Set { object: value.into() });
                let answer = volume.set_attributes(request, ino, &set, guard, &mut encode);
                map_promised(answer, |value| Success::Set { object: Wcc::from(&value) })
            }
            _ => Err(Error::Invalid.into()),
        }
    }
}
