//! The slots of a session: each request is executed once (RFC 8881 section 2.10.6).
//!
//! ```text
//!                  begin(last + 1)                  finish(reply)
//!   Idle { last } ────────────────▶ InProgress ─────────────────────▶ Idle { last + 1, reply }
//!                                       │  dropped: nothing of it was executed
//!                                       └───────────────────────────▶ Idle { last }
//! ```
//!
//! After a restart a slot is `Restored`: the journals name the highest sequence with a remembered modification, and any
//! sequence from that one on is accepted. A request with that sequence is executed again; each operation that
//! completed before finds its remembered result.

use std::sync::Arc;

use parking_lot::Mutex;

use crate::state::DurabilityToken;

/// The reply to the last request of a slot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum SlotReply {
    /// The whole reply, and what must be durable before it is sent.
    Cached(Arc<[u8]>, Box<[DurabilityToken]>),
    /// It was not to be cached (`sa_cachethis`): NFS4ERR_RETRY_UNCACHED_REP.
    NotCached,
}

#[derive(Debug)]
enum Last {
    /// No request yet; counts as sequence 0.
    None,
    /// A restart lost the last request. Sequences from this one on are accepted; any sequence, if it is none.
    Restored(Option<u32>),
    /// The last request, with the checksum of its operations.
    Answered { sequence: u32, checksum: u64, reply: SlotReply },
}

#[derive(Debug)]
struct Inner {
    last: Last,
    taken: bool,
}

/// One slot.
#[derive(Debug)]
pub(crate) struct Slot(Mutex<Inner>);

/// Whether a request may be executed.
#[derive(Debug)]
pub(crate) enum SlotCheck {
    /// Yes.
    Execute,
    /// Yes, but it may have been executed before a restart.
    ExecuteAfterRestart,
    /// It repeats the last request.
    Replay(SlotReply),
    /// It has the sequence of the last request but is another: NFS4ERR_SEQ_FALSE_RETRY.
    FalseRetry,
    /// It is being executed: NFS4ERR_DELAY.
    InProgress,
    /// NFS4ERR_SEQ_MISORDERED.
    Misordered,
}

impl Slot {
    /// Creates a slot that was never used.
    pub(crate) fn new() -> Slot {
        Slot(Mutex::new(Inner { last: Last::None, taken: false }))
    }

    /// Creates a slot of a session that a record names; `highest` is the highest sequence with a remembered
    /// modification.
    pub(crate) fn restored(highest: Option<u32>) -> Slot {
        Slot(Mutex::new(Inner { last: Last::Restored(highest), taken: false }))
    }

    /// Begins request `sequence`. If it may be executed, [`Slot::finish`] or [`Slot::abandon`] must follow.
    #[inline]
    pub(crate) fn begin(&self, sequence: u32, checksum: u64) -> SlotCheck {
        let mut inner = self.0.lock();
        let fits = match &inner.last {
            Last::None => sequence == 1,
            Last::Restored(None) => true,
            // Sequences wrap around.
            Last::Restored(Some(highest)) => sequence.wrapping_sub(*highest) < 1 << 31,
            Last::Answered { sequence: last, checksum: known, reply } => {
                if !inner.taken && sequence == *last {
                    let same = checksum == *known;
                    return if same { SlotCheck::Replay(reply.clone()) } else { SlotCheck::FalseRetry };
                }
                sequence == last.wrapping_add(1)
            }
        };
        if !fits {
            return SlotCheck::Misordered;
        }
        if inner.taken {
            return SlotCheck::InProgress;
        }
        inner.taken = true;
        if matches!(inner.last, Last::Restored(_)) {
            SlotCheck::ExecuteAfterRestart
        } else {
            SlotCheck::Execute
        }
    }

    /// Completes the request that [`Slot::begin`] let execute.
    pub(crate) fn finish(&self, sequence: u32, checksum: u64, reply: SlotReply) {
        *self.0.lock() = Inner { last: Last::Answered { sequence, checksum, reply }, taken: false };
    }

    /// Notes that nothing of the request was executed.
    pub(crate) fn abandon(&self) {
        self.0.lock().taken = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn go(slot: &Slot, sequence: u32) {
        assert!(
            matches!(slot.begin(sequence, 7), SlotCheck::Execute | SlotCheck::ExecuteAfterRestart),
            "{sequence}"
        );
        slot.finish(sequence, 7, SlotReply::Cached(sequence.to_be_bytes()[..].into(), Box::default()));
    }

    #[test]
    fn a_slot_executes_each_request_once() {
        let slot = Slot::new();
        assert!(matches!(slot.begin(0, 7), SlotCheck::Misordered));
        assert!(matches!(slot.begin(2, 7), SlotCheck::Misordered));
        go(&slot, 1);
        assert!(
            matches!(slot.begin(1, 7), SlotCheck::Replay(SlotReply::Cached(reply, _)) if *reply == [0, 0, 0, 1])
        );
        assert!(matches!(slot.begin(1, 8), SlotCheck::FalseRetry));
        assert!(matches!(slot.begin(0, 7), SlotCheck::Misordered));
        assert!(matches!(slot.begin(2, 9), SlotCheck::Execute));
        assert!(matches!(slot.begin(2, 9), SlotCheck::InProgress));
        assert!(matches!(slot.begin(1, 7), SlotCheck::Misordered));
        slot.abandon();
        assert!(matches!(slot.begin(2, 9), SlotCheck::Execute));
        slot.finish(2, 9, SlotReply::NotCached);
        assert!(matches!(slot.begin(2, 9), SlotCheck::Replay(SlotReply::NotCached)));
    }

    #[test]
    fn slot_sequences_wrap_around() {
        let slot = Slot::restored(Some(u32::MAX - 1));
        go(&slot, u32::MAX);
        go(&slot, 0);
        go(&slot, 1);
    }

    #[test]
    fn restored_slots_accept_remembered_sequences_and_later_ones() {
        assert!(matches!(Slot::restored(None).begin(12, 7), SlotCheck::ExecuteAfterRestart));
        let slot = Slot::restored(Some(5));
        assert!(matches!(slot.begin(4, 7), SlotCheck::Misordered));
        assert!(matches!(slot.begin(5, 7), SlotCheck::ExecuteAfterRestart));
        slot.finish(5, 7, SlotReply::NotCached);
        assert!(matches!(slot.begin(7, 7), SlotCheck::Misordered));
    }
}
