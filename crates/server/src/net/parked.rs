//! Replies that wait: for durability, in the order in which it is reached, then until the throttling delay has passed.

mod of_files;

use std::collections::BTreeMap;
use std::time::Instant;

use nfs::service::{CallId, ReplyBuffer, Wait};
use volume::ids::PoolId;
use volume::request::{Durability, Durable};

use crate::admission::ConnectionKey;
use crate::counters::tally::PendingCall;
use crate::limits::{DEFERRED_OVERHEAD_BYTES, RELEASED_AT_ONCE_MAX};
use crate::net::output::held_bytes;

use of_files::OfFiles;

/// A reply that may not be sent yet.
pub(crate) struct ParkedReply {
    pub(crate) owner: ConnectionKey,
    /// The call it answers.
    pub(crate) call: CallId,
    pub(crate) reply: ReplyBuffer,
    /// How its latency is counted.
    pub(crate) pending: PendingCall,
    /// The reply is not sent before this, even if it is durable.
    pub(crate) not_before: Option<Instant>,
}

impl ParkedReply {
    /// Returns the bytes that the budget counts for it.
    pub(crate) fn held_bytes(&self) -> usize {
        held_bytes(&self.reply) + DEFERRED_OVERHEAD_BYTES
    }
}

/// The order of replies that wait for the same pool. Durability is two counters that only grow, so the reply
/// with the lower ones comes first. A reply whose flush generation is reached but whose sequence number is not delays
/// the replies after it, but only until the next sync.
type Order = (PoolId, u64, u64, u64);

/// The waiting replies of one loop.
pub(crate) struct Parked {
    durability: BTreeMap<Order, (Wait, ParkedReply)>,
    /// Those that wait for a flush to save one file: in which order that happens is not known.
    of_files: BTreeMap<PoolId, OfFiles>,
    time: BTreeMap<(Instant, u64), ParkedReply>,
    /// Distinguishes replies that wait for the same.
    next: u64,
    /// The pool whose replies are looked at first the next time.
    first: PoolId,
}

impl Default for Parked {
    fn default() -> Parked {
        let (durability, of_files, time) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        Parked { durability, of_files, time, next: 0, first: PoolId(0) }
    }
}

impl Parked {
    pub(crate) fn len(&self) -> usize {
        self.durability.len() + self.time.len() + self.of_files.values().map(OfFiles::len).sum::<usize>()
    }

    /// Whether any waits for durability.
    pub(crate) fn awaits_durability(&self) -> bool {
        !self.durability.is_empty() || !self.of_files.is_empty()
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
        // Read before the flush is examined, so that files it saves from now on are noticed.
        let advances = wait.pool.flush_advances();
        let durability = wait.pool.outstanding(wait.durability);
        let (number, pool, wait) = (self.next(), wait.pool.pool_id(), Wait { durability, ..wait });
        let Durability { seq, flush } = durability;
        match flush.file {
            Some(file) if wait.pool.durability(durability) == Durable::NotYet => {
                let of_files = self.of_files.entry(pool).or_insert_with(|| OfFiles::new(advances));
                of_files.park(file, number, wait, reply);
            }
            // The file could not be saved, or never will be: nobody might look at it again.
            Some(_) => self.put_settled(number, wait, reply),
            None => drop(self.durability.insert((pool, flush.generation, seq.0, number), (wait, reply))),
        }
    }

    /// Puts a reply whose file was saved, or never will be, in the order of the others: what it may still wait for is an entry.
    fn put_settled(&mut self, number: u64, wait: Wait, reply: ParkedReply) {
        let order = (wait.pool.pool_id(), 0, wait.durability.seq.0, number);
        self.durability.insert(order, (wait, reply));
    }

    fn next(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    /// Passes to `release` the durable replies whose hold is over, with true, and those whose effect was lost, with
    /// false: at most [`RELEASED_AT_ONCE_MAX`] of those that wait for durability, and as many that wait for time. Returns whether
    /// there may be more. Pools take turns then.
    pub(crate) fn release(
        &mut self,
        is_durable: impl Fn(&Wait) -> Durable,
        mut release: impl FnMut(ParkedReply, bool),
    ) -> bool {
        let mut now = None;
        let (mut released, mut held) = (0, 0);
        let has_more = self.take_saved(&is_durable);
        let first = self.first;
        // From the first pool to the last one, then those before it.
        for (start, end) in [(first, None), (PoolId(0), Some(first))] {
            let mut from = (start, 0, 0, 0);
            while let Some((order, (wait, _))) = self.durability.range(from..).next() {
                if end.is_some_and(|end| order.0 >= end) {
                    break;
                }
                let (order, durable) = (*order, is_durable(wait));
                if durable == Durable::NotYet {
                    // No other reply of this pool that waits for the same round is ready: go on with later rounds or the
                    // next pool.
                    from = (order.0, order.1 + 1, 0, 0);
                    continue;
                }
                if released == RELEASED_AT_ONCE_MAX {
                    self.first = PoolId(order.0.0.wrapping_add(1));
                    return true;
                }
                released += 1;
                let (_, reply) = self.durability.remove(&order).expect("it was found there");
                match (durable, reply.not_before) {
                    (Durable::Failed, _) => release(reply, false),
                    (_, Some(time)) if time > *now.get_or_insert_with(Instant::now) => {
                        self.hold(time, reply);
                    }
                    _ => release(reply, true),
                }
            }
        }
        while let Some(entry) = self.time.first_entry() {
            if entry.key().0 > *now.get_or_insert_with(Instant::now) {
                break;
            }
            if held == RELEASED_AT_ONCE_MAX {
                return true;
            }
            held += 1;
            release(entry.remove(), true);
        }
        has_more
    }

    /// Puts replies whose file was saved, or never will be, in the order of the others. Returns whether there may be more.
    fn take_saved(&mut self, is_durable: impl Fn(&Wait) -> Durable) -> bool {
        let mut has_more = false;
        for (number, wait, reply) in of_files::take_saved(&mut self.of_files, is_durable, &mut has_more) {
            self.put_settled(number, wait, reply);
        }
        has_more
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use volume::attributes::SetAttributes;
    use volume::ids::{Ino, Seq};
    use volume::media::memory::MemoryMedia;
    use volume::request::{Access, Credentials, FlushWait, Journaled, Request};
    use volume::results::{CreateHow, Stability};
    use volume::time::Time;
    use volume::{Progress, Volume};

    use super::*;
    use crate::admission::origins::OriginKey;
    use crate::counters::operations::CallLabel;
    use crate::counters::phases::Timing;
    use crate::net::event_loop::tests::{volume, volume_on};

    /// Volumes of two pools: the first is durable up to a point, the second has failed.
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
            let flush = FlushWait { generation: flush_generation, file: None };
            self.park_after(parked, number, Durability { seq: Seq(seq), flush }, not_before);
        }

        fn park_after(
            &self,
            parked: &mut Parked,
            number: usize,
            durability: Durability,
            not_before: Option<Instant>,
        ) {
            let seq = durability.seq.0;
            let owner = ConnectionKey {
                index: usize::try_from(seq).unwrap(),
                generation: 0,
                origin: OriginKey::default(),
            };
            let call = CallId { xid: 1, program: 1, version: 1, procedure: 1 };
            let pending = PendingCall {
                label: CallLabel::default(),
                client: [192, 0, 2, 1].into(),
                timing: Timing::of_arrival(Time::EPOCH),
            };
            let reply = ParkedReply { owner, call, reply: ReplyBuffer::default(), pending, not_before };
            parked.park(Wait { pool: Arc::clone(self.0[number].pool()), durability }, reply);
        }

        fn released(&self, parked: &mut Parked, seq: u64, flush_generation: u64) -> Vec<(usize, bool)> {
            let is_durable = |wait: &Wait| {
                let reached =
                    wait.durability.seq <= Seq(seq) && wait.durability.flush.generation <= flush_generation;
                match (wait.pool.pool_id() == self.0[0].pool_id(), reached) {
                    (true, true) => Durable::Yes,
                    (true, false) => Durable::NotYet,
                    _ => Durable::Failed,
                }
            };
            let mut out = Vec::new();
            let has_more =
                parked.release(is_durable, |reply, durable| out.push((reply.owner.index, durable)));
            assert_eq!(has_more, out.len() == RELEASED_AT_ONCE_MAX);
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
    fn many_replies_are_released_in_parts_and_volumes_take_turns() {
        let (volumes, mut parked) = (Volumes::new(), Parked::default());
        for seq in 0..3000 {
            volumes.park(&mut parked, 0, seq, 0, None);
            volumes.park(&mut parked, 1, seq, 0, None);
        }
        let mut of_volume = [0, 0];
        let mut rounds = 0;
        while parked.len() > 0 {
            let left = parked.len();
            let out = volumes.released(&mut parked, 3000, 0);
            assert_eq!(out.len(), left.min(RELEASED_AT_ONCE_MAX));
            for (_, durable) in out {
                of_volume[usize::from(!durable)] += 1;
            }
            rounds += 1;
            let both = of_volume.iter().all(|count| *count > 0);
            assert!(both || rounds < 2, "one volume does not stop the other: {of_volume:?}");
        }
        assert_eq!(of_volume, [3000, 3000]);
    }

    /// Makes a file of the first volume, with unstable data, and returns what a COMMIT of it waits for.
    fn committed(volume: &Volume, name: &str, writes: &[usize]) -> Durability {
        let credentials = Credentials::root();
        let access = Access::Blocking;
        let request = Request { credentials: &credentials, now: Time::EPOCH, access, key: None };
        let how = CreateHow::Unchecked(SetAttributes::default());
        let made =
            volume.create_file(&request, Ino::ROOT, name.as_bytes(), &how, &mut |_| Journaled::default());
        let file = made.unwrap().value.attributes.ino;
        for (number, length) in (0..).zip(writes) {
            volume.write(&request, file, number << 20, &vec![1; *length][..], Stability::Unstable).unwrap();
        }
        volume.commit(&request, file, 0, 0).unwrap().after
    }

    #[test]
    fn replies_for_a_file_leave_when_it_is_saved() {
        let (volumes, mut parked) = (Volumes::new(), Parked::default());
        let volume = &volumes.0[0];
        let step = || volume.pool().step_write_back(Time::EPOCH, false, true);
        assert_eq!(step(), Progress::Idle, "it only makes room");
        let slow = committed(volume, "much", &[1 << 20; 4]);
        let fast = ["a", "b"].map(|name| committed(volume, name, &[200 << 10]));
        for wait in [slow, fast[0], fast[1], fast[1]] {
            volumes.park_after(&mut parked, 0, wait, None);
        }
        let released = |parked: &mut Parked| {
            let mut count = 0;
            let has_more = parked.release(
                |wait| wait.pool.durability(wait.durability),
                |_, durable| {
                    assert!(durable);
                    count += 1;
                },
            );
            assert!(!has_more);
            count
        };
        assert_eq!(released(&mut parked), 0);
        assert_eq!(step(), Progress::Worked);
        assert_eq!((released(&mut parked), parked.len()), (3, 1), "of the small files");
        assert!(parked.awaits_durability());
        // A reply that comes late does not wait for the flush.
        volumes.park_after(&mut parked, 0, fast[0], None);
        assert_eq!(released(&mut parked), 1);
        while step() == Progress::Worked {}
        assert_eq!((released(&mut parked), parked.len()), (1, 0));
    }

    #[test]
    fn a_reply_for_a_file_that_could_not_be_saved_leaves_though_it_comes_late() {
        let media = MemoryMedia::always_powered(16 << 20, 4 << 30);
        let (volumes, mut parked) =
            (Volumes([volume_on(Arc::clone(&media), 1), volume(2)]), Parked::default());
        let volume = &volumes.0[0];
        let early = committed(volume, "a", &[200 << 10]);
        let late = committed(volume, "b", &[200 << 10]);
        volumes.park_after(&mut parked, 0, early, None);
        media.refuse_appends(true);
        volume.pool().step_write_back(Time::EPOCH, false, true);
        let release = |parked: &mut Parked| {
            let mut out = Vec::new();
            parked
                .release(|wait| wait.pool.durability(wait.durability), |_, is_durable| out.push(is_durable));
            out
        };
        assert_eq!(release(&mut parked), [false]);
        volumes.park_after(&mut parked, 0, early, None);
        volumes.park_after(&mut parked, 0, late, None);
        assert_eq!((release(&mut parked), parked.len()), (vec![false, false], 0));
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
