//! The checker: compares each answer with everything that clients were told before.

use std::collections::BTreeSet;

use wire::nfs4::*;

use super::client::{Names, Phase, shared_name};
use super::message::Results;
use super::op::{Op, REGION_BYTES, REGIONS, region_offset, region_value};
use super::server::LEASE;
use super::state::{HeldState, StateKind, apply};
use super::world::World;

/// Whether the status tells a client that its state is gone.
fn is_state_lost(status: NfsStat4) -> bool {
    matches!(
        status,
        NfsStat4::BadSession | NfsStat4::DeadSession | NfsStat4::StaleClientId | NfsStat4::Expired
    )
}

/// Whether the status says that the server does not know a stateid, or no longer.
fn is_bad_stateid(status: NfsStat4) -> bool {
    matches!(
        status,
        NfsStat4::BadStateId
            | NfsStat4::OldStateId
            | NfsStat4::StaleStateId
            | NfsStat4::DelegRevoked
            | NfsStat4::AdminRevoked
            | NfsStat4::Expired
    )
}

/// Whether a failure advances the seqid of an NFSv4.0 owner (RFC 7530 section 9.1.7).
fn advances_seqid(status: NfsStat4) -> bool {
    !matches!(
        status,
        NfsStat4::StaleClientId
            | NfsStat4::StaleStateId
            | NfsStat4::BadStateId
            | NfsStat4::BadSeqId
            | NfsStat4::BadXdr
            | NfsStat4::Resource
            | NfsStat4::NoFileHandle
    )
}

impl World {
    fn lease(&self) -> i64 {
        i64::try_from(LEASE.as_nanos()).expect("a short lease")
    }

    /// Judges the server's answer to a call.
    pub(super) fn judge_answer(
        &mut self,
        number: usize,
        received_at: i64,
        bytes: &[u8],
    ) -> Result<(), String> {
        let call = &self.calls[number];
        let (client, op) = (call.client, call.op.clone());
        let results = Results::parse(bytes, call.xid).map_err(|wrong| format!("call {number}: {wrong}"))?;
        let status = results.status;
        self.note(|| format!("      the server answers {number}: {status:?}"));
        let context =
            |wrong: String| format!("call {number} of client {client}, {op:?}, {status:?}: {wrong}");
        self.note_contact(client, received_at, &results, &op);
        self.calls[number].received_at = received_at;
        if results.is_slot_refused() {
            return self.judge_refusal(number, status).map_err(context);
        }
        let call = &self.calls[number];
        if let Some(before) = &call.answer {
            let same = before == bytes;
            let first = Results::parse(before, call.xid)?;
            let repeatable = op.is_read_only() || matches!(op, Op::Exchange | Op::Bind | Op::Commit { .. });
            let is_nfs40 = self.clients[client].minor == 0;
            // An NFSv4.0 server cannot recognize a repeated DELEGRETURN.
            let returned = matches!(op, Op::Return { .. }) && is_bad_stateid(status);
            let gone = self.clients[client].overdue || self.clients[client].phase == Phase::Gone;
            let expired = (is_state_lost(status) || is_bad_stateid(status)) && gone;
            // The server checks delegations first, and may have granted one since.
            let delayed = status == NfsStat4::Delay;
            let again = is_nfs40 && (first.status == status || returned || expired || delayed);
            if let (true, NfsStat4::Ok, Op::Write { file, region, value, .. }) = (is_nfs40, status, &op) {
                // An NFSv4.0 server cannot recognize a repeated WRITE, and writes again.
                self.files[*file].regions[*region].values.push(*value);
            }
            // The server forgets owners unused for a lease, and their cached replies. It remembers no delay for a
            // recall: what is sent again may find the delegation returned.
            let forgotten = self.clients[client].overdue && first.status != NfsStat4::Ok;
            let anew = is_nfs40 && (forgotten || first.status == NfsStat4::Delay);
            if same || repeatable || again {
                return Ok(());
            } else if !anew {
                return Err(context(format!("it was answered with {first:?} before, now with {results:?}")));
            }
        }
        let call = &mut self.calls[number];
        call.answer = Some(bytes.to_vec());
        if status == NfsStat4::Ok {
            self.judge_success(number, &op, &results).map_err(context)
        } else {
            self.judge_failure(number, &op, status).map_err(context)
        }
    }

    /// Notes that the server received a request that may renew the client's lease.
    fn note_contact(&mut self, client: usize, now: i64, results: &Results<'_>, op: &Op) {
        let lease = self.lease();
        if self.now - self.clients[client].contact > lease {
            self.may_have_expired(client);
        }
        let heard = &mut self.clients[client];
        let known = match results.all.first() {
            Some(ResOp4::Sequence(result)) => result.is_ok(),
            _ if heard.minor > 0 => {
                matches!(op, Op::CreateSession | Op::Bind) && results.status == NfsStat4::Ok
            }
            _ if matches!(op, Op::Renew) => {
                matches!(results.status, NfsStat4::Ok | NfsStat4::CbPathDown)
            }
            _ => {
                let renews = op.uses().is_some() || matches!(op, Op::Open { .. } | Op::ConfirmClient);
                results.status == NfsStat4::Ok && renews
            }
        };
        if known {
            heard.contact = heard.contact.max(now);
        }
    }

    /// Notes that a client was silent for longer than a lease.
    pub(super) fn may_have_expired(&mut self, client: usize) {
        self.clients[client].overdue = true;
        self.held.iter_mut().filter(|held| held.client == client).for_each(|held| held.certain = false);
    }

    /// Judges a request refused by its slot.
    fn judge_refusal(&mut self, number: usize, status: NfsStat4) -> Result<(), String> {
        let call = &self.calls[number];
        let client = &self.clients[call.client];
        let current = client.phase != Phase::Gone && client.slots[call.slot].outstanding == Some(number);
        match status {
            // The first transmission is still executing.
            NfsStat4::Delay => Ok(()),
            _ if !current => Ok(()),
            _ if is_state_lost(status) && client.overdue => Ok(()),
            NfsStat4::RetryUncachedRep if call.op.is_read_only() => Ok(()),
            _ => Err("the slot refuses its next or last request".to_owned()),
        }
    }

    /// Checks that the server had a reason to allow what conflicts with held state.
    fn resolve_conflicts(&mut self, forbids: impl Fn(&HeldState) -> bool) -> Result<(), String> {
        // State that is not certain may or may not exist, in whole or in part.
        while let Some(at) = self.held.iter().position(|held| held.certain && forbids(held)) {
            let held = self.held[at].clone();
            let silence = self.now - self.clients[held.client].contact;
            let overdue = held.recalled.is_some_and(|since| self.now - since >= self.lease());
            let is_delegation = matches!(held.kind, StateKind::Delegation { .. });
            if overdue || silence > self.lease() {
                self.held[at].revoke();
            }
            if silence > self.lease() {
                self.tally.expired += 1;
                for other in self.held.iter_mut().filter(|other| other.client == held.client) {
                    // A delegation may have been revoked alone.
                    other.certain = false;
                    other.revoked |= !is_delegation;
                }
            } else if !overdue {
                return Err(format!("{held:?} conflicts"));
            }
        }
        Ok(())
    }

    fn judge_success(&mut self, number: usize, op: &Op, results: &Results<'_>) -> Result<(), String> {
        let (client, slot) = (self.calls[number].client, self.calls[number].slot);
        // An operation that returns state may have done so before a crash, and a crash may restore a delegation.
        let again = match op {
            Op::Close { .. } => self.calls[number].answered_before_crash,
            Op::Return { .. } => self.tally.crashes > 0,
            Op::Read { stateid, .. } | Op::Write { stateid, .. } => {
                self.returned_before_crash.contains(&stateid.other)
            }
            _ => false,
        };
        if let Some(stateid) = op.uses().filter(|_| !again) {
            self.check_stateid(number, op, stateid)?;
        }
        match op {
            Op::CreateSession | Op::ConfirmClient => {
                let name = self.clients[client].name.clone();
                let clients = &self.clients;
                let replaced = self
                    .held
                    .extract_if(.., |held| held.client != client && clients[held.client].name == name);
                self.replaced.extend(replaced.map(|held| (held.stateid.other, self.now)));
            }
            Op::Open { file, access, deny, .. } => {
                self.resolve_conflicts(|held| {
                    held.file == *file && held.conflicts_with_open(client, slot, *access, *deny)
                })?;
                self.learn_handle(*file, results)?;
                self.judge_grant(client, *file, results)?;
            }
            Op::Lock { file, range, exclusive, .. } => {
                self.resolve_conflicts(|held| {
                    held.file == *file && held.conflicts_with_lock(client, slot, *range, *exclusive)
                })?;
                self.tally.locks += 1;
            }
            Op::Write { file, region, value, .. } => {
                self.resolve_conflicts(|held| held.file == *file && held.conflicts_with_io(client, true))?;
                self.files[*file].regions[*region].values.push(*value);
            }
            Op::Truncate { file, .. } if self.calls[number].answered_before_crash => {
                return self.judge_truncated(number, *file);
            }
            Op::Truncate { file, .. } => {
                self.resolve_conflicts(|held| held.file == *file && held.conflicts_with_io(client, true))?;
                self.files[*file].regions.iter_mut().for_each(|region| region.values.push(0));
            }
            Op::Read { file, region, .. } => {
                self.resolve_conflicts(|held| held.file == *file && held.conflicts_with_io(client, false))?;
                self.judge_data(*file, *region, results)?;
            }
            _ => {}
        }
        if let Some(file) = op.file() {
            let region_marks = self.files[file].regions.iter().map(|region| region.values.len() - 1);
            self.calls[number].region_marks = std::array::from_fn(|_| 0);
            for (mark, at) in self.calls[number].region_marks.iter_mut().zip(region_marks) {
                *mark = at;
            }
        }
        self.check_issued(client, op, results)?;
        apply(&mut self.held, (client, slot), op, results);
        Ok(())
    }

    /// Judges a TRUNCATE repeated after a crash: the first one may or may not have been lost.
    fn judge_truncated(&mut self, number: usize, file: usize) -> Result<(), String> {
        // If it was not executed now, its answer proves nothing about later writes.
        self.calls[number].region_marks = [0; REGIONS];
        let Some(handle) = self.files[file].handle.clone() else { return Ok(()) };
        for region in 0..REGIONS {
            let bytes = self.server.bytes_of(&handle, region_offset(region), REGION_BYTES, self.now);
            let found = bytes.as_deref().and_then(region_value);
            let values = &mut self.files[file].regions[region].values;
            match found {
                _ if found == values.last().copied() => {}
                Some(0) => {
                    values.push(0);
                    self.calls[number].region_marks[region] = values.len() - 1;
                }
                _ => return Err(format!("{bytes:02x?} are in region {region}, which was not written last")),
            }
        }
        Ok(())
    }

    /// Checks that an accepted stateid is held, and for this file.
    fn check_stateid(&mut self, number: usize, op: &Op, stateid: Stateid4) -> Result<(), String> {
        let call = &self.calls[number];
        let (client, received_at) = (call.client, call.received_at);
        let was_held = self.replaced.get(&stateid.other).is_some_and(|until| received_at <= *until);
        let file = op.file();
        let of_it = |held: &&mut HeldState| {
            held.client == client
                && !held.revoked
                && held.stateid.other == stateid.other
                && file.is_none_or(|file| file == held.file)
        };
        match self.held.iter_mut().find(of_it) {
            Some(held) => {
                // An earlier seqid proves nothing about later changes.
                held.certain |= held.stateid.seqid == stateid.seqid;
                Ok(())
            }
            None if was_held => Ok(()),
            None => Err(format!("{stateid:?} is not held, or belongs to another file, but was accepted")),
        }
    }

    /// Checks that a stateid never names two things.
    fn check_issued(&mut self, client: usize, op: &Op, results: &Results<'_>) -> Result<(), String> {
        let Some(file) = op.file() else { return Ok(()) };
        let delegated = results.all.iter().find_map(|result| match result {
            ResOp4::Open(Ok(ok)) => match ok.delegation {
                OpenDelegation4::Read(given) => Some(given.stateid),
                OpenDelegation4::Write(given) => Some(given.stateid),
                _ => None,
            },
            _ => None,
        });
        for stateid in results.stateid().into_iter().chain(delegated) {
            let known = *self.issued.entry(stateid.other).or_insert((client, file));
            if known != (client, file) {
                return Err(format!("{stateid:?} belonged to client and file {known:?} before"));
            }
        }
        Ok(())
    }

    /// Learns the handle that an OPEN shows.
    fn learn_handle(&mut self, file: usize, results: &Results<'_>) -> Result<(), String> {
        let handle = results.handle().ok_or("no handle")?;
        match &self.files[file].handle {
            Some(known) if known != handle => Err("it opened another file".to_owned()),
            Some(_) => Ok(()),
            None => {
                self.files[file].handle = Some(handle.to_vec());
                Ok(())
            }
        }
    }

    /// Checks that no other client holds what conflicts with a granted delegation.
    fn judge_grant(&mut self, client: usize, file: usize, results: &Results<'_>) -> Result<(), String> {
        let given = results.all.iter().find_map(|result| match result {
            ResOp4::Open(Ok(ok)) => Some(ok.delegation),
            _ => None,
        });
        let write = match given {
            Some(OpenDelegation4::Write(_)) => true,
            Some(OpenDelegation4::Read(_)) => false,
            _ => return Ok(()),
        };
        self.tally.delegations += 1;
        self.resolve_conflicts(|held| {
            let conflicts = match held.kind {
                StateKind::Open { access, deny } => write || access & share_access::WRITE != 0 || deny != 0,
                StateKind::Delegation { write: its } => write || its,
                StateKind::Locks { .. } => false,
            };
            held.file == file && held.client != client && conflicts
        })
    }

    fn judge_data(&self, file: usize, region: usize, results: &Results<'_>) -> Result<(), String> {
        let Some(ResOp4::Read(Ok(read))) = results.all.last() else { return Err("no data".to_owned()) };
        let expected = self.files[file].regions[region].values.last().copied();
        match region_value(read.data) {
            found if found == expected => Ok(()),
            found => Err(format!("it reads {found:?}, but {expected:?} was written: {:02x?}", read.data)),
        }
    }

    fn judge_failure(&mut self, number: usize, op: &Op, status: NfsStat4) -> Result<(), String> {
        let call = &self.calls[number];
        let client = &self.clients[call.client];
        if status == NfsStat4::Delay {
            self.note_recall(call.client, op);
            return Ok(());
        }
        // Any failure is allowed for a client that is gone.
        if client.phase == Phase::Gone || is_state_lost(status) && client.overdue {
            return Ok(());
        }
        let stateid = op.uses().map(|stateid| stateid.other);
        let surely = self.held.iter().any(|held| Some(held.stateid.other) == stateid && held.certain);
        let allowed = match op {
            Op::Write { valid: false, .. } | Op::Read { valid: false, .. } => true,
            _ if is_bad_stateid(status) => !surely || client.overdue,
            // The file was removed, and the open that kept it was lost.
            Op::Commit { .. } => status == NfsStat4::Stale,
            _ if status == NfsStat4::Stale => !surely,
            Op::Exchange | Op::CreateSession | Op::SetClient | Op::ConfirmClient => is_state_lost(status),
            Op::Bind => is_state_lost(status) && client.overdue,
            // After a crash the server knows that it was done, but not that this is a retransmission.
            Op::Complete => status == NfsStat4::CompleteAlready && self.tally.crashes > 0,
            Op::Renew => status == NfsStat4::CbPathDown,
            Op::Open { name, .. } => status == NfsStat4::ShareDenied && !name.starts_with("own"),
            Op::Lock { .. } | Op::Test { .. } => status == NfsStat4::Denied || status == NfsStat4::OpenMode,
            Op::Read { .. } | Op::Write { .. } | Op::Truncate { .. } => status == NfsStat4::OpenMode,
            _ => false,
        };
        if allowed { Ok(()) } else { Err("it must not fail with this status".to_owned()) }
    }

    /// Notes that delegations which conflict with the operation are recalled, at the latest now.
    fn note_recall(&mut self, client: usize, op: &Op) {
        let Some(file) = op.file() else { return };
        let now = self.now;
        for held in
            self.held.iter_mut().filter(|held| held.file == file && held.conflicts_with_io(client, true))
        {
            held.recalled.get_or_insert(now);
        }
    }

    /// Notes that a delegation was recalled.
    pub(super) fn note_recalled(&mut self, other: [u8; 12]) {
        let now = self.now;
        if let Some(held) = self.held.iter_mut().find(|held| held.stateid.other == other) {
            held.recalled.get_or_insert(now);
        }
    }

    /// Updates a client that received an answer.
    pub(super) fn learn(&mut self, number: usize, results: &Results<'_>) -> Result<(), String> {
        let call = &self.calls[number];
        let (client, slot, op, region_marks) = (call.client, call.slot, call.op.clone(), call.region_marks);
        let status = results.status;
        self.tally.answered += 1;
        self.advance_seqids(client, slot, &op, status);
        if status != NfsStat4::Ok {
            self.learn_setup(client, results);
            self.learn_failure(client, slot, &op, status, results.is_slot_refused());
            return Ok(());
        }
        self.tally.succeeded += 1;
        self.learn_setup(client, results);
        let state = &mut self.clients[client].slots[slot];
        let last = state.names.pop();
        state.names.clear();
        state.names.extend(last);
        match &op {
            Op::Close { file, stateid } => state.old.push((*stateid, *file)),
            Op::Return { file, stateid } => state.returned.push((*stateid, *file)),
            _ => {}
        }
        apply(&mut state.known, (client, slot), &op, results);
        self.learn_duties(client, slot, &op, results);
        self.learn_safety(&op, region_marks, results);
        Ok(())
    }

    /// Advances the seqids of NFSv4.0 owners.
    fn advance_seqids(&mut self, client: usize, slot: usize, op: &Op, status: NfsStat4) {
        let state = &mut self.clients[client].slots[slot];
        if !advances_seqid(status) {
            return;
        }
        match op {
            Op::Open { .. } | Op::Confirm { .. } | Op::Close { .. } => state.open_seqid += 1,
            Op::Lock { locks: None, .. } => {
                state.open_seqid += 1;
                if status == NfsStat4::Ok {
                    state.lock_seqid += 1;
                }
            }
            Op::Lock { .. } | Op::Unlock { .. } => state.lock_seqid += 1,
            _ => {}
        }
    }

    fn learn_failure(&mut self, client: usize, slot: usize, op: &Op, status: NfsStat4, refused: bool) {
        let setup = matches!(op, Op::Exchange | Op::CreateSession | Op::SetClient | Op::ConfirmClient);
        if is_state_lost(status) || setup && status != NfsStat4::Delay {
            return self.end_client(client, true);
        }
        let state = &mut self.clients[client].slots[slot];
        if refused {
            // A read-only operation whose reply was not cached.
            return;
        }
        state.names.truncate(1);
        if let Some(stateid) = op.uses()
            && (is_bad_stateid(status) || status == NfsStat4::Stale)
        {
            state.known.retain(|held| {
                let of_it = matches!(&held.kind, StateKind::Locks { open, .. } if *open == stateid.other);
                held.stateid.other != stateid.other && !of_it
            });
            return;
        }
        // Duties are tried again.
        if status == NfsStat4::Delay && matches!(op, Op::Confirm { .. } | Op::Return { .. }) {
            state.duties.push_back(op.clone());
        }
    }

    fn learn_setup(&mut self, client: usize, results: &Results<'_>) {
        let told = &mut self.clients[client];
        match results.all.last() {
            Some(ResOp4::ExchangeId(Ok(ok))) => {
                (told.clientid, told.create_sequence) = (ok.clientid, ok.sequenceid);
                told.phase = Phase::HasClientId;
            }
            Some(ResOp4::CreateSession(Ok(ok))) => {
                told.sessionid = ok.sessionid;
                told.phase = Phase::HasSession;
            }
            Some(ResOp4::ReclaimComplete(Ok(()) | Err(NfsStat4::CompleteAlready))) => {
                told.phase = Phase::Ready;
            }
            Some(ResOp4::SetClientId(Ok(ok))) => {
                (told.clientid, told.confirm) = (ok.clientid, ok.setclientid_confirm);
                told.phase = Phase::HasClientId;
            }
            Some(ResOp4::SetClientIdConfirm(Ok(()))) => told.phase = Phase::Ready,
            Some(ResOp4::BindConnToSession(Ok(_))) => told.unbound = false,
            _ => {}
        }
    }

    /// Adds what a client must do after an OPEN.
    fn learn_duties(&mut self, client: usize, slot: usize, op: &Op, results: &Results<'_>) {
        if !matches!(op, Op::Open { .. }) {
            return;
        }
        let told = &mut self.clients[client];
        let state = &mut told.slots[slot];
        for result in &results.all {
            if let ResOp4::Open(Ok(ok)) = result
                && ok.rflags & open_result::CONFIRM != 0
            {
                state.duties.push_front(Op::Confirm { stateid: ok.stateid });
            }
        }
        let asked_back = state.known.iter().filter(|held| told.recalled.contains(&held.stateid.other));
        let returns: Vec<Op> =
            asked_back.map(|held| Op::Return { file: held.file, stateid: held.stateid }).collect();
        state.duties.extend(returns);
    }

    /// Notes which data a crash can no longer take back.
    fn learn_safety(&mut self, op: &Op, region_marks: [usize; REGIONS], results: &Results<'_>) {
        match (op, results.all.last()) {
            (Op::Write { file, region, value, .. }, Some(ResOp4::Write(Ok(ok))))
                if ok.committed != StableHow4::Unstable =>
            {
                let region = &mut self.files[*file].regions[*region];
                let at = region.values.iter().rposition(|known| known == value);
                region.safe = region.safe.max(at.unwrap_or(0));
            }
            (Op::Commit { file } | Op::Truncate { file, .. }, _) => {
                for (region, mark) in self.files[*file].regions.iter_mut().zip(region_marks) {
                    region.safe = region.safe.max(mark);
                }
            }
            _ => {}
        }
    }

    /// Judges the state after a crash: all acknowledged state exists, and all existing state was requested.
    pub(super) fn judge_crash(&mut self) -> Result<(), String> {
        for file in 0..self.files.len() {
            let Some(handle) = self.files[file].handle.clone() else { continue };
            for region in 0..REGIONS {
                let offset = region_offset(region);
                let bytes = self.server.bytes_of(&handle, offset, REGION_BYTES, self.now);
                let Some(bytes) = bytes else { break };
                let state = &mut self.files[file].regions[region];
                let possible = &state.values[state.safe..];
                let found = region_value(&bytes).filter(|value| possible.contains(value));
                let found = found.ok_or_else(|| {
                    format!("after a crash file {file} has {bytes:02x?} at {offset}, not one of {possible:?}")
                })?;
                (state.values, state.safe) = (vec![found], 0);
            }
        }
        self.judge_names(false)?;
        let mut undelivered = BTreeSet::new();
        for call in &mut self.calls {
            if call.answer.take().is_some() && !call.delivered {
                call.answered_before_crash = true;
                undelivered.insert((call.client, call.slot));
            }
        }
        for held in &mut self.held {
            let durable = match &held.kind {
                StateKind::Open { deny, .. } => *deny != 0,
                StateKind::Locks { .. } => true,
                StateKind::Delegation { .. } => false,
            };
            // Whether the rest survived is unknown: it need not have been durable, or its client did not get the reply.
            held.certain &=
                durable && !held.not_yet_durable && !undelivered.contains(&(held.client, held.slot));
            held.recalled = None;
            // The crash may have undone the change for which the state was revoked.
            held.revoked = false;
        }
        self.forget_undelivered();
        for slot in self.clients.iter_mut().flat_map(|client| &mut client.slots) {
            self.returned_before_crash.extend(slot.returned.drain(..).map(|(returned, _)| returned.other));
        }
        Ok(())
    }

    /// Forgets stateids and handles that no client was told: the server may reuse them.
    fn forget_undelivered(&mut self) {
        let told: BTreeSet<[u8; 12]> = self
            .clients
            .iter()
            .flat_map(|client| &client.slots)
            .flat_map(|slot| {
                slot.known
                    .iter()
                    .map(|held| held.stateid.other)
                    .chain(slot.old.iter().map(|(old, _)| old.other))
            })
            .collect();
        self.issued.retain(|other, _| told.contains(other));
        for call in self.calls.iter().filter(|call| !call.delivered) {
            if let Op::Open { file, name, .. } = &call.op
                && name.starts_with("own")
            {
                self.files[*file].handle = None;
            }
        }
    }

    /// Compares the names in the root with the possible ones. With `ended`, no request is outstanding.
    pub(super) fn judge_names(&mut self, ended: bool) -> Result<(), String> {
        let mut found = self.server.names(self.now)?;
        for file in 0..self.plan.files {
            if !found.remove(&shared_name(file)) {
                return Err(format!("{} is missing", shared_name(file)));
            }
        }
        let slots = self.clients.iter_mut().flat_map(|client| &mut client.slots).map(|slot| &mut slot.names);
        let mut expected: Vec<&mut Vec<Names>> =
            slots.filter(|names| !names.is_empty()).chain(&mut self.abandoned).collect();
        for possible in &mut expected {
            let all: BTreeSet<&String> = possible.iter().flat_map(|names| names.keys()).collect();
            let mine: BTreeSet<&String> = all.into_iter().filter(|name| found.contains(*name)).collect();
            let matching = possible.iter().rposition(|names| names.keys().collect::<BTreeSet<_>>() == mine);
            let matching = matching.ok_or_else(|| {
                let possible: Vec<Vec<_>> = possible.iter().map(|names| names.keys().collect()).collect();
                format!("the names of a slot are {mine:?}, expected one of {possible:?} (ended: {ended})")
            })?;
            let received_at: Vec<String> = mine.into_iter().cloned().collect();
            for name in received_at {
                found.remove(&name);
            }
            possible.drain(..matching);
        }
        match found.first() {
            Some(name) => Err(format!("no client created {name}")),
            None => Ok(()),
        }
    }
}
