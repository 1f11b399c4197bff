//! Flows: calls that wait together.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::call::{Call, ClientId, LIMITERS_MAX, Token};
use crate::cost::{Class, Cost};
use crate::limiter::{GateId, Limiter, LimiterId};
use crate::limits::Dimension;
use crate::time::Time;

/// Names a flow: calls of one client and class that the same limiters apply to. All of them meet the same gates, so they wait
/// in one line, and only the first one has a place in a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct FlowKey {
    pub(crate) client: ClientId,
    class: Class,
    limiters: [LimiterId; LIMITERS_MAX],
}

impl FlowKey {
    pub(crate) fn of(call: &Call<'_>) -> FlowKey {
        let mut limiters = [LimiterId::default(); LIMITERS_MAX];
        for (id, limiter) in limiters.iter_mut().zip(call.limiters) {
            *id = limiter.id();
        }
        FlowKey { client: call.client, class: call.cost.class, limiters }
    }

    /// Returns the cost of a call of the flow.
    pub(crate) fn cost(&self, bytes: u32) -> Cost {
        Cost { class: self.class, bytes, is_debt_only: false }
    }
}

/// Where a flow stands: by its start tag. Among equal tags the smallest call goes first, and among equal calls the one that came
/// first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Place {
    pub(crate) tag: u64,
    /// Units of its first call.
    pub(crate) units: u32,
    pub(crate) number: u64,
}

/// A call that waits.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Held {
    pub(crate) token: Token,
    pub(crate) bytes: u32,
    pub(crate) since: Time,
}

/// The calls of a flow, and where the first one waits.
#[derive(Debug)]
pub(crate) struct Flow {
    pub(crate) key: FlowKey,
    pub(crate) limiters: Vec<Arc<Limiter>>,
    pub(crate) calls: VecDeque<Held>,
    /// Bytes of all calls.
    bytes: u64,
    /// The places that the first call has taken. It keeps them while it waits at other gates.
    places: Vec<(GateId, Place)>,
    /// The gate where it waits; of no limiter before it waits.
    pub(crate) gate: GateId,
}

impl Flow {
    pub(crate) fn new(key: FlowKey, limiters: &[Arc<Limiter>], call: Held) -> Flow {
        Flow {
            key,
            limiters: limiters.to_vec(),
            calls: VecDeque::from([call]),
            bytes: u64::from(call.bytes),
            places: Vec::new(),
            gate: GateId { limiter: LimiterId::default(), dimension: Dimension::TotalOps },
        }
    }

    pub(crate) fn push(&mut self, call: Held) {
        self.bytes += u64::from(call.bytes);
        self.calls.push_back(call);
    }

    /// Removes a call. If it was the first one, the next has no places yet.
    pub(crate) fn remove(&mut self, index: usize) -> Option<Held> {
        let call = self.calls.remove(index)?;
        self.bytes -= u64::from(call.bytes);
        if index == 0 {
            self.places.clear();
        }
        Some(call)
    }

    /// Returns the cost of the first call.
    pub(crate) fn head_cost(&self) -> Cost {
        let head = self.calls.front().expect("a flow has calls");
        self.key.cost(head.bytes)
    }

    /// Returns what all calls cost in a dimension, and how many they are.
    pub(crate) fn held(&self, dimension: Dimension) -> (u64, u64) {
        let calls = u64::try_from(self.calls.len()).unwrap_or(u64::MAX);
        (if dimension.is_bytes() { self.bytes } else { calls }, calls)
    }

    pub(crate) fn place(&self, gate: GateId) -> Option<Place> {
        self.places.iter().find(|(id, _)| *id == gate).map(|(_, place)| *place)
    }

    pub(crate) fn places(&self) -> &[(GateId, Place)] {
        &self.places
    }

    pub(crate) fn set_place(&mut self, gate: GateId, place: Place) {
        self.places.retain(|(id, _)| *id != gate);
        self.places.push((gate, place));
    }
}
