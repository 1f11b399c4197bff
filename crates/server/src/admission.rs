//! The order in which connections and calls are served, and the memory they may hold.
//!
//! [`Admission`] belongs to one event loop, and does no I/O. Memory for a record is reserved when its length is known, and
//! for a reply that may be long before its call runs. What does not fit waits: the connection of a record is *read-blocked*,
//! that of a call *reply-blocked*. A record that has begun can therefore always be completed, so no connections wait for each
//! other.
//!
//! A small call that has arrived needs no memory if it is executed at once. Whether it will be is not known before, so it is taken
//! in if it fits in case that it is kept, or if it is lent a little room for the try.
//!
//! Origins that are fast have a half of the memory, all others together have the other half ([`budget`]). In each half the
//! origins go on in turn, slow ones last. A connection that waits only because its own origin has its share blocks no
//! other. If one has waited for [`WAIT_MAX`](crate::limits::WAIT_MAX), long calls end ([`long_calls`]), or another connection has
//! to make room ([`eviction`]).

use std::time::Instant;

use crate::limits::{FAST_FIRST, SMALL_RECORD_BYTES_MAX, SMALL_REPLY_ROOM_MAX, SMALL_REQUESTS_BYTES};

use budget::{Asker, Budget, keeps_little, needs_short_room};
use line::{Line, Waiter};
use origins::{Half, Held, OriginKey, Standing};
use ready::{Ready, Turn};

pub(crate) mod budget;
pub(crate) mod candidates;
pub(crate) mod eviction;
pub(crate) mod line;
pub(crate) mod long_calls;
pub(crate) mod origins;
pub(crate) mod pace;
pub(crate) mod ready;
pub(crate) mod retry_queues;
#[cfg(test)]
mod simulation;
#[cfg(test)]
mod tests;

/// Bytes of small records or replies of a half that go on before large ones until one of these does.
const OVERTAKEN_BYTES_MAX: usize = SMALL_REQUESTS_BYTES / 2;

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
    /// To begin a reply that takes this number of bytes.
    Reply(usize),
}

impl Want {
    fn is_large(self) -> bool {
        match self {
            Self::Record { length, .. } => length > SMALL_RECORD_BYTES_MAX,
            Self::Answer => false,
            Self::Reply(bytes) => bytes > SMALL_REPLY_ROOM_MAX,
        }
    }

    /// Returns where a connection waits that wants this.
    fn blocked(self) -> Blocked {
        match self {
            Self::Record { .. } | Self::Answer => Blocked::Read,
            Self::Reply(_) => Blocked::Reply,
        }
    }
}

/// What a blocked connection does not do meanwhile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Blocked {
    Read,
    Reply,
}

impl Blocked {
    pub(crate) const BOTH: [Blocked; 2] = [Blocked::Read, Blocked::Reply];

    /// Returns its place in a pair.
    fn index(self) -> usize {
        usize::from(self == Self::Reply)
    }
}

/// The part of memory that is short.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Short {
    Requests,
    Replies,
}

impl Short {
    pub(crate) const BOTH: [Short; 2] = [Short::Requests, Short::Replies];
}

/// Which connections of a loop may be served now, and which are blocked until there is memory.
#[derive(Debug)]
pub(crate) struct Admission {
    pub(crate) budget: Budget,
    ready: Ready,
    read_blocked: Line,
    reply_blocked: Line,
    /// Whether a connection waited at the last pass, or later, whose origin is not fast.
    did_steady_wait: bool,
    /// For each line and half: the bytes of small records that went on before large ones, or of small replies that were not sent
    /// at once, since a large one went on.
    overtaken: [[usize; 2]; 2],
}

/// The blocked connections that may go on, in order: the first of each origin.
#[derive(Debug)]
pub(crate) struct Pass {
    blocked: Blocked,
    waiters: std::vec::IntoIter<Waiter>,
    /// For each half: a large record or reply waits, and not for its own share alone.
    has_large: [bool; 2],
    /// For each half: such a one found no room, so that others must not overtake it.
    is_stopped: [bool; 2],
}

impl Admission {
    /// Admits what fits into `limit` bytes.
    pub(crate) fn new(limit: usize) -> Admission {
        Admission {
            budget: Budget::new(limit),
            ready: Ready::default(),
            read_blocked: Line::default(),
            reply_blocked: Line::default(),
            did_steady_wait: false,
            overtaken: [[0; 2]; 2],
        }
    }

    /// Begins a turn: serves connections that are ready now, see [`Ready::turn`].
    pub(crate) fn turn(&self) -> Turn {
        self.ready.turn()
    }

    /// Ends a turn that took long, see [`Ready::end_turn`].
    pub(crate) fn end_turn(&mut self, turn: &mut Turn) {
        self.ready.end_turn(turn);
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

    /// Whether there is memory for what a connection wants, without overtaking another. What is small overtakes, as long as
    /// that does not keep what is large from going on.
    pub(crate) fn may_go_on(&mut self, key: ConnectionKey, want: Want) -> bool {
        let goes_on = self.has_turn(key, want) && self.has_room(key, want);
        if goes_on && let Want::Record { length, counted: 0 } = want {
            self.note_kept(key, Blocked::Read, length);
        }
        goes_on
    }

    /// Whether a call with a short reply may begin. It needs room only if it is not answered at once, so it waits only if others
    /// wait, and if its origin already keeps room for such replies.
    #[inline]
    pub(crate) fn may_begin_short(&self, key: ConnectionKey, bytes: usize) -> bool {
        self.reply_blocked.is_empty()
            || keeps_little(self.budget.origins.held(key.origin).kept_short, bytes)
            || self.has_turn(key, Want::Reply(bytes))
    }

    /// Whether a call that is not answered at once may keep room for its reply. Calls that wait for media keep it as long as these
    /// take, which may be seconds. So all room for short replies is bounded, and leaves enough for a large one.
    pub(crate) fn may_keep_reply(&self, origin: OriginKey, bytes: usize) -> bool {
        !needs_short_room(bytes) || self.budget.may_keep_short(self.asker(origin), bytes)
    }

    /// Whether a small record may be received that is in the socket completely, and fits in case that its call is kept.
    pub(crate) fn may_keep(&self, key: ConnectionKey, length: usize) -> bool {
        let want = Want::Record { length, counted: 0 };
        self.has_turn(key, want) && self.has_room(key, want)
    }

    /// Notes that bytes of a small record or reply are kept, which may have overtaken large ones.
    pub(crate) fn note_kept(&mut self, key: ConnectionKey, blocked: Blocked, bytes: usize) {
        if self.may_overtake(blocked, self.half(key.origin)) && self.is_behind(key, self.line(blocked)) {
            self.overtaken[blocked.index()][self.half(key.origin).index()] += bytes;
        }
    }

    /// Whether a connection need not wait behind others.
    fn has_turn(&self, key: ConnectionKey, want: Want) -> bool {
        // One that holds a part already gives memory back sooner if it goes on.
        if matches!(want, Want::Answer | Want::Record { counted: 1.., .. }) {
            return true;
        }
        let blocked = want.blocked();
        let overtakes = !want.is_large() && self.may_overtake(blocked, self.half(key.origin));
        overtakes || !self.is_behind(key, self.line(blocked))
    }

    /// Whether a connection must queue behind one that waits: one of its own origin, or one of its half that would have room
    /// if less were held in all. Who waits for its own share alone stops nobody else.
    fn is_behind(&self, key: ConnectionKey, line: &Line) -> bool {
        let half = self.half(key.origin);
        let stops = |waiter: &Waiter| self.half(waiter.key.origin) == half && !self.is_over_share(waiter);
        line.has(key.origin) || line.fronts().any(stops)
    }

    /// Whether a small record or reply may go on before a large one of this half. What small ones take is bounded, so that they
    /// cannot keep large ones waiting for ever.
    fn may_overtake(&self, blocked: Blocked, half: Half) -> bool {
        self.overtaken[blocked.index()][half.index()] < OVERTAKEN_BYTES_MAX
    }

    /// Whether a connection waits only because its origin has its share. One that has room now is about to go on.
    fn is_over_share(&self, waiter: &Waiter) -> bool {
        let asker = self.asker(waiter.key.origin);
        self.fits(Asker { held: Held::default(), ..asker }, waiter.want) && !self.fits(asker, waiter.want)
    }

    /// Whether the half of those that are not fast is theirs alone, since one of them waits, and not for its own share alone.
    fn is_divided(&self) -> bool {
        self.did_steady_wait && self.is_short()
    }

    fn half(&self, origin: OriginKey) -> Half {
        self.budget.origins.standing(origin).half()
    }

    fn asker(&self, origin: OriginKey) -> Asker {
        let half = self.half(origin);
        let is_confined = half == Half::Steady || self.is_divided();
        Asker { held: self.budget.origins.held(origin), half, is_confined }
    }

    /// Returns how many bytes of a connection may be read without looking at them first; zero while somebody waits for memory.
    pub(crate) fn unseen_max(&self, key: ConnectionKey) -> usize {
        if self.read_blocked.is_empty() { self.budget.unseen_max(self.asker(key.origin)) } else { 0 }
    }

    /// Has a connection wait for memory.
    pub(crate) fn block(&mut self, key: ConnectionKey, want: Want, now: Instant) {
        self.did_steady_wait |= self.half(key.origin) == Half::Steady;
        self.line_mut(want.blocked()).push(Waiter { key, want, since: now });
    }

    /// Begins a pass over the blocked connections, to let them go on as far as there is memory.
    pub(crate) fn pass(&mut self, blocked: Blocked) -> Pass {
        let mut fronts = self.read_blocked.fronts().chain(self.reply_blocked.fronts());
        self.did_steady_wait =
            fronts.any(|waiter| self.half(waiter.key.origin) == Half::Steady && !self.is_over_share(waiter));
        let waiters = self.in_order(self.line(blocked).turns());
        let mut has_large = [false; 2];
        for waiter in waiters.iter().filter(|waiter| waiter.want.is_large() && !self.is_over_share(waiter)) {
            has_large[self.half(waiter.key.origin).index()] = true;
        }
        Pass { blocked, waiters: waiters.into_iter(), has_large, is_stopped: [false; 2] }
    }

    /// Returns the next connection that goes on, which waits no more. Its memory must be counted before the next call.
    pub(crate) fn next_of(&mut self, pass: &mut Pass, now: Instant) -> Option<Waiter> {
        loop {
            let waiter = pass.waiters.next()?;
            let (origin, want) = (waiter.key.origin, waiter.want);
            let half = self.half(origin);
            let is_stopped = pass.is_stopped[half.index()];
            let may_overtake = want == Want::Answer || self.may_overtake(pass.blocked, half);
            let overtakes = !want.is_large() && may_overtake;
            if (is_stopped && !overtakes) || !self.fits(self.asker(origin), want) {
                pass.is_stopped[half.index()] |= want.is_large() && !self.is_over_share(&waiter);
                continue;
            }
            let overtaken = &mut self.overtaken[pass.blocked.index()][half.index()];
            let passes_large = !want.is_large() && pass.has_large[half.index()];
            match want {
                Want::Answer => {}
                Want::Record { length, .. } if passes_large => *overtaken += length,
                // It counts when its call is kept.
                Want::Reply(_) if passes_large => {}
                Want::Record { .. } | Want::Reply(_) => *overtaken = 0,
            }
            self.line_mut(pass.blocked).pop(origin, now);
            return Some(waiter);
        }
    }

    /// Sorts connections by their origins' turn. Those of slow origins come last, and those that were fast before those of
    /// which nothing is known, for some time.
    fn in_order(&self, turns: impl Iterator<Item = (Instant, Waiter)>) -> Vec<Waiter> {
        let rank = |turn, waiter: &Waiter| match self.budget.origins.standing(waiter.key.origin) {
            Standing::Fast | Standing::Steady | Standing::Throttled => (false, turn),
            Standing::Unknown => (false, turn + FAST_FIRST),
            Standing::Slow => (true, turn),
        };
        let mut ranked: Vec<_> = turns.map(|(turn, waiter)| (rank(turn, &waiter), waiter)).collect();
        ranked.sort_by_key(|(rank, _)| *rank);
        ranked.into_iter().map(|(_, waiter)| waiter).collect()
    }

    /// Removes a connection that is closed from those that wait for memory.
    pub(crate) fn forget(&mut self, key: ConnectionKey) {
        self.read_blocked.remove(key);
        self.reply_blocked.remove(key);
    }

    /// Has a connection not wait any more for memory for its next record. Returns whether it did.
    pub(crate) fn stop_waiting(&mut self, key: ConnectionKey) -> bool {
        self.read_blocked.remove(key)
    }

    /// Whether an origin holds no more requests than its share.
    pub(crate) fn is_within_share(&self, origin: OriginKey) -> bool {
        self.budget.is_within_share(self.asker(origin))
    }

    fn line(&self, blocked: Blocked) -> &Line {
        match blocked {
            Blocked::Read => &self.read_blocked,
            Blocked::Reply => &self.reply_blocked,
        }
    }

    fn line_mut(&mut self, blocked: Blocked) -> &mut Line {
        match blocked {
            Blocked::Read => &mut self.read_blocked,
            Blocked::Reply => &mut self.reply_blocked,
        }
    }

    /// Whether there is memory for what a connection wants.
    pub(crate) fn has_room(&self, key: ConnectionKey, want: Want) -> bool {
        self.fits(self.asker(key.origin), want)
    }

    fn fits(&self, asker: Asker, want: Want) -> bool {
        match want {
            Want::Record { length, counted } => {
                self.budget.may_answer(asker) && self.budget.may_receive(asker, length, counted)
            }
            Want::Answer => self.budget.may_answer(asker),
            Want::Reply(bytes) => self.budget.may_reply(asker, bytes),
        }
    }

    /// Returns the part of memory that keeps a connection waiting for what it wants.
    fn short_for(&self, waiter: &Waiter) -> Short {
        match waiter.want {
            Want::Record { .. } if self.budget.may_answer(self.asker(waiter.key.origin)) => Short::Requests,
            _ => Short::Replies,
        }
    }
}
