//! Replies that wait: for durability in the order in which it comes, then for as long as the volume slows its callers.

use std::collections::BTreeMap;
use std::time::Instant;

use volume::request::Durable;

use crate::limits::HELD_OVERHEAD_BYTES;
use crate::net::output::Body;
use crate::net::workers::Owner;
use crate::protocol::calls::{Calls, Head, Wait};

/// A reply that may not leave yet.
pub(crate) struct Reply {
    pub(crate) owner: Owner,
    /// What it answers.
    pub(crate) head: Head,
    /// What is to leave.
    pub(crate) body: Body,
    /// Not before this, even if it is durable.
    pub(crate) not_before: Option<Instant>,
}

impl Reply {
    /// What it is counted with.
    pub(crate) fn held_bytes(&self) -> usize {
        self.body.held_bytes() + HELD_OVERHEAD_BYTES
    }
}

/// Of two that wait for the same volume, the one that waits for less comes first: durability is two counters that only
/// grow. One whose round is reached and whose sequence is not delays those behind it, but no longer than the next sync.
type Order = (usize, u64, u64, u64);

/// All replies of one loop that wait.
#[derive(Default)]
pub(crate) struct Parked {
    durability: BTreeMap<Order, (Wait, Reply)>,
    time: BTreeMap<(Instant, u64), Reply>,
    /// Tells replies apart that wait for the same.
    next: u64,
}

impl Parked {
    pub(crate) fn len(&self) -> usize {
        self.durability.len() + self.time.len()
    }

    /// Whether any waits for durability.
    pub(crate) fn awaits_durability(&self) -> bool {
        !self.durability.is_empty()
    }

    /// When the next reply that only waits for time may leave.
    pub(crate) fn next_time(&self) -> Option<Instant> {
        self.time.first_key_value().map(|((time, _), _)| *time)
    }

    /// Holds a reply back until its time.
    pub(crate) fn hold(&mut self, time: Instant, reply: Reply) {
        let number = self.next();
        self.time.insert((time, number), reply);
    }

    /// Holds a reply back until what it waits for is durable, and its time if it has one.
    pub(crate) fn park(&mut self, wait: Wait, reply: Reply) {
        let order = (wait.volume, wait.after.flush_generation, wait.after.seq.0, self.next());
        self.durability.insert(order, (wait, reply));
    }

    fn next(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    /// Hands `release` the replies that have become durable and whose time has come, and those whose effect is lost,
    /// with false.
    pub(crate) fn release(&mut self, calls: &dyn Calls, mut release: impl FnMut(Reply, bool)) {
        let mut now = None;
        let mut from = (0, 0, 0, 0);
        while let Some((order, (wait, _))) = self.durability.range(from..).next() {
            let (order, durable) = (*order, calls.durable(*wait));
            if durable == Durable::NotYet {
                // Nothing else of this volume that waits for as many rounds is ready: go on with more rounds or the
                // next volume.
                from = (order.0, order.1 + 1, 0, 0);
                continue;
            }
            let (_, reply) = self.durability.remove(&order).expect("it was found there");
            match (durable, reply.not_before) {
                (Durable::Failed, _) => release(reply, false),
                (_, Some(time)) if time > *now.get_or_insert_with(Instant::now) => {
                    self.hold(time, reply);
                }
                _ => release(reply, true),
            }
        }
        while let Some(entry) = self.time.first_entry() {
            if entry.key().0 > *now.get_or_insert_with(Instant::now) {
                break;
            }
            release(entry.remove(), true);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use nfs::service::{Connection, ConnectionId, Progress};
    use volume::bytes::Slice;
    use volume::ids::Seq;
    use volume::request::{Access, Durability};

    use super::*;
    use crate::protocol::calls::Handled;

    /// Volume 0 is durable up to a point; volume 1 has failed.
    struct Reached(Durability);

    impl Calls for Reached {
        fn handle(
            &self,
            _: &[u8],
            _: Connection,
            _: Access,
            _: &mut Option<Progress>,
            _: &mut Vec<u8>,
            _: &mut Vec<Slice>,
        ) -> Handled {
            Handled::Nothing
        }
        fn reply_bytes_max(&self, _: &[u8]) -> usize {
            0
        }
        fn lines(&self) -> usize {
            0
        }
        fn line_of(&self, _: &[u8]) -> Option<usize> {
            None
        }
        fn connection_closed(&self, _: ConnectionId) {}
        fn callback_failed(&self, _: u64) {}
        fn commit(&self, _: bool) -> bool {
            false
        }
        fn durable(&self, wait: Wait) -> Durable {
            let reached =
                wait.after.seq <= self.0.seq && wait.after.flush_generation <= self.0.flush_generation;
            match (wait.volume, reached) {
                (0, true) => Durable::Yes,
                (0, false) => Durable::NotYet,
                _ => Durable::Failed,
            }
        }
        fn failure_reply(&self, _: Head, _: &mut Vec<u8>) {}
    }

    fn park(parked: &mut Parked, volume: usize, seq: u64, round: u64, not_before: Option<Instant>) {
        let owner = Owner { index: usize::try_from(seq).unwrap(), generation: 0 };
        let reply = Reply { owner, head: Head::default(), body: Body::default(), not_before };
        parked.park(Wait { volume, after: Durability { seq: Seq(seq), flush_generation: round } }, reply);
    }

    fn released(parked: &mut Parked, seq: u64, round: u64) -> Vec<(usize, bool)> {
        let mut out = Vec::new();
        let reached = Reached(Durability { seq: Seq(seq), flush_generation: round });
        parked.release(&reached, |reply, durable| out.push((reply.owner.index, durable)));
        out
    }

    #[test]
    fn replies_leave_in_the_order_of_durability() {
        let mut parked = Parked::default();
        for seq in [9, 3, 5, 5] {
            park(&mut parked, 0, seq, 0, None);
        }
        park(&mut parked, 0, 4, 1, None);
        assert_eq!(released(&mut parked, 2, 0), []);
        assert_eq!(released(&mut parked, 5, 0), [(3, true), (5, true), (5, true)]);
        assert_eq!(released(&mut parked, 8, 1), [(4, true)], "more rounds are looked at too");
        assert_eq!(released(&mut parked, 9, 1), [(9, true)]);
        assert!(!parked.awaits_durability() && parked.len() == 0);
    }

    #[test]
    fn what_failed_is_said_at_once_and_does_not_hold_up_other_volumes() {
        let mut parked = Parked::default();
        park(&mut parked, 0, 7, 0, None);
        park(&mut parked, 1, 8, 0, None);
        assert_eq!(released(&mut parked, 0, 0), [(8, false)]);
        assert_eq!(parked.len(), 1);
    }

    #[test]
    fn a_durable_reply_may_have_to_wait_for_its_time() {
        let mut parked = Parked::default();
        let soon = Instant::now() + Duration::from_millis(20);
        park(&mut parked, 0, 1, 0, Some(soon));
        assert_eq!(released(&mut parked, 1, 0), []);
        assert_eq!(parked.next_time(), Some(soon));
        std::thread::sleep(Duration::from_millis(25));
        assert_eq!(released(&mut parked, 1, 0), [(1, true)]);
    }
}
