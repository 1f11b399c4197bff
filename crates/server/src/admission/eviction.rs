//! Which connection gives its memory up when another one has waited too long.
//!
//! Only connections of the half that is full give way: that of the waiting one, or the other one, if that uses both. Among
//! them, those whose peers do not keep the pace of their half, and those of an origin that holds more than the waiting one
//! would hold, and more than the largest record or reply takes ([`ORIGIN_REQUESTS_MIN`], [`ORIGIN_REPLIES_MIN`]). So
//! whoever keeps the least pace ([`PACE_MIN`]) and holds no more than others completes what has begun, once it is known not
//! to be fast.
//!
//! [`PACE_MIN`]: crate::limits::PACE_MIN

use std::cmp::Reverse;
use std::time::Instant;

use super::line::Waiter;
use super::origins::{Half, OriginKey, Standing};
use super::pace::Pace;
use super::{Admission, ConnectionKey, Short, Want};
use crate::limits::{ORIGIN_REPLIES_MIN, ORIGIN_REQUESTS_MIN, WAIT_MAX};

/// A connection that holds memory because of its peer, as one that may have to give it up.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Holder {
    pub(crate) key: ConnectionKey,
    pub(crate) bytes: usize,
    /// The pace of its peer; `None` if it is the connection that waits for more, while it holds a part of a record.
    pub(crate) pace: Option<Pace>,
}

/// Why a connection gives way. The greatest does so first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Reason {
    HoldsMore,
    WaitsForMore,
    /// It is below the pace of fast ones, in their half.
    NotFast,
    Slow,
}

impl Admission {
    /// Returns the first connection of a half that waits for a part of memory, if it has waited too long.
    pub(crate) fn waits_too_long(&self, short: Short, half: Half, now: Instant) -> Option<Waiter> {
        let turns = self.read_blocked.turns().chain(self.reply_blocked.turns());
        let waiters = self.in_order(turns.filter(|(_, waiter)| self.half(waiter.key.origin) == half));
        waiters
            .into_iter()
            .find(|waiter| self.short_for(waiter) == short && !self.is_over_share(waiter))
            .filter(|waiter| now.saturating_duration_since(waiter.since) >= WAIT_MAX)
    }

    /// Makes room for a connection that has waited too long, among `holders` of the part of memory that is `short`. Returns
    /// the connections to be closed: one, unless its origin was taken to be fast and holds more than fits into the other half,
    /// and none if it fits there. `None` if nobody gives way.
    pub(crate) fn make_room(
        &mut self,
        waiter: &Waiter,
        short: Short,
        holders: &[Holder],
        now: Instant,
    ) -> Option<Vec<ConnectionKey>> {
        let full = self.full_half(waiter, short);
        let fair = self.held(waiter.key.origin, short) + wanted(waiter.want);
        let fair = fair.max(match short {
            Short::Requests => ORIGIN_REQUESTS_MIN,
            Short::Replies => ORIGIN_REPLIES_MIN,
        });
        let candidates = holders
            .iter()
            .filter(|holder| holder.key != waiter.key && self.half(holder.key.origin) == full)
            .filter_map(|holder| Some((self.reason(holder, short, fair, now)?, holder)));
        let (reason, holder) = candidates.max_by_key(|(reason, holder)| {
            let behind = holder.pace.map(|pace| pace.behind_since());
            (*reason, self.held(holder.key.origin, short), Reverse(behind))
        })?;
        let origin = holder.key.origin;
        let origins = &mut self.budget.origins;
        match (reason, origins.standing(origin)) {
            (Reason::HoldsMore | Reason::WaitsForMore, _) => {}
            (Reason::Slow, _) => origins.note(origin, Standing::Slow, now),
            // One that was fast may have lost a packet.
            (Reason::NotFast, Standing::Fast) => origins.note(origin, Standing::Unknown, now),
            (Reason::NotFast, _) => {
                origins.note(origin, Standing::Steady, now);
                return Some(self.beyond_half(origin, short, holders));
            }
        }
        Some(vec![holder.key])
    }

    /// Returns why a connection of the half that is full has to give way.
    fn reason(&self, holder: &Holder, short: Short, fair: usize, now: Instant) -> Option<Reason> {
        let Some(pace) = holder.pace else { return Some(Reason::WaitsForMore) };
        let origin = holder.key.origin;
        if pace.is_slow(now) {
            Some(Reason::Slow)
        } else if self.half(origin) == Half::Fast && pace.is_below_fast(now) {
            Some(Reason::NotFast)
        } else {
            (self.held(origin, short) > fair).then_some(Reason::HoldsMore)
        }
    }

    /// Returns the half that has no room for what a connection waits for: its own, if that has none, or else the other one,
    /// which uses both.
    fn full_half(&self, waiter: &Waiter, short: Short) -> Half {
        let half = self.half(waiter.key.origin);
        if self.budget.excess(short, half, wanted(waiter.want)) > 0 { half } else { half.other() }
    }

    /// Returns connections of an origin that came into the half of those that are not fast, as many as do not fit there.
    fn beyond_half(&self, origin: OriginKey, short: Short, holders: &[Holder]) -> Vec<ConnectionKey> {
        let mut excess = self.budget.excess(short, Half::Steady, 0);
        let mut own: Vec<_> = holders.iter().filter(|holder| holder.key.origin == origin).collect();
        own.sort_by_key(|holder| holder.pace.map(|pace| pace.behind_since()));
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

    fn held(&self, origin: OriginKey, short: Short) -> usize {
        self.budget.origins.held(origin).of(short)
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
