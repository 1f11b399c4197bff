//! A limiter: the gates of a target, a volume or a client.

use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicU8, AtomicU64};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crate::cost::{Class, Cost};
use crate::gate::Gate;
use crate::limits::{Dimension, Limits};
use crate::time::Time;

/// Names a limiter; never used again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct LimiterId(pub(crate) u64);

/// Names a gate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct GateId {
    pub(crate) limiter: LimiterId,
    pub(crate) dimension: Dimension,
}

/// The limits of a target, a volume or a client, and what was charged. [`Scheduler::limiter`](crate::Scheduler::limiter) makes
/// one.
#[derive(Debug)]
pub struct Limiter {
    id: LimiterId,
    /// Those in force.
    limits: Mutex<Limits>,
    gates: [Gate; Dimension::COUNT],
    /// The bits of limited dimensions.
    limited: AtomicU8,
    /// Nanoseconds during which calls waited at each gate.
    throttled: [AtomicU64; Dimension::COUNT],
}

impl Limiter {
    pub(crate) fn new(id: LimiterId, now: Time, limits: &Limits) -> Limiter {
        let limiter = Limiter {
            id,
            limits: Mutex::default(),
            gates: Default::default(),
            limited: AtomicU8::new(0),
            throttled: Default::default(),
        };
        limiter.set(now, limits);
        limiter
    }

    pub(crate) fn id(&self) -> LimiterId {
        self.id
    }

    pub(crate) fn gate(&self, dimension: Dimension) -> &Gate {
        &self.gates[dimension.index()]
    }

    /// Whether it limits anything. Callers may leave out limiters that do not.
    pub fn is_limited(&self) -> bool {
        self.limited.load(Relaxed) != 0
    }

    /// Whether it limits the bytes that calls of a class move.
    pub fn limits_bytes(&self, class: Class) -> bool {
        let limited = self.limited.load(Relaxed);
        let mut bytes = class.dimensions().iter().filter(|dimension| dimension.is_bytes());
        bytes.any(|dimension| limited & dimension.bit() != 0)
    }

    /// Changes the limits. Returns whether they are others than before.
    pub(crate) fn set(&self, now: Time, limits: &Limits) -> bool {
        let mut in_force = self.limits.lock().unwrap_or_else(PoisonError::into_inner);
        if *in_force == *limits {
            return false;
        }
        *in_force = *limits;
        let mut limited = 0;
        for dimension in Dimension::ALL {
            let rate = limits.rate(dimension);
            self.gate(dimension).set(now, rate, limits.burst());
            limited |= if rate.is_some() { dimension.bit() } else { 0 };
        }
        self.limited.store(limited, Relaxed);
        true
    }

    pub(crate) fn add_throttled(&self, dimension: Dimension, duration: Duration) {
        let nanos = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        self.throttled[dimension.index()].fetch_add(nanos, Relaxed);
    }

    pub(crate) fn throttled(&self, dimension: Dimension) -> Duration {
        Duration::from_nanos(self.throttled[dimension.index()].load(Relaxed))
    }
}

/// A gate that a call has to pass.
#[derive(Clone, Copy)]
pub(crate) struct Passage<'l> {
    pub(crate) limiter: &'l Arc<Limiter>,
    pub(crate) dimension: Dimension,
    pub(crate) units: u32,
}

impl<'l> Passage<'l> {
    pub(crate) fn gate(&self) -> &'l Gate {
        self.limiter.gate(self.dimension)
    }

    pub(crate) fn id(&self) -> GateId {
        GateId { limiter: self.limiter.id, dimension: self.dimension }
    }
}

/// Returns the gates that a call must pass: the limited dimensions in which a call of its class has a cost.
pub(crate) fn passages(limiters: &[Arc<Limiter>], cost: Cost) -> impl Iterator<Item = Passage<'_>> + Clone {
    limiters
        .iter()
        .filter(|limiter| limiter.is_limited())
        .flat_map(move |limiter| {
            let limited = limiter.limited.load(Relaxed);
            let dimensions = cost.class.dimensions().iter().copied();
            let passage = move |dimension| Passage { limiter, dimension, units: cost.units(dimension) };
            dimensions.filter(move |dimension| limited & dimension.bit() != 0).map(passage)
        })
        .filter(|passage| passage.units > 0)
}

/// Returns those of the gates that count bytes, which a refund concerns.
pub(crate) fn byte_passages(limiters: &[Arc<Limiter>], cost: Cost) -> impl Iterator<Item = Passage<'_>> {
    passages(limiters, cost).filter(|passage| passage.dimension.is_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::BURST_MIN;

    #[test]
    fn only_other_limits_are_a_change() {
        let limits = Limits::NONE.with(Dimension::TotalOps, 100).unwrap();
        let limiter = Limiter::new(LimiterId(1), Time::ORIGIN, &limits);
        assert!(limiter.is_limited() && !limiter.set(Time::ORIGIN, &limits));
        assert!(limiter.set(Time::ORIGIN, &limits.with_burst(BURST_MIN).unwrap()));
        assert!(limiter.set(Time::ORIGIN, &Limits::NONE) && !limiter.is_limited());
    }
}
