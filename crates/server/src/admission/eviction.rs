//! Which connection has to make room when another one has waited too long for memory.
//!
//! Only connections of the half that is full are candidates: that of the waiting one, or the other one, if that uses both. Among
//! them, those whose peers do not keep the pace of their half, and those of an origin that holds more than the waiting one
//! would hold, and more than the largest record or reply takes ([`ORIGIN_REQUESTS_MIN`], [`ORIGIN_REPLIES_MIN`]). So
//! a peer that keeps the least pace ([`PACE_MIN`]) and holds no more than others completes what it began, once it is known not
//! to be fast.
//!
//! One that waits only because its own origin has its share takes nothing from others: only a connection of the same origin gives
//! way to it, and only if its peer has stopped ([`OWN_PACE_MIN`]).
//!
//! Calls that rate limits hold keep their memory though their peers are fast. Their origins count as not fast, and their connections
//! give way to fast ones, if their half is more than full. Origins that are not fast wait for them.
//!
//! [`PACE_MIN`]: crate::limits::PACE_MIN
//! [`OWN_PACE_MIN`]: crate::limits::OWN_PACE_MIN

use std::time::Instant;

use super::candidates::Candidates;
use super::line::Waiter;
use super::origins::{Half, Held, OriginKey, Standing};
use super::pace::Pace;
use super::{Admission, ConnectionKey, Short, Want};
use crate::limits::{ORIGIN_REPLIES_MIN, ORIGIN_REQUESTS_MIN, OWN_PACE_TIME, WAIT_MAX};

/// A connection that holds memory because of its peer, as one that may have to give it up.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Holder {
    pub(crate) key: ConnectionKey,
    pub(crate) bytes: usize,
    pub(crate) because: Because,
}

/// Why a connection holds memory.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Because {
    /// Its peer has this pace.
    Pace(Pace),
    /// It waits for more itself, while it holds a part of a record.
    WaitsForMore,
    /// Rate limits hold its calls.
    Throttled,
}

/// Why a connection gives way. The greatest does so first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Reason {
    /// Its origin holds more than others, if it does.
    HoldsMore,
    /// Rate limits hold its calls.
    Throttled,
    WaitsForMore,
    /// It is below the pace of fast ones, in their half.
    NotFast,
    Slow,
}

impl Holder {
    /// Returns why it gives way, if it has to; its origin is in this half.
    pub(super) fn reason(&self, half: Half, now: Instant) -> Reason {
        match self.because {
            Because::WaitsForMore => Reason::WaitsForMore,
            Because::Throttled => Reason::Throttled,
            Because::Pace(pace) if pace.is_slow(now) => Reason::Slow,
            Because::Pace(pace) if half == Half::Fast && pace.is_below_fast(now) => Reason::NotFast,
            Because::Pace(_) => Reason::HoldsMore,
        }
    }

    /// Whether its peer does not even keep the pace that others of its origin are due.
    pub(super) fn has_stopped(&self, now: Instant) -> bool {
        matches!(self.because, Because::Pace(pace) if pace.has_stopped(now))
    }

    pub(super) fn behind_since(&self) -> Option<Instant> {
        match self.because {
            Because::Pace(pace) => Some(pace.behind_since()),
            Because::WaitsForMore | Because::Throttled => None,
        }
    }
}

impl Admission {
    /// Returns the connections that have waited too long for a part of memory: the first one of each origin of a half, in the order in
    /// which they go on. Empty if the one that goes on next has not waited that long.
    pub(crate) fn waiting_too_long(&self, short: Short, half: Half, now: Instant) -> Vec<Waiter> {
        let turns = self.read_blocked.turns().chain(self.reply_blocked.turns());
        let mut waiters = self.in_order(turns.filter(|(_, waiter)| self.half(waiter.key.origin) == half));
        waiters.retain(|waiter| self.short_for(waiter) == short && !self.is_over_share(waiter));
        let waits_too_long = |waiter: &Waiter| now.saturating_duration_since(waiter.since) >= WAIT_MAX;
        if !waiters.first().is_some_and(waits_too_long) {
            return Vec::new();
        }
        waiters.retain(waits_too_long);
        waiters
    }

    /// Returns the connections that wait for a part of memory only because their origins have their share, and have waited too long
    /// even so.
    pub(crate) fn wait_for_their_own(&self, short: Short, now: Instant) -> Vec<Waiter> {
        let fronts = self.read_blocked.fronts().chain(self.reply_blocked.fronts());
        let waits = |waiter: &&Waiter| {
            now.saturating_duration_since(waiter.since) >= OWN_PACE_TIME
                && self.short_for(waiter) == short
                && self.is_over_share(waiter)
        };
        fronts.filter(waits).copied().collect()
    }

    /// Makes room for a connection that has waited too long. Returns the connections to be closed: one, unless its origin was
    /// taken to be fast and holds more than fits into the other half, and none if it fits there. `None` if nobody gives way.
    pub(crate) fn make_room(
        &mut self,
        waiter: &Waiter,
        candidates: &mut Candidates,
    ) -> Option<Vec<ConnectionKey>> {
        let (short, now) = (candidates.short, candidates.now);
        let full = self.full_half(waiter, short);
        let fair = self.held(waiter.key.origin, short) + wanted(waiter.want);
        let fair = fair.max(origin_min(short));
        let (reason, origin) = self.first_of(candidates, full, waiter.key)?;
        if reason == Reason::HoldsMore && self.held(origin, short) <= fair {
            return None;
        }
        let origins = &mut self.budget.origins;
        let closed = match (reason, origins.standing(origin)) {
            (Reason::NotFast, standing) if standing != Standing::Fast => {
                origins.note(origin, Standing::Steady, now);
                let closed = self.beyond_half(short, candidates.of_origin(origin));
                candidates.remove(origin, &closed);
                closed
            }
            (reason, _) => {
                let holder = candidates.take(origin, waiter.key)?;
                match reason {
                    Reason::HoldsMore | Reason::WaitsForMore | Reason::Throttled => {}
                    Reason::Slow => origins.note(origin, Standing::Slow, now),
                    // One that was fast may have lost a packet.
                    Reason::NotFast => origins.note(origin, Standing::Unknown, now),
                }
                vec![holder.key]
            }
        };
        if self.half(origin) != full {
            candidates.sort(origin, self.half(origin));
            self.rank_again(candidates, origin);
        }
        Some(closed)
    }

    /// Returns the half that has no room for what a connection waits for: its own, if that has none, or else the other one,
    /// which uses both.
    pub(super) fn full_half(&self, waiter: &Waiter, short: Short) -> Half {
        let half = self.half(waiter.key.origin);
        if self.budget.excess(short, half, wanted(waiter.want)) > 0 { half } else { half.other() }
    }

    /// Returns how many bytes of a part must become free before a connection finds room. If its origin holds much, that does not
    /// count: the connection then waits for its own share, and others need not give up as much again. At least one.
    pub(super) fn lacks(&self, waiter: &Waiter, short: Short) -> usize {
        let (bytes, is_large) = wanted_of(waiter.want, short);
        let mut asker = self.asker(waiter.key.origin);
        if asker.held.of(short) > origin_min(short) {
            asker.held = Held::default();
        }
        self.budget.lacks(short, asker, bytes, is_large).max(1)
    }

    /// Returns connections of an origin that came into the half of those that are not fast, as many as do not fit there.
    /// `holders` are the connections of the origin.
    fn beyond_half(&self, short: Short, holders: &[Holder]) -> Vec<ConnectionKey> {
        let mut excess = self.budget.excess(short, Half::Steady, 0);
        let mut own: Vec<_> = holders.iter().collect();
        own.sort_by_key(|holder| holder.behind_since());
        let mut closed = Vec::new();
        for holder in own {
            if excess == 0 {
                break;
            }
            excess = excess.saturating_sub(holder.bytes);
            closed.push(holder.key);
        }
        closed
    }

    pub(super) fn held(&self, origin: OriginKey, short: Short) -> usize {
        self.budget.origins.held(origin).of(short)
    }
}

/// Returns the bytes of a part that an origin may hold in any case.
fn origin_min(short: Short) -> usize {
    match short {
        Short::Requests => ORIGIN_REQUESTS_MIN,
        Short::Replies => ORIGIN_REPLIES_MIN,
    }
}

/// Returns the bytes of a part that a connection waits for, and whether they are many.
pub(super) fn wanted_of(want: Want, short: Short) -> (usize, bool) {
    match (want, short) {
        // A record waits for replies only to be fewer.
        (Want::Record { .. }, Short::Replies) => (1, false),
        (want, _) => (wanted(want), want.is_large()),
    }
}

/// Returns the bytes that a connection waits for.
fn wanted(want: Want) -> usize {
    match want {
        Want::Record { length, counted } => length.saturating_sub(counted),
        Want::Answer => 1,
        Want::Reply(bytes) => bytes,
    }
}
