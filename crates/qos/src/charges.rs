//! What one call was charged at several gates: all of it, or nothing.

use crate::call::LIMITERS_MAX;
use crate::fault::{Fault, is_planted};
use crate::gate::{Gate, Terms, Ticks};
use crate::limiter::Passage;
use crate::time::Time;

/// Gates that a call passes at most: four dimensions of each limiter.
const CHARGES_MAX: usize = 4 * LIMITERS_MAX;

/// Charges that can be undone. Undoing them later needs their prices, which may have changed.
#[derive(Default)]
pub(crate) struct Charges<'l> {
    list: [Option<(&'l Gate, Ticks)>; CHARGES_MAX],
    length: usize,
}

impl<'l> Charges<'l> {
    /// Charges a call at a gate, and returns whether it admits the call.
    pub(crate) fn add(&mut self, now: Time, passage: &Passage<'l>, terms: Terms) -> bool {
        let gate = passage.gate();
        let cost = gate.ticks(u64::from(passage.units));
        let is_charged = gate.try_charge(now, cost, terms);
        if is_charged {
            self.list[self.length] = Some((gate, cost));
            self.length += 1;
        }
        is_charged
    }

    /// Takes back all charges.
    pub(crate) fn undo(self) {
        if is_planted(Fault::ForgetRollback) {
            return;
        }
        for (gate, cost) in self.list.into_iter().flatten() {
            gate.refund(cost);
        }
    }
}
