//! A gate: the limit of one limiter in one dimension, by the generic cell rate algorithm (ITU-T I.371, annex A).
//!
//! Its whole state is the *theoretical arrival time*: the time at which all that was charged would have passed at the rate. How
//! far it lies ahead of the clock is the gate's *debt*. Without debt the whole burst is free. A call passes if its own cost
//! still fits below the burst, so small calls go on while a large one waits until it fits; a call of more than half a burst
//! passes when half a burst is free. The debt is therefore at most `burst`, or `burst / 2 + call`.
//!
//! An overdraft passes whatever the debt, but no two of them in a row do ([`backlog`](crate::backlog) says what they are for). In
//! any time `t`, at most `rate x t + max(burst, burst / 2 + call) + call` passes, the last call only with overdrafts.
//!
//! Debt follows the schedule: a call that is released late is charged as if it had been released on time, because the clock
//! does not move the theoretical arrival time while that lies ahead. Half a burst of delay costs no throughput.

use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::time::Duration;

use crate::fault::{Fault, is_planted};
use crate::time::Time;

/// Ticks of a nanosecond. Costs are rounded up to ticks, so that a nanosecond would be too coarse: 4 KiB at 80 Gbps take 410.
const TICKS_PER_NANO: u64 = 16;

/// Fraction bits of a price.
const PRICE_BITS: u32 = 32;

/// What calls that are never held may add to the debt beyond the burst, while others wait: the next of these is delayed by
/// this much at most.
pub(crate) const DEBT_MAX: Duration = Duration::from_millis(100);

/// A duration or a point in time on a gate's scale.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Ticks(pub(crate) u64);

impl Ticks {
    pub(crate) fn of(duration: Duration) -> Ticks {
        let nanos = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        Ticks(nanos.saturating_mul(TICKS_PER_NANO))
    }

    fn at(time: Time) -> u64 {
        time.as_nanos().saturating_mul(TICKS_PER_NANO)
    }
}

/// How strictly a gate judges a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Terms {
    /// It fits below the burst, not counting this much of the debt.
    Fits(Ticks),
    /// It passes whatever the debt.
    Overdraft,
}

/// The limit of one dimension, which threads share.
#[derive(Debug, Default)]
pub(crate) struct Gate {
    /// The theoretical arrival time, ticks since the origin.
    arrival: AtomicU64,
    /// Ticks of a unit, with [`PRICE_BITS`] fraction bits, rounded up. Zero without a limit.
    price: AtomicU64,
    /// Ticks.
    burst: AtomicU64,
    /// Whether calls wait here, or did a moment ago. Only the holder of the lock of the queues changes it.
    is_busy: AtomicBool,
}

impl Gate {
    pub(crate) fn is_busy(&self) -> bool {
        self.is_busy.load(Acquire)
    }

    pub(crate) fn set_busy(&self, is_busy: bool) {
        self.is_busy.store(is_busy, Release);
    }

    /// Returns what units cost.
    pub(crate) fn ticks(&self, units: u64) -> Ticks {
        let ticks = (u128::from(units) * u128::from(self.price.load(Relaxed))).div_ceil(1 << PRICE_BITS);
        Ticks(u64::try_from(ticks).unwrap_or(u64::MAX))
    }

    /// Returns the units that pass in this time at the rate.
    pub(crate) fn units(&self, duration: Duration) -> u64 {
        let price = u128::from(self.price.load(Relaxed)).max(1);
        u64::try_from((u128::from(Ticks::of(duration).0) << PRICE_BITS) / price).unwrap_or(u64::MAX)
    }

    /// Changes the rate, units a second, and the burst. The debt keeps its duration, so that a lower rate does not stop the gate
    /// for long; under a higher rate it keeps its units, and is over sooner.
    pub(crate) fn set(&self, now: Time, rate: Option<u64>, burst: Duration) {
        let second = u128::from(TICKS_PER_NANO) * 1_000_000_000;
        let price = rate.map_or(0, |rate| (second << PRICE_BITS).div_ceil(u128::from(rate.max(1))));
        let price = u64::try_from(price).unwrap_or(u64::MAX);
        let old = self.price.swap(price, Relaxed);
        self.burst.store(Ticks::of(burst).0, Relaxed);
        let now = Ticks::at(now);
        let keep = |arrival: u64| {
            let debt = u128::from(arrival.checked_sub(now)?);
            let kept = if old == 0 { 0 } else { debt * u128::from(price.min(old)) / u128::from(old) };
            Some(now + u64::try_from(kept).unwrap_or(u64::MAX))
        };
        // Fails if there is no debt to change.
        let _ = self.arrival.fetch_update(Relaxed, Relaxed, keep);
    }

    /// Returns when a call of this cost passes if nothing else does before, not counting `excused` of the debt.
    pub(crate) fn opens_at(&self, cost: Ticks, excused: Ticks) -> Time {
        let burst = self.burst.load(Relaxed);
        let latest = self.arrival.load(Relaxed).saturating_sub(excused.0) + cost.0.min(burst / 2);
        Time::from_nanos(latest.saturating_sub(burst).div_ceil(TICKS_PER_NANO))
    }

    /// Whether a call of this cost would pass.
    pub(crate) fn admits(&self, now: Time, cost: Ticks, terms: Terms) -> bool {
        let burst = self.burst.load(Relaxed);
        passes(self.arrival.load(Relaxed), Ticks::at(now), burst, cost, terms)
    }

    /// Charges a call if it passes, and returns whether it did.
    pub(crate) fn try_charge(&self, now: Time, cost: Ticks, terms: Terms) -> bool {
        let burst = self.burst.load(Relaxed);
        let now = Ticks::at(now);
        let charge = |arrival: u64| {
            let from = if is_planted(Fault::CountFromRelease) && self.is_busy() {
                arrival.max((now + burst).saturating_sub(cost.0.min(burst / 2)))
            } else {
                arrival.max(now)
            };
            passes(arrival, now, burst, cost, terms).then(|| from.saturating_add(cost.0))
        };
        self.arrival.fetch_update(Relaxed, Relaxed, charge).is_ok()
    }

    /// Charges a call that is never held, and returns what that added to the debt: less than its cost if the debt would exceed the
    /// burst by more than `beyond`.
    pub(crate) fn charge_debt(&self, now: Time, cost: Ticks, beyond: Duration) -> Ticks {
        let now = Ticks::at(now);
        let most = now + self.burst.load(Relaxed) + Ticks::of(beyond).0;
        let charged = |arrival: u64| arrival.max(now).saturating_add(cost.0).min(most.max(arrival));
        let before = self.arrival.fetch_update(Relaxed, Relaxed, |arrival| Some(charged(arrival)));
        before.map_or(Ticks(0), |before| Ticks(charged(before) - before.max(now)))
    }

    /// Returns how far the theoretical arrival time lies ahead.
    #[cfg(test)]
    pub(crate) fn debt(&self, now: Time) -> Duration {
        let ticks = self.arrival.load(Relaxed).saturating_sub(Ticks::at(now));
        Duration::from_nanos(ticks / TICKS_PER_NANO)
    }

    /// Takes back what was charged.
    pub(crate) fn refund(&self, cost: Ticks) {
        let less = |arrival: u64| Some(arrival.saturating_sub(cost.0));
        // Never fails, as `less` always answers.
        let _ = self.arrival.fetch_update(Relaxed, Relaxed, less);
    }
}

fn passes(arrival: u64, now: u64, burst: u64, cost: Ticks, terms: Terms) -> bool {
    let Terms::Fits(excused) = terms else { return true };
    let needed = cost.0.min(burst / 2);
    arrival.saturating_sub(excused.0).max(now).saturating_add(needed) <= now.saturating_add(burst)
}

#[cfg(test)]
mod tests;
