//! The slots of a session: each request is executed once (RFC 8881 section 2.10.6).
//!
//! ```text
//!                     begin(last + 1)              finish(reply)
//!   Idle { last } ───────────────────▶ Taken ─────────────────────▶ Idle { last + 1, reply }
//!                                        │  dropped: nothing of it was executed
//!                                        └────────────────────────▶ Idle { last }
//! ```
//!
//! After a restart a slot is `Restored`: the journals name the highest sequence of which a modifying operation was
//! remembered, and any that is not below it may come. An equal one is executed again; what it changed is found
//! remembered, operation by operation.

use std::sync::Arc;

use parking_lot::Mutex;

use crate::state::DurabilityToken;

/// What was answered to the last request of a slot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum SlotReply {
    /// The whole reply, and what must be durable before it is sent.
    Cached(Arc<[u8]>, Option<DurabilityToken>),
    /// It was not to be kept (`sa_cachethis`): NFS4ERR_RETRY_UNCACHED_REP.
    NotCached,
}

#[derive(Debug)]
enum Last {
    /// Nothing yet, which counts as sequence 0.
    None,
    /// A restart forgot; any that is not below this one may come, or any at all.
    Restored(Option<u32>),
    /// This one, with the checksum of the request.
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
    /// Yes; before a restart it may have been.
    ExecuteAfterRestart,
    /// It is the last one again.
    Replay(SlotReply),
    /// The same sequence, but not the same request: NFS4ERR_SEQ_FALSE_RETRY.
    FalseRetry,
    /// It is being executed: NFS4ERR_DELAY.
    InProgress,
    /// NFS4ERR_SEQ_MISORDERED.
    Misordered,
}

impl Slot {
    /// One that was never used.
    pub(crate) fn new() -> Slot {
        Slot(Mutex::new(Inner { last: Last::None, taken: false }))
    }

    /// One of a session that a record names; `highest` is the highest sequence of which something is remembered.
    pub(crate) fn restored(highest: Option<u32>) -> Slot {
        Slot(Mutex::new(Inner { last: Last::Restored(highest), taken: false }))
    }

    /// Begins request `sequence`; [`Slot::finish`] or [`Slot::abandon`] must follow if it may go.
    pub(crate) fn begin(&self, sequence: u32, checksum: u64) -> SlotCheck {
        let mut inner = self.0.lock();
        let fits = match &inner.last {
            Last::None => sequence == 1,
            Last::Restored(None) => true,
            // The order of numbers that wrap around.
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

    /// The request that [`Slot::begin`] let go was answered.
    pub(crate) fn finish(&self, sequence: u32, checksum: u64, reply: SlotReply) {
        *self.0.lock() = Inner { last: Last::Answered { sequence, checksum, reply }, taken: false };
    }

    /// Nothing of the request was executed.
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
        slot.finish(sequence, 7, SlotReply::Cached(sequence.to_be_bytes()[..].into(), None));
    }

    #[test]
    fn a_request_is_executed_once() {
        let slot = Slot::new();
        assert!(matches!(slot.begin(0, 7), SlotCheck::Misordered));
        assert!(matches!(slot.begin(2, 7), SlotCheck::Misordered));
        go(&slot, 1);
        assert!(
            matches!(slot.begin(1, 7), SlotCheck::Replay(SlotReply::Cached(reply, None)) if *reply == [0, 0, 0, 1])
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
    fn the_sequence_wraps_around() {
        let slot = Slot::restored(Some(u32::MAX - 1));
        go(&slot, u32::MAX);
        go(&slot, 0);
        go(&slot, 1);
    }

    #[test]
    fn after_a_restart_what_was_remembered_may_be_repeated_and_nothing_older() {
        assert!(matches!(Slot::restored(None).begin(12, 7), SlotCheck::ExecuteAfterRestart));
        let slot = Slot::restored(Some(5));
        assert!(matches!(slot.begin(4, 7), SlotCheck::Misordered));
        assert!(matches!(slot.begin(5, 7), SlotCheck::ExecuteAfterRestart));
        slot.finish(5, 7, SlotReply::NotCached);
        assert!(matches!(slot.begin(7, 7), SlotCheck::Misordered));
    }
}
