//! Clients that call the engine's operations.

use std::collections::HashMap;
use std::sync::Arc;

use volume::Volume;
use volume::ids::{Cookie, Ino};
use volume::request::{Access, Answer, Durability, Error, Failure, Journaled, Promised, Request, RequestKey};
use volume::results::{AccessMask, Created, Linked, Listing, Recall, Removed, Renamed};
use volume::state::StateChange;
use volume::time::Time;

use super::{Attempt, Recalled, Reply, Resolved, Target};
use crate::call::{
    Call, How, Listed, Operation, OperationId, Outcome, Seen, Straight, Success, Wcc, payload, target,
    xattr_name,
};
use crate::engine::gather;

fn done(outcome: Outcome, state: Vec<StateChange>, after: Durability, recalled: Recalled) -> Attempt {
    Attempt::Done(Box::new(Reply { outcome, beside: Vec::new(), state, after, recalled }))
}

/// The record of protocol state that a call changes by itself, if it does.
fn state_changes(id: OperationId, straight: Straight) -> Vec<StateChange> {
    let Straight::ChangeState { key, length } = straight else { return Vec::new() };
    let value = length.map(|length| payload(id, length.into()).into());
    vec![StateChange { key: [b's', key].into(), value }]
}

/// Calls that NFSv3 does not have, and that may be repeated at will.
fn plain_straight(
    volume: &Volume,
    request: &Request<'_>,
    call: &Resolved,
    straight: Straight,
    changes: &[StateChange],
) -> Named<Success> {
    let ino = Ino(call.object);
    match straight {
        Straight::ChangeState { .. } => {
            volume.change_state(changes).map(|after| (Success::Nothing, after)).map_err(Failure::from)
        }
        Straight::Hold { .. } => {
            // Held first, then looked at.
            volume.hold(ino);
            let found = volume.attributes(request, ino);
            if found.is_err() {
                volume.release(ino);
            }
            split(found, |seen| Success::Attributes((&seen).into()))
        }
        Straight::Release { .. } => {
            volume.release(ino);
            Ok((Success::Nothing, Durability::NOW))
        }
        Straight::ReapOrphan => {
            let before = volume.orphans().len();
            volume.step_orphans(request.now);
            let gone = before - volume.orphans().len();
            Ok((Success::Reaped(gone), Durability::NOW))
        }
        Straight::LookupParent { .. } => split(volume.lookup_parent(request, ino), |found| Success::Found {
            object: (&found.attributes).into(),
            directory: Some((&found.directory).into()),
        }),
        Straight::Seek { offset, content, .. } => {
            split(volume.seek(request, ino, offset, content), Success::Sought)
        }
        Straight::Allocate { offset, length, .. } => {
            split(volume.allocate(request, ino, offset, length), |wcc| Success::Set { object: (&wcc).into() })
        }
        Straight::Deallocate { offset, length, .. } => {
            split(volume.deallocate(request, ino, offset, length), |wcc| Success::Set {
                object: (&wcc).into(),
            })
        }
        Straight::Clone { offset, at, count, copy, .. } => {
            let (from, to) = ((ino, offset), (Ino(call.other), at));
            let answer = match copy {
                true => volume.copy_range(request, from, to, count),
                false => volume.clone_range(request, from, to, count),
            };
            split(answer, |told| Success::Cloned { count: told.count, object: (&told.file).into() })
        }
        Straight::GetXattr { key, .. } => {
            let name = xattr_name(key);
            split(volume.get_xattr(request, ino, &name), |value| Success::Xattr(value.to_vec()))
        }
        Straight::ListXattrs { .. } => split(volume.list_xattrs(request, ino, 0, 100), |told| {
            Success::Xattrs(told.names.iter().map(|name| name.to_vec()).collect())
        }),
        Straight::CreateExclusive { .. } | Straight::SetXattr { .. } | Straight::RemoveXattr { .. } => {
            Err(Error::Invalid.into())
        }
    }
}

/// The one that each call which changes something leaves: which was the last of its client.
fn last_of(operation: &Operation) -> StateChange {
    StateChange {
        key: [b'c', operation.client].into(),
        value: Some(operation.id.to_be_bytes().as_slice().into()),
    }
}

/// Calls the engine's operations.
#[derive(Clone, Debug, Default)]
pub struct Direct {
    /// What each answer that was given to the engine to remember stands for.
    answers: HashMap<Vec<u8>, Outcome>,
}

fn key(call: &Resolved) -> RequestKey {
    let mut bytes = vec![call.operation.client; 16];
    bytes.extend(call.operation.id.to_be_bytes());
    bytes.extend([0; 20]);
    RequestKey(bytes.into())
}

/// The bytes that stand for an outcome.
fn encoded(call: &Resolved, outcome: &Outcome) -> Vec<u8> {
    let text = format!("{:?}", outcome);
    let digest =
        text.bytes().fold(7_u64, |digest, byte| digest.wrapping_mul(0x0100_0000_01B3) ^ u64::from(byte));
    let mut bytes = call.operation.id.to_be_bytes().to_vec();
    bytes.extend(digest.to_be_bytes());
    bytes.resize(300, 0x5A);
    bytes
}

type Named<T> = Result<(T, Durability), Failure>;

fn split<T, U>(answer: Answer<T>, show: impl FnOnce(T) -> U) -> Named<U> {
    answer.map(|Promised { value, after }| (show(value), after))
}

impl Target for Direct {
    fn attempt(&mut self, volume: &Arc<Volume>, call: &Resolved, now: i64, access: Access) -> Attempt {
        let key = key(call);
        let remembered = call.operation.call.is_remembered();
        if remembered && let Recall::Answered(bytes, after) = volume.recall(&key) {
            let outcome = self.answers.get(&*bytes).cloned();
            return done(outcome.unwrap_or(Err(Error::Invalid)), Vec::new(), after, Recalled::Yes);
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
            | Call::Nothing => plain(volume, &request, call),
            Call::Straight(straight) if !remembered => {
                let changes = state_changes(call.operation.id, straight);
                let answer = plain_straight(volume, &request, call, straight, &changes);
                state.extend(changes);
                answer
            }
            _ => self.change(volume, &request, call, &mut state),
        };
        match answered {
            Ok((success, after)) => {
                let outcome = Ok(success);
                let bytes = encoded(call, &outcome);
                if remembered && !self.answers.contains_key(&bytes) {
                    // It changed nothing, so that no journal entry carries its answer.
                    self.remember(volume, &key, bytes, &outcome, after, now);
                }
                if let (Ok(Success::Listing { entries, .. }), Call::ReadDirectory { most, .. }) =
                    (&outcome, call.operation.call)
                    && entries.len() > usize::from(most)
                {
                    return Attempt::Wrong(format!("READDIR for {most} names gave {}", entries.len()));
                }
                done(outcome, state, after, Recalled::No)
            }
            Err(Failure { error: Error::WouldBlock, .. }) => Attempt::WouldBlock,
            Err(Failure { error: Error::Busy, .. }) => Attempt::Busy,
            Err(Failure { error, after }) => {
                if remembered && !matches!(error, Error::Io | Error::ReadOnly | Error::NoSpace) {
                    let outcome = Err(error);
                    let bytes = encoded(call, &outcome);
                    volume.remember_unchanged(&key, bytes.as_slice().into(), after, now);
                    self.answers.insert(bytes, outcome);
                }
                done(Err(error), Vec::new(), after, Recalled::No)
            }
        }
    }

    fn let_go(&mut self) {}

    fn fork(&self) -> Box<dyn Target> {
        Box::new(self.clone())
    }
}

/// Calls that may be repeated at will.
fn plain(volume: &Volume, request: &Request<'_>, call: &Resolved) -> Named<Success> {
    let ino = Ino(call.object);
    match call.operation.call {
        Call::GetAttributes { .. } => {
            split(volume.attributes(request, ino), |seen| Success::Attributes((&seen).into()))
        }
        Call::Lookup { name, .. } => split(volume.lookup(request, ino, &name.bytes()), |found| {
            Success::Found { object: (&found.attributes).into(), directory: Some((&found.directory).into()) }
        }),
        Call::Access { mask, .. } => split(volume.access(request, ino, AccessMask(mask)), |told| {
            Success::Accessible { granted: told.granted.0, object: Some((&told.attributes).into()) }
        }),
        Call::ReadLink { .. } => split(volume.read_link(request, ino), |link| Success::Target {
            target: link.target.to_vec(),
            object: Some((&link.attributes).into()),
        }),
        Call::Read { offset, count, .. } => split(volume.read(request, ino, offset, count), |data| {
            Success::Data { bytes: gather(&data), eof: data.eof, object: Some((&data.attributes).into()) }
        }),
        Call::Write { offset, length, stability, .. } => {
            let bytes = payload(call.operation.id, length);
            split(volume.write(request, ino, offset, &bytes, stability), |written| Success::Written {
                count: written.count,
                committed: written.committed,
                verifier: written.verifier.0,
                object: (&written.file).into(),
            })
        }
        Call::Commit { offset, count, .. } => split(volume.commit(request, ino, offset, count), |told| {
            Success::Committed { verifier: told.verifier.0, object: (&told.file).into() }
        }),
        Call::ReadDirectory { most, plus, .. } => {
            let listing = volume.read_directory(request, ino, Cookie(call.cookie), usize::from(most), plus);
            split(listing, |listing| listed(&listing))
        }
        Call::Status => split(volume.status(request), |status| Success::Status {
            bytes_used: Some(status.bytes_used),
            inodes_used: status.inodes_used,
        }),
        // What only protocols have: a client that calls straight is content with attributes.
        _ => split(volume.attributes(request, ino), |seen| Success::Attributes((&seen).into())),
    }
}

/// Calls that NFSv3 does not have, whose answers are remembered.
fn change_straight(
    volume: &Volume,
    request: &Request<'_>,
    call: &Resolved,
    straight: Straight,
    note: &mut dyn FnMut(Success) -> Journaled,
) -> Named<Success> {
    let ino = Ino(call.object);
    let set = |value: &volume::attributes::Wcc| Success::Set { object: value.into() };
    match straight {
        Straight::CreateExclusive { name, verifier, set, .. } => {
            let how = How::ExclusiveWith(verifier, set);
            let mut encode = |value: &Created| note(created(value));
            let answer = volume.create_file(request, ino, &name.bytes(), &how, &mut encode);
            split(answer, |value| created(&value))
        }
        Straight::SetXattr { key, length, how, .. } => {
            let (name, value) = (xattr_name(key), payload(call.operation.id, length.into()));
            let mut encode = |value: &volume::attributes::Wcc| note(set(value));
            let answer = volume.set_xattr(request, ino, &name, &value, how, &mut encode);
            split(answer, |value| set(&value))
        }
        Straight::RemoveXattr { key, .. } => {
            let mut encode = |value: &volume::attributes::Wcc| note(set(value));
            let answer = volume.remove_xattr(request, ino, &xattr_name(key), &mut encode);
            split(answer, |value| set(&value))
        }
        _ => Err(Error::Invalid.into()),
    }
}

fn listed(listing: &Listing) -> Success {
    let entry = |entry: &volume::results::Entry| Listed {
        ino: entry.ino.0,
        cookie: entry.cookie.0,
        name: entry.name.to_vec(),
        attributes: entry.attributes.as_ref().map(Seen::from),
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

impl Direct {
    /// Lets the engine remember an answer in memory.
    fn remember(
        &mut self,
        volume: &Volume,
        key: &RequestKey,
        bytes: Vec<u8>,
        outcome: &Outcome,
        after: Durability,
        now: Time,
    ) {
        volume.remember_unchanged(key, bytes.as_slice().into(), after, now);
        self.answers.insert(bytes, outcome.clone());
    }

    /// Calls whose answers are remembered.
    fn change(
        &mut self,
        volume: &Volume,
        request: &Request<'_>,
        call: &Resolved,
        state: &mut Vec<StateChange>,
    ) -> Named<Success> {
        let (ino, other) = (Ino(call.object), Ino(call.other));
        let answers = &mut self.answers;
        let mut note = |success: Success| -> Journaled {
            let outcome = Ok(success);
            let bytes = encoded(call, &outcome);
            state.push(last_of(&call.operation));
            let answer = bytes.as_slice().into();
            answers.insert(bytes, outcome);
            Journaled { answer, state: state.clone() }
        };
        let mut note_created = |value: &Created| note(created(value));
        match call.operation.call {
            Call::Create { name, how, .. } => {
                let answer = volume.create_file(request, ino, &name.bytes(), &how, &mut note_created);
                split(answer, |value| created(&value))
            }
            Call::Straight(straight) => change_straight(volume, request, call, straight, &mut note),
            Call::MakeDirectory { name, set, .. } => {
                let answer = volume.make_directory(request, ino, &name.bytes(), &set, &mut note_created);
                split(answer, |value| created(&value))
            }
            Call::MakeSymlink { name, length, set, .. } => {
                let to = target(call.operation.id, length);
                let answer = volume.make_symlink(request, ino, &name.bytes(), &to, &set, &mut note_created);
                split(answer, |value| created(&value))
            }
            Call::MakeNode { name, kind, set, .. } => {
                let answer = volume.make_node(request, ino, &name.bytes(), kind, &set, &mut note_created);
                split(answer, |value| created(&value))
            }
            Call::Remove { name, .. } => {
                let answer = volume.remove(request, ino, &name.bytes(), &mut |value| note(removed(value)));
                split(answer, |value| removed(&value))
            }
            Call::RemoveDirectory { name, .. } => {
                let answer =
                    volume.remove_directory(request, ino, &name.bytes(), &mut |value| note(removed(value)));
                split(answer, |value| removed(&value))
            }
            Call::Rename { name, as_name, .. } => {
                let (name, as_name) = (name.bytes(), as_name.bytes());
                let mut encode = |value: &Renamed| note(renamed(value));
                split(volume.rename(request, (ino, &name), (other, &as_name), &mut encode), |value| {
                    renamed(&value)
                })
            }
            Call::Link { name, .. } => {
                let answer =
                    volume.link(request, ino, other, &name.bytes(), &mut |value| note(linked(value)));
                split(answer, |value| linked(&value))
            }
            Call::SetAttributes { set, .. } => {
                let guard = call.guard.map(Time::from_nanos);
                let mut encode =
                    |value: &volume::attributes::Wcc| note(Success::Set { object: value.into() });
                let answer = volume.set_attributes(request, ino, &set, guard, &mut encode);
                split(answer, |value| Success::Set { object: Wcc::from(&value) })
            }
            _ => Err(Error::Invalid.into()),
        }
    }
}
