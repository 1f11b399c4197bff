//! The shared state, as operations of a COMPOUND use it.

use std::sync::Arc;

use wire::nfs4::{ClientId4, NfsStat4, OpNum4, Stateid4};
use wire::rpc::Credential;
use wire::xdr::{Decoder, Encode as _, Encoder};

use crate::call::Object;
use crate::recall::Recaller;
use crate::state::clients::client::Client;
use crate::state::clients::owner_sequence::{OwnerSequence, ReplayEntry, SequenceCheck};
use crate::state::config::OWNER_REPLY_BYTES;
use crate::state::delegations::in_flight::InFlightModification;
use crate::state::ids::{ClientId, FileId, Other, StateId};
use crate::state::record::Principal;
use crate::state::stateids::entry::{Liveness, StateEntry};
use crate::state::stateids::{HeldKind, IoMode};
use crate::state::{Caller, Context, DurabilityToken, Peer, SharedState, SlotGuard};
use crate::v4::context::{Compound, Done, OpStop, Target};

impl From<Stateid4> for StateId {
    fn from(stateid: Stateid4) -> StateId {
        StateId { seqid: stateid.seqid, other: Other(stateid.other) }
    }
}

impl From<StateId> for Stateid4 {
    fn from(stateid: StateId) -> Stateid4 {
        Stateid4 { seqid: stateid.seqid, other: stateid.other.0 }
    }
}

/// Checks that a stateid allows this I/O, and that no other state conflicts. Hold the guard until the I/O is done.
pub(crate) fn check_io<'c>(
    compound: &Compound<'c>,
    stateid: Stateid4,
    file: &Object<'_>,
    wanted: IoMode,
) -> Result<InFlightModification<'c>, OpStop> {
    let caller = compound.caller(compound.slot.as_ref().map(|slot| &slot.session.client))?;
    let stateid = StateId::from(stateid);
    Ok(if stateid.is_without_state() {
        compound.recaller().io(file, wanted, None)?
    } else {
        compound.state().check_io(&compound.state_context(), caller, stateid, file.file_id(), wanted)?
    })
}

impl<'c> Compound<'c> {
    /// Identifies the caller by the client of the session.
    ///
    /// # Errors
    /// Those of [`Compound::peer`].
    pub(super) fn caller<'s>(&self, client: Option<&'s Arc<Client>>) -> Result<Caller<'s>, OpStop> {
        match client {
            Some(client) => Ok(Caller::Session(client)),
            None => Ok(Caller::V40(self.peer()?)),
        }
    }

    /// Checks that an export admits the host, as [`Compound::peer`] does.
    ///
    /// # Errors
    /// NFS4ERR_ACCESS.
    #[inline]
    pub(super) fn check_admitted(&self) -> Result<(), OpStop> {
        let admitted = self.service.exports.admit(self.connection.peer);
        if admitted { Ok(()) } else { Err(NfsStat4::Access.into()) }
    }

    /// Returns the sender of the call, for an operation on clients or their state, which only hosts that an export admits
    /// have.
    ///
    /// # Errors
    /// NFS4ERR_ACCESS if no export admits it, or if all that do require a privileged port and its port is not.
    pub(super) fn peer(&self) -> Result<Peer, OpStop> {
        self.check_admitted()?;
        let principal = match &self.header.credential {
            Credential::Sys(user) => Principal::User(user.uid),
            _ => Principal::None,
        };
        Ok(Peer { principal, address: self.connection.peer.ip().to_canonical() })
    }

    /// Returns the name under which a client is kept that calls itself `name`. As with NLM, programs of unprivileged users do
    /// not share it with the kernel of their host, which calls from a privileged port: its name is no secret, and
    /// introducing it with another verifier ends what it holds.
    pub(super) fn client_name(&self, name: &[u8]) -> Vec<u8> {
        [&[u8::from(self.connection.is_privileged())], name].concat()
    }

    /// Returns the shared state.
    pub(super) fn state(&self) -> &'c SharedState {
        &self.service.shared.state
    }

    /// Returns what a request to it brings.
    pub(super) fn state_context(&self) -> Context<'c> {
        self.service.state_context(self.now)
    }

    /// Returns the client of the session.
    pub(super) fn session_client(&self) -> Option<Arc<Client>> {
        self.slot.as_ref().map(|slot| Arc::clone(&slot.session.client))
    }

    /// Returns the client that an operation is about: that of the session, which has precedence (RFC 8881 section
    /// 18.16.3), or the named one.
    ///
    /// # Errors
    /// NFS4ERR_STALE_CLIENTID, NFS4ERR_EXPIRED.
    pub(super) fn client(&self, named: ClientId4) -> Result<Arc<Client>, OpStop> {
        match self.session_client() {
            Some(client) => Ok(client),
            None => Ok(self.state().client(&self.state_context(), ClientId(named.0), &self.peer()?)?),
        }
    }

    /// Whether this repeats an operation whose reply was lost in a restart: `stateid` is the one before the current one
    /// of `entry`, and the effect is there (`done`).
    pub(super) fn is_retry_after_restart(
        &self,
        entry: &StateEntry,
        stateid: StateId,
        done: impl FnOnce() -> bool,
    ) -> bool {
        let last =
            entry.liveness() == Liveness::Live && entry.stateid().seqid == stateid.seqid.wrapping_add(1);
        last && self.slot.as_ref().is_some_and(SlotGuard::may_have_run_before) && done()
    }

    /// Whether this repeats an operation that ended the state of `stateid` and whose reply was lost in a restart.
    pub(super) fn is_release_retry(&self, stateid: StateId) -> bool {
        let known = |client: &Arc<Client>| self.state().entry(Caller::Session(client), stateid.other).is_ok();
        self.slot.as_ref().is_some_and(|slot| {
            let client = &slot.session.client;
            slot.may_have_run_before() && self.state().was_given_to(client, stateid.other) && !known(client)
        })
    }

    /// Makes the reply wait for a journaled change of the state.
    pub(super) fn wait_for_token(&mut self, token: DurabilityToken) {
        self.note_change();
        if let Some(volume) = self.service.volume(token.volume) {
            self.wait_for(volume, token.after);
        }
    }

    /// Recalls delegations for an operation of this COMPOUND.
    pub(super) fn recaller(&self) -> Recaller<'c, '_> {
        let client = self.slot.as_ref().map(|slot| &slot.session.client);
        Recaller { state: self.state(), context: self.state_context(), client }
    }

    /// Executes request `seqid` about an open of `file`, or about locks there, in the sequence of its owner.
    ///
    /// # Errors
    /// Those of [`SharedState::held`], and of [`Compound::in_owner_sequence`].
    pub(super) fn with_held(
        &mut self,
        kind: HeldKind,
        held: (FileId, StateId),
        seqid: u32,
        out: &mut Encoder<'_>,
        run: impl FnOnce(&mut Compound<'c>, &Arc<StateEntry>, &mut Encoder<'_>) -> Done,
    ) -> Done {
        let client = self.session_client();
        let caller = self.caller(client.as_ref())?;
        let entry = self.state().held(&self.state_context(), caller, held, kind)?;
        let sequence = entry.owner_sequence().ok_or(NfsStat4::BadStateId)?;
        self.in_owner_sequence(sequence, seqid, out, |compound, out| run(compound, &entry, out))
    }

    /// Whether an operation is a request in the sequence of an owner (RFC 7530 section 9.1.7).
    pub(super) fn has_owner_sequence(&self, operation: OpNum4) -> bool {
        self.minor == 0
            && matches!(
                operation,
                OpNum4::Close
                    | OpNum4::Lock
                    | OpNum4::Locku
                    | OpNum4::Open
                    | OpNum4::OpenConfirm
                    | OpNum4::OpenDowngrade
            )
    }

    /// Executes request `seqid` of an NFSv4.0 owner, or repeats its reply. Later versions have slots for that.
    pub(super) fn in_owner_sequence(
        &mut self,
        sequence: &OwnerSequence,
        seqid: u32,
        out: &mut Encoder<'_>,
        run: impl FnOnce(&mut Compound<'c>, &mut Encoder<'_>) -> Done,
    ) -> Done {
        if self.minor > 0 {
            return run(self, out);
        }
        if self.waits.only().is_err() {
            // What the owner remembers of the request must stay small. No real client changes several files before it in one COMPOUND.
            return Err(OpStop::Later);
        }
        let request = self.request_checksum(&self.checksums());
        let turn = match sequence.begin(seqid, request, self.now.steady) {
            SequenceCheck::Execute(turn) => turn,
            SequenceCheck::Replay(again) => return self.replay(&again, out),
            SequenceCheck::InProgress => return Err(OpStop::Later),
            SequenceCheck::Misordered => return Err(NfsStat4::BadSeqId.into()),
        };
        let at = out.position();
        // The owner counts NFS4ERR_DELAY, so it must be remembered, too.
        let done = if self.ends { Err(NfsStat4::Delay.into()) } else { run(self, out) };
        let mut reply = Vec::with_capacity(128);
        let length = out.position().saturating_sub(at) as u64;
        match &done {
            // The LOCK was denied, and the owner in the reply has too long a name to remember. Nothing was changed, so a repetition
            // can be answered with NFS4ERR_DELAY.
            Ok(()) if length > REPLY_BYTES_MAX => NfsStat4::Delay.encode(&mut Encoder::new(&mut reply)),
            Ok(()) => reply.extend_from_slice(out.buffer().get(at..).unwrap_or_default()),
            Err(OpStop::Status(status)) if counts(*status) => status.encode(&mut Encoder::new(&mut reply)),
            Err(_) => return done,
        }
        let current = match &self.current {
            Some(Target::Stored(object)) => Some(object.file_id()),
            _ => None,
        };
        let waits =
            self.waits.decisive().map(|(volume, after)| DurabilityToken { volume: volume.id(), after });
        let waits = waits.collect();
        turn.finish(ReplayEntry { request, reply: reply.into(), current, waits });
        done
    }

    /// Repeats a result, and sets the current filehandle as before.
    fn replay(&mut self, again: &ReplayEntry, out: &mut Encoder<'_>) -> Done {
        again.waits.iter().for_each(|token| self.wait_for_token(*token));
        let status = Decoder::new(&again.reply).u32().ok().and_then(NfsStat4::from_code);
        match status {
            Some(NfsStat4::Ok | NfsStat4::Denied) => {}
            Some(status) => return Err(status.into()),
            None => return Err(NfsStat4::ServerFault.into()),
        }
        if let (Some(file), Some(Target::Stored(object))) = (again.current, self.current)
            && file.volume == object.volume.id()
            && file.ino != object.ino
        {
            self.set_current(Target::Stored(object.beside(file.ino)))?;
        }
        out.raw(&again.reply);
        Ok(())
    }
}

/// The longest reply, in bytes, that is remembered for an owner of NFSv4.0, not counting what it waits for. Only denials are longer.
const REPLY_BYTES_MAX: u64 = OWNER_REPLY_BYTES - size_of::<DurabilityToken>() as u64;

/// Returns whether a failed request counts in the sequence of its owner (RFC 7530 section 9.1.7).
fn counts(status: NfsStat4) -> bool {
    !matches!(
        status,
        NfsStat4::StaleClientId
            | NfsStat4::StaleStateId
            | NfsStat4::BadStateId
            | NfsStat4::BadSeqId
            | NfsStat4::BadXdr
            | NfsStat4::Resource
            | NfsStat4::NoFileHandle
            | NfsStat4::Moved
    )
}
