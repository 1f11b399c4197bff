//! Sessions and their slots (RFC 8881 section 2.10).

use std::collections::VecDeque;

use wire::nfs4::{OpNum4, SequenceArgs, SequenceOk, SessionId4, sequence_status};

use super::results::Results;
use crate::client::cause::Cause;
use crate::error::LoadError;

/// What a COMPOUND of a session begins with, and who opens files in it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Caller<'a> {
    pub(crate) minor: u32,
    pub(crate) sequence: SequenceArgs,
    /// The open owner.
    pub(crate) owner: &'a [u8],
}

/// A call that waits for a slot: its thread, its lane and its part.
pub(crate) type WaitingCall = (u32, u32, u32);

/// A session of the fore channel. The slots in use are those that are neither free nor resting.
#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) id: SessionId4,
    /// The sequence ID of each slot's last request.
    sequences: Vec<u32>,
    /// Slots without a request, up to `target`.
    free: Vec<u32>,
    /// Slots without a request above `target`.
    resting: Vec<u32>,
    /// The highest slot that the server wants to be used.
    target: u32,
    /// Calls that wait for a slot, in order.
    pub(crate) waiting: VecDeque<WaitingCall>,
}

/// The results of a COMPOUND after those of SEQUENCE.
#[derive(Debug)]
pub(crate) enum Answer<'r> {
    Results(Results<'r>),
    /// The server asks for the call to be made again later.
    Delayed(Results<'r>),
}

/// Flags that say that the server no longer has the client's state.
const STATE_LOST: [(u32, &str); 5] = [
    (sequence_status::EXPIRED_ALL_STATE_REVOKED, "EXPIRED_ALL_STATE_REVOKED"),
    (sequence_status::EXPIRED_SOME_STATE_REVOKED, "EXPIRED_SOME_STATE_REVOKED"),
    (sequence_status::ADMIN_STATE_REVOKED, "ADMIN_STATE_REVOKED"),
    (sequence_status::LEASE_MOVED, "LEASE_MOVED"),
    (sequence_status::RESTART_RECLAIM_NEEDED, "RESTART_RECLAIM_NEEDED"),
];

impl Session {
    /// Makes a session with this many slots, at least one.
    pub(crate) fn new(id: SessionId4, slots: u32) -> Self {
        let slots = slots.max(1);
        Self {
            id,
            sequences: vec![0; slots as usize],
            // The lowest slot is used first.
            free: (0..slots).rev().collect(),
            resting: Vec::new(),
            target: slots - 1,
            waiting: VecDeque::new(),
        }
    }

    /// Returns the number of slots.
    pub(crate) fn slots(&self) -> u32 {
        u32::try_from(self.sequences.len()).expect("the count was a u32")
    }

    /// Whether a slot is free.
    pub(crate) fn has_free_slot(&self) -> bool {
        !self.free.is_empty()
    }

    /// Takes a slot for a request, if one is free.
    #[inline]
    pub(crate) fn take(&mut self) -> Option<u32> {
        let slot = self.free.pop()?;
        let sequence = &mut self.sequences[slot as usize];
        *sequence = sequence.wrapping_add(1);
        Some(slot)
    }

    /// Returns the SEQUENCE of the request in a slot. Only the slot itself matters to the server; the highest slot that may
    /// be in use stands for the one that is.
    #[inline]
    pub(crate) fn sequence(&self, slotid: u32) -> SequenceArgs {
        SequenceArgs {
            sessionid: self.id,
            sequenceid: self.sequences[slotid as usize],
            slotid,
            highest_slotid: self.slots() - 1,
            cachethis: false,
        }
    }

    /// Handles the reply to the request in a slot, and frees the slot.
    ///
    /// # Errors
    /// If SEQUENCE failed, the reply belongs to another request, or state is lost: the session cannot be used any more.
    #[inline]
    pub(crate) fn replied<'r>(
        &mut self,
        slot: u32,
        results: &'r [u8],
        cut: usize,
    ) -> Result<Answer<'r>, LoadError> {
        let mut results = Results::new(results, cut).map_err(|cause| lost(&cause))?;
        let sequence = match results.next::<SequenceOk>(OpNum4::Sequence) {
            Ok(sequence) => sequence,
            // The slot's sequence ID is not used up.
            Err(Cause::Status(..)) if results.is_delayed() => {
                let sequence = &mut self.sequences[slot as usize];
                *sequence = sequence.wrapping_sub(1);
                self.free(slot);
                return Ok(Answer::Delayed(results));
            }
            Err(cause) => return Err(lost(&cause)),
        };
        if (sequence.sessionid, sequence.slotid, sequence.sequenceid)
            != (self.id, slot, self.sequences[slot as usize])
        {
            return Err(LoadError::new("SEQUENCE: the reply is that of another request of the session"));
        }
        if let Some((_, name)) = STATE_LOST.iter().find(|(flag, _)| sequence.status_flags & flag != 0) {
            return Err(LoadError::new(format!("the server lost state of this client: SEQ4_STATUS_{name}")));
        }
        self.aim(sequence.target_highest_slotid);
        self.free(slot);
        Ok(if results.is_delayed() { Answer::Delayed(results) } else { Answer::Results(results) })
    }

    fn free(&mut self, slot: u32) {
        if slot <= self.target { self.free.push(slot) } else { self.resting.push(slot) }
    }

    /// Heeds the highest slot that the server wants to be used.
    #[inline]
    fn aim(&mut self, target: u32) {
        if target == self.target || target >= self.slots() && self.target == self.slots() - 1 {
            return;
        }
        self.target = target.min(self.slots() - 1);
        let idle: Vec<u32> = self.free.drain(..).chain(self.resting.drain(..)).collect();
        idle.into_iter().for_each(|slot| self.free(slot));
    }
}

fn lost(cause: &Cause) -> LoadError {
    LoadError::new(format!("the session is lost: {}", cause.explained()))
}
