//! The sequence of an owner's requests in NFSv4.0 (RFC 7530 section 9.1.7): one at a time, and a repetition of the last
//! one gets the same reply.
//!
//! ```text
//!            begin(next)                     finish(reply)
//!   Idle ───────────────────▶ InProgress ───────────────────▶ Idle, next + 1, last reply
//!                               │  dropped: the request did not count
//!                               └──────────────────────▶ Idle, as before
//! ```

use std::sync::Arc;

use parking_lot::Mutex;
use volume::time::Time;

use crate::state::DurabilityToken;
use crate::state::config::OWNER_REPLY_BYTES;
use crate::state::ids::{FileId, Other};
use crate::state::shares::Held;

/// Which seqid is expected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    /// Any: the owner is new, or a restart lost its sequence.
    Any,
    /// This one.
    Is(u32),
}

/// The reply to an owner's last request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ReplayEntry {
    /// Distinguishes the request from others: another operation could not interpret the result, and another principal must
    /// not see it.
    pub(crate) request: u64,
    /// The result.
    pub(crate) reply: Arc<[u8]>,
    /// The current file after it.
    pub(crate) current: Option<FileId>,
    /// What the reply waits for.
    pub(crate) waits: Box<[DurabilityToken]>,
}

impl ReplayEntry {
    /// Returns its memory, in bytes, beyond what is counted with the owner.
    fn bytes(&self) -> u64 {
        ((self.reply.len() + size_of_val(&*self.waits)) as u64).saturating_sub(OWNER_REPLY_BYTES)
    }
}

#[derive(Debug)]
struct Inner {
    next: Next,
    taken: bool,
    /// The last request that counted, and its reply.
    last: Option<(u32, ReplayEntry)>,
    /// The memory of the owner, with that reply.
    counted: Option<Held>,
    /// The stateid that the last request closed. It stays known until the next request, so that a repetition finds it.
    closed: Option<Other>,
    /// Whether OPEN_CONFIRM was received; meaningless for lock owners.
    confirmed: bool,
    used: Time,
}

impl Inner {
    fn answer(&mut self, last: Option<(u32, ReplayEntry)>) {
        let bytes = |last: &Option<(u32, ReplayEntry)>| last.as_ref().map_or(0, |(_, again)| again.bytes());
        if let Some(counted) = &mut self.counted {
            counted.exchange(bytes(&self.last), bytes(&last));
        }
        self.last = last;
    }
}

/// The sequence of an owner's requests.
#[derive(Debug)]
pub(crate) struct OwnerSequence(Mutex<Inner>);

/// Whether a request may be executed.
#[derive(Debug)]
pub(crate) enum SequenceCheck<'a> {
    /// Yes.
    Execute(SequenceGuard<'a>),
    /// It repeats the last request.
    Replay(ReplayEntry),
    /// The owner's last request is still being executed: NFS4ERR_DELAY, or wait.
    InProgress,
    /// NFS4ERR_BAD_SEQID.
    Misordered,
}

impl OwnerSequence {
    /// Creates the sequence of a new owner.
    pub(crate) fn new(now: Time) -> OwnerSequence {
        OwnerSequence::with(now, false)
    }

    /// Creates the sequence of an owner that a record names: any seqid may come next.
    pub(crate) fn restored(now: Time, confirmed: bool) -> OwnerSequence {
        OwnerSequence::with(now, confirmed)
    }

    fn with(now: Time, confirmed: bool) -> OwnerSequence {
        let (next, taken, last, counted, closed) = (Next::Any, false, None, None, None);
        OwnerSequence(Mutex::new(Inner { next, taken, last, counted, closed, confirmed, used: now }))
    }

    /// Counts the last reply's memory with `counted`.
    pub(crate) fn counted(self, counted: Held) -> OwnerSequence {
        self.0.lock().counted = Some(counted);
        self
    }

    /// Begins the request with this seqid; `request` distinguishes it from others.
    pub(crate) fn begin(&self, seqid: u32, request: u64, now: Time) -> SequenceCheck<'_> {
        let mut inner = self.0.lock();
        if inner.taken {
            return SequenceCheck::InProgress;
        }
        inner.used = now;
        if let Some((last, reply)) = &inner.last
            && *last == seqid
        {
            return if reply.request == request {
                SequenceCheck::Replay(reply.clone())
            } else {
                SequenceCheck::Misordered
            };
        }
        if inner.next != Next::Any && inner.next != Next::Is(seqid) {
            return SequenceCheck::Misordered;
        }
        inner.taken = true;
        SequenceCheck::Execute(SequenceGuard { sequence: self, seqid })
    }

    /// Accepts any next seqid unless `seqid` repeats the last request, so that an unconfirmed owner can start again.
    pub(crate) fn restart_unless(&self, seqid: u32) {
        let mut inner = self.0.lock();
        if inner.last.as_ref().is_none_or(|(last, _)| *last != seqid) {
            inner.next = Next::Any;
            inner.answer(None);
        }
    }

    /// Sets the owner's first seqid, which came with a request of another owner.
    pub(crate) fn begin_with(&self, seqid: u32) {
        self.0.lock().next = Next::Is(seqid.wrapping_add(1));
    }

    /// Returns whether the owner was confirmed.
    pub(crate) fn is_confirmed(&self) -> bool {
        self.0.lock().confirmed
    }

    /// Confirms the owner.
    pub(crate) fn confirm(&self) {
        self.0.lock().confirmed = true;
    }

    /// Notes the stateid that the current request closes. Returns the one noted before, which can be forgotten.
    pub(crate) fn close(&self, other: Other) -> Option<Other> {
        self.0.lock().closed.replace(other)
    }

    /// Returns when the last request came.
    pub(crate) fn used(&self) -> Time {
        self.0.lock().used
    }

    /// Returns the stateid that the last request closed, for when the owner itself is forgotten.
    pub(crate) fn closed(&self) -> Option<Other> {
        self.0.lock().closed
    }
}

/// A request that is being executed. Dropped without [`SequenceGuard::finish`], it did not count.
#[derive(Debug)]
pub(crate) struct SequenceGuard<'a> {
    sequence: &'a OwnerSequence,
    seqid: u32,
}

impl SequenceGuard<'_> {
    /// Completes the request with this reply.
    pub(crate) fn finish(self, reply: ReplayEntry) {
        let mut inner = self.sequence.0.lock();
        inner.answer(Some((self.seqid, reply)));
        inner.next = Next::Is(self.seqid.wrapping_add(1));
    }
}

impl Drop for SequenceGuard<'_> {
    fn drop(&mut self) {
        self.sequence.0.lock().taken = false;
    }
}

#[cfg(test)]
mod tests {
    use volume::request::Durability;

    use super::*;
    use crate::state::config::Config;
    use crate::state::shares::{Resource, Shares};

    const REQUEST: u64 = 7;

    fn go(sequence: &OwnerSequence, seqid: u32, reply: &[u8]) {
        go_waiting(sequence, seqid, reply, Box::default());
    }

    fn go_waiting(sequence: &OwnerSequence, seqid: u32, reply: &[u8], waits: Box<[DurabilityToken]>) {
        match begin(sequence, seqid) {
            SequenceCheck::Execute(turn) => {
                turn.finish(ReplayEntry { request: REQUEST, reply: reply.into(), current: None, waits });
            }
            other => panic!("{seqid}: {other:?}"),
        }
    }

    fn begin(sequence: &OwnerSequence, seqid: u32) -> SequenceCheck<'_> {
        sequence.begin(seqid, REQUEST, Time::EPOCH)
    }

    #[test]
    fn owner_requests_execute_in_order_and_the_last_is_replayed() {
        let sequence = OwnerSequence::new(Time::EPOCH);
        go(&sequence, u32::MAX, b"a");
        go(&sequence, 0, b"b");
        assert!(matches!(begin(&sequence, 0), SequenceCheck::Replay(again) if *again.reply == *b"b"));
        assert!(matches!(sequence.begin(0, REQUEST + 1, Time::EPOCH), SequenceCheck::Misordered));
        assert!(matches!(begin(&sequence, 2), SequenceCheck::Misordered));
        assert!(matches!(begin(&sequence, u32::MAX), SequenceCheck::Misordered));
    }

    #[test]
    fn the_last_reply_is_counted_with_its_owner() {
        let shares = Shares::new(&Config::default());
        let holder = shares.holder([192, 0, 2, 1].into());
        let held = Held::new(&holder, Resource::StateBytes, 7);
        let sequence = OwnerSequence::new(Time::EPOCH).counted(held);
        let count = || shares.held(Resource::StateBytes);
        let token = DurabilityToken { volume: volume::ids::VolumeId(1), after: Durability::NOW };
        let longest = usize::try_from(OWNER_REPLY_BYTES).unwrap() - 2 * size_of::<DurabilityToken>();
        go_waiting(&sequence, 1, &vec![0; longest], [token; 2].into());
        assert_eq!(count(), 7, "it is counted with the owner");
        go_waiting(&sequence, 2, &vec![0; longest + 100], [token; 2].into());
        assert_eq!(count(), 107, "nothing is uncounted");
        sequence.restart_unless(9);
        assert_eq!(count(), 7);
        drop(sequence);
        assert_eq!(count(), 0);
    }

    #[test]
    fn owners_execute_one_request_at_a_time_and_forget_uncounted_ones() {
        let sequence = OwnerSequence::new(Time::EPOCH);
        go(&sequence, 1, b"a");
        let turn = begin(&sequence, 2);
        assert!(matches!(begin(&sequence, 2), SequenceCheck::InProgress));
        drop(turn);
        go(&sequence, 2, b"b");
    }
}
