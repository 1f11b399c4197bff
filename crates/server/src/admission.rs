//! The order in which connections and calls are served, and the memory they may hold.
//!
//! [`Admission`] belongs to one event loop. Memory for a record is reserved when its length is known, and for a large
//! reply before its call runs. What does not fit waits: the connection of a record is *read-blocked*, that of a call
//! *reply-blocked*. A record that has begun can therefore always be completed, so no connections wait for each other. A
//! small call that has arrived needs no memory, and is served whatever others hold.
//!
//! Of those that wait, connections of origins that were fast go on first, of the origin that holds least before others.
//! One that waits only because its own origin has its share stops no other. If the first of the rest has waited for
//! [`WAIT_MAX`], an origin that holds more or was not as fast, or a peer that is slower than [`PACE_MIN`], gives its memory
//! up: its connection is closed.

use std::time::Duration;

use crate::limits::{PACE_MIN, SMALL_RECORD_BYTES_MAX, WAIT_MAX};

use budget::Budget;
use line::{Line, Waiter};
use origins::{Held, OriginKey};
use ready::{Ready, Turn};

pub(crate) mod budget;
pub(crate) mod line;
pub(crate) mod origins;
pub(crate) mod ready;
pub(crate) mod retry_queues;

/// Names a connection of a loop: its place in the table, and which of the connections that used the place over time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ConnectionKey {
    pub(crate) index: usize,
    pub(crate) generation: u64,
    pub(crate) origin: OriginKey,
}

/// What a blocked connection waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Want {
    /// To receive a record of `length` bytes, for which `counted` bytes are counted already.
    Record { length: usize, counted: usize },
    /// That its origin has fewer replies.
    Answer,
    /// To begin a reply of this number of bytes.
    Reply(usize),
}

/// The part of memory that is short.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Short {
    Requests,
    Replies,
}

/// A connection that holds memory because of its peer, as one that may have to give it up.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Holder {
    pub(crate) key: ConnectionKey,
    /// Its peer moved less than [`PACE_MIN`] lately, or it holds a part of a record for which memory is not reserved.
    pub(crate) is_slow: bool,
    /// Bytes that moved since the last tick.
    pub(crate) moved: usize,
    pub(crate) silent: Duration,
}

/// Which connections of a loop may be served now, and which are blocked until there is memory.
#[derive(Debug)]
pub(crate) struct Admission {
    pub(crate) budget: Budget,
    ready: Ready,
    read_blocked: Line,
    reply_blocked: Line,
}

impl Admission {
    /// Admits what fits into `limit` bytes.
    pub(crate) fn new(limit: usize) -> Admission {
        Admission {
            budget: Budget::new(limit),
            ready: Ready::default(),
            read_blocked: Line::default(),
            reply_blocked: Line::default(),
        }
    }

    /// Begins a turn: serves connections that are ready now, see [`Ready::turn`].
    pub(crate) fn turn(&self) -> Turn {
        self.ready.turn()
    }

    /// Returns the next connection of a turn. It may be closed.
    pub(crate) fn next(&mut self, turn: &mut Turn) -> Option<ConnectionKey> {
        self.ready.next(turn)
    }

    /// Whether a connection waits to be served.
    pub(crate) fn has_ready(&self) -> bool {
        !self.ready.is_empty()
    }

    /// Whether a connection waits for memory.
    pub(crate) fn is_short(&self) -> bool {
        !self.read_blocked.is_empty() || !self.reply_blocked.is_empty()
    }

    /// Queues a connection that can be served.
    pub(crate) fn push_ready(&mut self, key: ConnectionKey, is_heavy: bool) {
        self.ready.push(key, is_heavy);
    }

    /// Whether there is memory for what a connection wants, without overtaking another. What is small overtakes.
    pub(crate) fn may_go_on(&self, key: ConnectionKey, want: Want) -> bool {
        let overtakes = match want {
            // One that holds a part already gives memory back sooner if it goes on.
            Want::Record { length, counted } => {
                length > SMALL_RECORD_BYTES_MAX && counted == 0 && self.is_behind(key, &self.read_blocked)
            }
            Want::Answer => false,
            Want::Reply(_) => self.is_behind(key, &self.reply_blocked),
        };
        !overtakes && self.has_room(key, want)
    }

    /// Whether a connection must queue behind one that waits: one of its own origin, or one that would have room if less
    /// were held in all. Who waits for its own share alone stops nobody else.
    fn is_behind(&self, key: ConnectionKey, line: &Line) -> bool {
        line.has(key.origin) || line.fronts().any(|waiter| !self.is_over_share(waiter))
    }

    /// Whether a connection waits only because its origin has its share.
    pub(crate) fn is_over_share(&self, waiter: &Waiter) -> bool {
        self.fits(Held::default(), waiter.want)
    }

    /// Whether there is memory for whatever one read of a connection brings, and nobody waits for it.
    pub(crate) fn has_plenty(&self, key: ConnectionKey) -> bool {
        self.read_blocked.is_empty() && self.budget.has_plenty(key.origin)
    }

    /// Has a connection wait for memory.
    pub(crate) fn block(&mut self, key: ConnectionKey, want: Want) {
        let short = if matches!(want, Want::Reply(_)) { Short::Replies } else { Short::Requests };
        self.line(short).push(key, want);
    }

    /// Returns the blocked connections that go on next, in order: the first of each origin.
    pub(crate) fn next_blocked(&self, short: Short) -> Vec<Waiter> {
        let line = match short {
            Short::Requests => &self.read_blocked,
            Short::Replies => &self.reply_blocked,
        };
        line.first(|origin| self.budget.origins.rank(origin))
    }

    /// Removes the first blocked connection of an origin.
    pub(crate) fn unblock(&mut self, short: Short, origin: OriginKey) {
        self.line(short).pop(origin);
    }

    /// Removes a connection that is closed from those that wait for memory.
    pub(crate) fn forget(&mut self, key: ConnectionKey) {
        self.read_blocked.remove(key);
        self.reply_blocked.remove(key);
    }

    fn line(&mut self, short: Short) -> &mut Line {
        match short {
            Short::Requests => &mut self.read_blocked,
            Short::Replies => &mut self.reply_blocked,
        }
    }

    /// Whether there is memory for what a connection wants.
    pub(crate) fn has_room(&self, key: ConnectionKey, want: Want) -> bool {
        self.fits(self.budget.origins.held(key.origin), want)
    }

    /// Whether there is memory for what a connection wants whose origin holds `held`.
    fn fits(&self, held: Held, want: Want) -> bool {
        match want {
            Want::Record { length, counted } => {
                self.budget.may_answer(held) && self.budget.may_receive(held, length, counted)
            }
            Want::Answer => self.budget.may_answer(held),
            Want::Reply(bytes) => self.budget.may_reply(held, bytes),
        }
    }

    /// Returns the part of memory that keeps a connection waiting for what it wants.
    pub(crate) fn short_for(&self, key: ConnectionKey, want: Want) -> Short {
        match want {
            Want::Record { .. } if self.budget.may_answer(self.budget.origins.held(key.origin)) => {
                Short::Requests
            }
            _ => Short::Replies,
        }
    }

    /// Returns the holder of memory that gives way to a connection that has waited too long: a slow one, one of an origin whose
    /// standing is worse, or one of an origin that holds more than the waiting one would hold. Of these, one of the origin with
    /// the worst standing that holds most; of its connections, the slowest.
    pub(crate) fn gives_way(
        &self,
        waiter: &Waiter,
        holders: impl Iterator<Item = Holder>,
    ) -> Option<ConnectionKey> {
        if waiter.since.elapsed() < WAIT_MAX {
            return None;
        }
        let want = waiter.want;
        let (origins, short) = (&self.budget.origins, self.short_for(waiter.key, want));
        let held = |origin| match short {
            Short::Requests => origins.held(origin).requests,
            Short::Replies => origins.held(origin).replies,
        };
        let wanted = match want {
            Want::Record { length, counted } => length.saturating_sub(counted),
            Want::Answer => 0,
            // Twice the size of the reply is reserved, while it is made.
            Want::Reply(bytes) => bytes / 2,
        };
        let fair = held(waiter.key.origin) + wanted;
        let standing = origins.standing(waiter.key.origin);
        holders
            .filter(|holder| holder.key != waiter.key)
            .filter(|holder| {
                let origin = holder.key.origin;
                holder.is_slow || held(origin) > fair || origins.standing(origin) > standing
            })
            .max_by_key(|holder| {
                let origin = holder.key.origin;
                (origins.standing(origin), held(origin), usize::MAX - holder.moved, holder.silent)
            })
            .map(|holder| holder.key)
    }
}

/// Whether a peer is slow that moved so many bytes in this time.
pub(crate) fn is_slow(moved: usize, time: Duration) -> bool {
    u128::try_from(moved).is_ok_and(|moved| moved * 1000 < u128::from(PACE_MIN) * time.as_millis())
}

#[cfg(test)]
mod tests {
    use wire::limits::RECORD_BYTES_MAX;

    use super::*;
    use crate::limits::LOOP_BYTES_MIN;

    #[test]
    fn who_waits_for_its_own_share_stops_nobody_else() {
        let mut admission = Admission::new(LOOP_BYTES_MIN);
        let [greedy, other] = [(0, "192.0.2.1"), (1, "192.0.2.2")].map(|(index, address)| ConnectionKey {
            index,
            generation: 0,
            origin: admission.budget.origins.join(address.parse().unwrap()),
        });
        let want = Want::Record { length: RECORD_BYTES_MAX, counted: 0 };
        while admission.may_go_on(greedy, want) {
            admission.budget.count_requests(greedy.origin, 0, RECORD_BYTES_MAX);
        }
        admission.block(greedy, want);
        assert!(admission.is_over_share(&admission.next_blocked(Short::Requests)[0]));
        assert!(admission.may_go_on(other, want), "it fits");
        assert!(!admission.may_go_on(greedy, want), "it queues behind its own");
        while admission.has_room(other, want) {
            admission.budget.count_requests(other.origin, 0, RECORD_BYTES_MAX);
        }
        admission.block(other, want);
        let blocked = admission.next_blocked(Short::Requests);
        assert_eq!(
            blocked.iter().map(|waiter| admission.is_over_share(waiter)).collect::<Vec<_>>(),
            [false; 2]
        );
    }
}
