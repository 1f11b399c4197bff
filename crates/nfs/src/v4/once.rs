//! Operations that must execute once, see [`crate::rpc_cache`].
//!
//! Within a session, the slot caches the reply of the whole COMPOUND, and the results that the journal remembers matter
//! only after a restart. NFSv4.0 has no slots: a retransmission finds the remembered result of each operation, and
//! failures are remembered as for NFSv3.
//!
//! A remembered result is the object that the operation makes current (its number, zero for none), and the bytes of the
//! result.

use std::sync::Arc;

use volume::attributes::Wcc;
use volume::ids::Ino;
use volume::request::{Answer, Failure, Request, RequestKey};
use wire::nfs4::{ChangeInfo4, NfsStat4};
use wire::xdr::{Decoder, Encode as _, Encoder};

use crate::call::Object;
use crate::connection::origin;
use crate::rpc_cache::{Checksums, ToJournal, encoded, mapped, of_port};
use crate::state::SlotGuard;
use crate::v4::context::{Compound, Done, HandleBytes, OpStop, Target};

/// An operation that executes at most once.
pub(crate) struct Once4<R, S, C> {
    /// Calls the engine.
    pub(crate) run: R,
    /// Writes the whole result of a success.
    pub(crate) succeed: S,
    /// Returns the object to make current, if it is another one.
    pub(crate) current: C,
}

/// Executes an operation that changes the volume of `object`, or repeats its remembered result.
pub(crate) fn once<'c, T>(
    compound: &mut Compound<'c>,
    object: &Object<'c>,
    out: &mut Encoder<'_>,
    operation: Once4<
        impl FnOnce(&Request<'_>, ToJournal<'_, T>) -> Answer<T>,
        impl Fn(&T, &mut Encoder<'_>),
        impl Fn(&T) -> Option<Ino>,
    >,
) -> Done {
    let Once4 { run, succeed, current } = operation;
    let key = compound.request_key(object);
    let service = compound.service;
    let _entered = service.shared.in_progress.enter(&key).ok_or(OpStop::Later)?;
    compound.note_change();
    if let Some((answer, after)) = object.volume.lookup_request(&key) {
        compound.wait_for(object.volume, after);
        return repeat(compound, object, &answer, out);
    }
    let mut journaled: Option<Arc<[u8]>> = None;
    let write = |value: &T| {
        encoded(|out| {
            out.u64(current(value).map_or(0, |ino| ino.0));
            succeed(value, out);
        })
    };
    let answer = run(&object.request_once(&key), &mut |value| {
        let answer = write(value);
        journaled = Some(Arc::clone(&answer));
        answer.into()
    });
    match answer {
        Ok(promised) => {
            compound.wait_for(object.volume, promised.after);
            let answer = journaled.unwrap_or_else(|| {
                // It succeeded without a change, and so without a journal entry.
                let answer = write(&promised.value);
                object.volume.remember_unchanged(
                    &key,
                    Arc::clone(&answer),
                    promised.after,
                    compound.now.wall,
                );
                answer
            });
            repeat(compound, object, &answer, out)
        }
        Err(Failure { error, after }) => {
            compound.wait_for(object.volume, after);
            let stop = OpStop::from(error);
            if let OpStop::Status(status) = stop
                && compound.minor == 0
            {
                let answer = encoded(|out| {
                    out.u64(0);
                    status.encode(out);
                });
                object.volume.remember_unchanged(&key, answer, after, compound.now.wall);
            }
            Err(stop)
        }
    }
}

/// Writes a remembered result, and sets the current filehandle as before.
fn repeat<'c>(
    compound: &mut Compound<'c>,
    object: &Object<'c>,
    answer: &[u8],
    out: &mut Encoder<'_>,
) -> Done {
    let mut input = Decoder::new(answer);
    let ino = input.u64()?;
    let result = input.rest();
    let status = NfsStat4::from_code(input.u32()?).unwrap_or(NfsStat4::ServerFault);
    if status != NfsStat4::Ok {
        return Err(status.into());
    }
    if ino != 0 {
        compound.set_current(Target::Stored(object.beside(Ino(ino))))?;
    }
    out.raw(result);
    Ok(())
}

/// Converts a directory's attributes before and after a change.
pub(crate) fn change_info(wcc: &Wcc) -> ChangeInfo4 {
    ChangeInfo4 { atomic: true, before: wcc.before.change, after: wcc.after.change }
}

/// Set in an operation's index for a second change that it makes.
const BESIDES: u32 = 1 << 31;

impl Compound<'_> {
    /// Returns the current and saved filehandles, which are arguments too.
    fn handles(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(2 * (volume::handle::HANDLE_BYTES + 1));
        for target in [&self.current, &self.saved] {
            let handle = target.as_ref().map(Target::handle);
            let handle = handle.as_ref().map_or(&[][..], HandleBytes::as_slice);
            bytes.extend(u8::try_from(handle.len()));
            bytes.extend_from_slice(handle);
        }
        bytes
    }

    /// Returns the checksums for requests on the current object.
    pub(super) fn checksums(&self) -> Checksums {
        match &self.current {
            Some(Target::Stored(object)) => Checksums::new(object.volume),
            // An operation that needs an object of a volume fails for every caller.
            Some(Target::Pseudo(_)) | None => Checksums::with_key(&[0; 16]),
        }
    }

    /// Distinguishes this operation, with its arguments and its principal, from others.
    pub(super) fn request_checksum(&self, checksums: &Checksums) -> u64 {
        let arguments = checksums.of(self.operation_bytes()) ^ checksums.of(&self.handles());
        arguments ^ checksums.of_credential(&self.header.credential)
    }

    /// Identifies this operation on `object` among all requests ever, see [`RequestKey`]. The key starts with the session or the
    /// client's address, which share what their origin may have remembered.
    pub(crate) fn request_key(&self, object: &Object<'_>) -> RequestKey {
        self.key_of(object, self.index)
    }

    /// Returns the key of the operation's second change.
    pub(crate) fn request_key_besides(&self, object: &Object<'_>) -> RequestKey {
        self.key_of(object, self.index | BESIDES)
    }

    fn key_of(&self, object: &Object<'_>, index: u32) -> RequestKey {
        let mut key = Vec::with_capacity(volume::limits::REQUEST_KEY_BYTES_MAX);
        let address = self.connection.peer.ip().to_canonical();
        match &self.slot {
            Some(slot) => key.extend_from_slice(&slot.request_key()),
            None => {
                key.extend_from_slice(&mapped(address));
                for word in [self.header.xid, self.header.program, self.header.version, self.header.procedure]
                {
                    key.extend_from_slice(&word.to_be_bytes());
                }
            }
        }
        key.extend_from_slice(&index.to_be_bytes());
        // A session belongs to the client whatever port a connection of it has.
        let port = if self.slot.is_some() { 0 } else { of_port(self.connection.peer) };
        let sum = self.request_checksum(&Checksums::new(object.volume)) ^ port;
        key.extend_from_slice(&sum.to_be_bytes());
        let origin = self.slot.as_ref().map_or_else(|| origin(address), SlotGuard::origin);
        RequestKey::new(key).from_origin(mapped(origin))
    }
}
