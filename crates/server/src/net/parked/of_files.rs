//! Replies that wait until a flush has saved one file.
//!
//! A flush saves the files in an order of its own, so any may be next. They are looked at only when the flush has saved some, and
//! a bounded number at a time.

use std::collections::BTreeMap;

use nfs::service::Wait;
use volume::ids::{Ino, ObjectId, PoolId, VolumeNumber};
use volume::request::{Durability, Durable};

use crate::limits::RELEASED_AT_ONCE_MAX;
use crate::net::parked::ParkedReply;

/// The file, then the order in which it is saved, and a number that distinguishes replies that wait for the same.
type Order = (ObjectId, u64, u64, u64);

/// Before all.
const START: Order = (ObjectId { volume: VolumeNumber(0), ino: Ino(0) }, 0, 0, 0);

/// The replies that wait for files of one pool.
pub(super) struct OfFiles {
    replies: BTreeMap<Order, (Wait, ParkedReply)>,
    /// How far its flushes had advanced when a look at all files began.
    advances: u64,
    /// How many more files to look at, at most, and from where on.
    left: usize,
    from: Order,
}

/// A reply, its number, and what it waits for.
type Taken = (u64, Wait, ParkedReply);

impl OfFiles {
    /// Returns an empty set. `advances` is how far the flushes of the pool have advanced.
    pub(super) fn new(advances: u64) -> OfFiles {
        OfFiles { replies: BTreeMap::new(), advances, left: 0, from: START }
    }

    pub(super) fn len(&self) -> usize {
        self.replies.len()
    }

    /// Holds a reply back until a flush has saved this file.
    pub(super) fn park(&mut self, file: ObjectId, number: u64, wait: Wait, reply: ParkedReply) {
        let Durability { seq, flush } = wait.durability;
        self.replies.insert((file, flush.generation, seq.0, number), (wait, reply));
    }

    /// Moves the replies whose file was saved, or never will be, to `out`, until it has [`RELEASED_AT_ONCE_MAX`], and looks at no
    /// more files than that. Returns whether to go on soon.
    fn take_saved(&mut self, is_durable: impl Fn(&Wait) -> Durable, out: &mut Vec<Taken>) -> bool {
        let Some((wait, _)) = self.replies.values().next() else { return false };
        let advances = wait.pool.flush_advances();
        if advances != self.advances {
            (self.advances, self.left) = (advances, self.replies.len());
        }
        for _ in 0..RELEASED_AT_ONCE_MAX {
            if self.left == 0 || out.len() == RELEASED_AT_ONCE_MAX {
                break;
            }
            self.left -= 1;
            let next = self.replies.range(self.from..).next().or_else(|| self.replies.first_key_value());
            let Some((order, (wait, _))) = next else { break };
            let order = *order;
            let outstanding = wait.pool.outstanding(wait.durability);
            let is_waiting = outstanding.flush.generation != 0 && is_durable(wait) == Durable::NotYet;
            if is_waiting {
                // No reply that waits for the same file is ready.
                self.from = (order.0, u64::MAX, u64::MAX, u64::MAX);
                continue;
            }
            let (wait, reply) = self.replies.remove(&order).expect("it was found there");
            self.from = order;
            out.push((order.3, Wait { durability: outstanding, ..wait }, reply));
        }
        self.left > 0
    }
}

/// Takes the replies of all pools whose file was saved, or never will be, with what they still wait for: a bounded number. Sets
/// `has_more` if there may be more.
pub(super) fn take_saved(
    pools: &mut BTreeMap<PoolId, OfFiles>,
    is_durable: impl Fn(&Wait) -> Durable,
    has_more: &mut bool,
) -> Vec<Taken> {
    let mut out = Vec::new();
    pools.retain(|_, of_files| {
        *has_more |= of_files.take_saved(&is_durable, &mut out);
        of_files.len() > 0
    });
    out
}
