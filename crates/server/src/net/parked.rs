//! Replies that wait: for durability, in the order in which it is reached, then until the throttling delay has passed.

use std::collections::BTreeMap;
use std::time::Instant;

use nfs::service::{CallId, ReplyBuffer, Wait};
use volume::ids::VolumeId;
use volume::request::{Durability, Durable};

use crate::admission::ConnectionKey;
use crate::limits::DEFERRED_OVERHEAD_BYTES;
use crate::net::output::held_bytes;

/// A reply that may not be sent yet.
pub(crate) struct ParkedReply {
    pub(crate) owner: ConnectionKey,
    /// The call it answers.
    pub(crate) call: CallId,
    pub(crate) reply: ReplyBuffer,
    /// The reply is not sent before this, even if it is durable.
    pub(crate) not_before: Option<Instant>,
}

impl ParkedReply {
    /// Returns the bytes that the budget counts for it.
    pub(crate) fn held_bytes(&self) -> usize {
        held_bytes(&self.reply) + DEFERRED_OVERHEAD_BYTES
    }
}

/// The order of replies that wait for the same volume. Durability is two counters that only grow, so the reply
/// with the lower ones comes first. A reply whose flush generation is reached but whose sequence number is not delays
/// the replies after it, but only until the next sync.
type Order = (VolumeId, u64, u64, u64);

/// The waiting replies of one loop.
#[derive(Default)]
pub(crate) struct Parked {
    durability: BTreeMap<Order, (Wait, ParkedReply)>,
    time: BTreeMap<(Instant, u64), ParkedReply>,
    /// Distinguishes replies that wait for the same.
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

    /// Returns when the next reply that waits only for time may be sent.
    pub(crate) fn next_time(&self) -> Option<Instant> {
        self.time.first_key_value().map(|((time, _), _)| *time)
    }

    /// Holds a reply back until its time.
    pub(crate) fn hold(&mut self, time: Instant, reply: ParkedReply) {
        let number = self.next();
        self.time.insert((time, number), reply);
    }

    /// Holds a reply back until what it waits for is durable, and its time if it has one.
    pub(crate) fn park(&mut self, wait: Wait, reply: ParkedReply) {
        let Durability { seq, flush_generation } = wait.durability;
        let order = (wait.volume.id(), flush_generation, seq.0, self.next());
        self.durability.insert(order, (wait, reply));
    }

    fn next(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    /// Passes to `release` the durable replies whose hold is over, with true, and those whose effect was lost, with
    /// false.
    pub(crate) fn release(
        &mut self,
        is_durable: impl Fn(&Wait) -> Durable,
        mut release: impl FnMut(ParkedReply, bool),
    ) {
        let mut now = None;
        let mut from = (VolumeId(0), 0, 0, 0);
        while let Some((order, (wait, _))) = self.durability.range(from..).next() {
            let (order, durable) = (*order, is_durable(wait));
            if durable == Durable::NotYet {
                // No other reply of this volume that waits for the same round is ready: go on with later rounds or the next
                // volume.
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
    use std::sync::Arc;
    use std::time::Duration;

    use volume::Volume;
    use volume::ids::Seq;

    use super::*;
    use crate::admission::origins::OriginKey;
    use crate::net::event_loop::tests::volume;

    /// Two volumes: the first is durable up to a point, the second has failed.
    struct Volumes([Arc<Volume>; 2]);

    impl Volumes {
        fn new() -> Volumes {
            Volumes([volume(1), volume(2)])
        }

        fn park(
            &self,
            parked: &mut Parked,
            number: usize,
            seq: u64,
            flush_generation: u64,
            not_before: Option<Instant>,
        ) {
            let owner = ConnectionKey {
                index: usize::try_from(seq).unwrap(),
                generation: 0,
                origin: OriginKey::default(),
            };
            let call = CallId { xid: 1, program: 1, version: 1, procedure: 1 };
            let reply = ParkedReply { owner, call, reply: ReplyBuffer::default(), not_before };
            let durability = Durability { seq: Seq(seq), flush_generation };
            parked.park(Wait { volume: Arc::clone(&self.0[number]), durability }, reply);
        }

        fn released(&self, parked: &mut Parked, seq: u64, flush_generation: u64) -> Vec<(usize, bool)> {
            let is_durable = |wait: &Wait| {
                let reached =
                    wait.durability.seq <= Seq(seq) && wait.durability.flush_generation <= flush_generation;
                match (wait.volume.id() == self.0[0].id(), reached) {
                    (true, true) => Durable::Yes,
                    (true, false) => Durable::NotYet,
                    _ => Durable::Failed,
                }
            };
            let mut out = Vec::new();
            parked.release(is_durable, |reply, durable| out.push((reply.owner.index, durable)));
            out
        }
    }

    #[test]
    fn replies_are_released_in_the_order_of_durability() {
        let (volumes, mut parked) = (Volumes::new(), Parked::default());
        for seq in [9, 3, 5, 5] {
            volumes.park(&mut parked, 0, seq, 0, None);
        }
        volumes.park(&mut parked, 0, 4, 1, None);
        assert_eq!(volumes.released(&mut parked, 2, 0), []);
        assert_eq!(volumes.released(&mut parked, 5, 0), [(3, true), (5, true), (5, true)]);
        assert_eq!(
            volumes.released(&mut parked, 8, 1),
            [(4, true)],
            "replies of later rounds are checked too"
        );
        assert_eq!(volumes.released(&mut parked, 9, 1), [(9, true)]);
        assert!(!parked.awaits_durability() && parked.len() == 0);
    }

    #[test]
    fn failed_volumes_release_their_replies_at_once() {
        let (volumes, mut parked) = (Volumes::new(), Parked::default());
        volumes.park(&mut parked, 0, 7, 0, None);
        volumes.park(&mut parked, 1, 8, 0, None);
        assert_eq!(volumes.released(&mut parked, 0, 0), [(8, false)]);
        assert_eq!(parked.len(), 1);
    }

    #[test]
    fn durable_replies_wait_for_their_time() {
        let (volumes, mut parked) = (Volumes::new(), Parked::default());
        let soon = Instant::now() + Duration::from_millis(20);
        volumes.park(&mut parked, 0, 1, 0, Some(soon));
        assert_eq!(volumes.released(&mut parked, 1, 0), []);
        assert_eq!(parked.next_time(), Some(soon));
        std::thread::sleep(Duration::from_millis(25));
        assert_eq!(volumes.released(&mut parked, 1, 0), [(1, true)]);
    }
}
