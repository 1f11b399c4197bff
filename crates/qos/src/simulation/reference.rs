//! What one gate may let through, computed plainly: a bucket that leaks at the rate.

use std::time::Duration;

use crate::queue::OWED_MAX;
use crate::time::Time;

const NANOS: u128 = 1_000_000_000;

/// What calls that are never held may add beyond the burst.
const DEBT_MAX: Duration = Duration::from_millis(100);

/// What charges that are rounded to sixteenths of a nanosecond may add up to.
const ROUNDING: Duration = Duration::from_micros(20);

#[derive(Clone, Debug, Default)]
pub(super) struct Reference {
    rate: Option<u64>,
    burst: Duration,
    /// Units in the bucket, times [`NANOS`]: of calls that can be held and of what is owed, and of all.
    holdable: u128,
    total: u128,
    leaked: Time,
    /// The largest call, units.
    largest: u64,
}

impl Reference {
    pub(super) fn rate(&self) -> Option<u64> {
        self.rate
    }

    pub(super) fn set(&mut self, now: Time, rate: Option<u64>, burst: Duration) {
        self.leak(now);
        for level in [&mut self.holdable, &mut self.total] {
            *level = match (self.rate, rate) {
                (Some(old), Some(new)) => *level * u128::from(new.min(old)) / u128::from(old),
                _ => 0,
            };
        }
        (self.rate, self.burst) = (rate, burst);
    }

    fn leak(&mut self, now: Time) {
        let passed = now.since(self.leaked).as_nanos() * u128::from(self.rate.unwrap_or(0));
        self.holdable = self.holdable.saturating_sub(passed);
        self.total = self.total.saturating_sub(passed);
        self.leaked = now;
    }

    fn burst_units(&self) -> u128 {
        self.burst.as_nanos() * u128::from(self.rate.unwrap_or(0))
    }

    /// Lets a call through that could have been held.
    pub(super) fn charge(&mut self, now: Time, units: u64) -> Result<(), String> {
        self.leak(now);
        self.largest = self.largest.max(units);
        self.holdable += u128::from(units) * NANOS;
        self.total += u128::from(units) * NANOS;
        let (burst, call) = (self.burst_units(), u128::from(self.largest + 1) * NANOS);
        let most = burst.max(burst / 2 + call) + call;
        if self.holdable > most {
            let (level, most) = (self.holdable / NANOS, most / NANOS);
            return Err(format!("{level} units above rate x t, more than {most}"));
        }
        Ok(())
    }

    /// Lets a call through that is never held. `debt` is that of the gate since, and `is_busy` whether others wait there: then a
    /// part of it may go uncharged, as it is beyond the share of its client.
    pub(super) fn charge_debt(
        &mut self,
        now: Time,
        units: u64,
        debt: Duration,
        is_busy: bool,
    ) -> Result<(), String> {
        self.leak(now);
        let rate = u128::from(self.rate.unwrap_or(0));
        let beyond = if is_busy { DEBT_MAX.as_nanos() * rate } else { 0 };
        let most = (self.burst_units() + beyond).max(self.total);
        let whole = (self.total + u128::from(units) * NANOS).min(most);
        let (charged, rounding) = (debt.as_nanos() * rate, ROUNDING.as_nanos() * rate);
        let is_whole = charged.abs_diff(whole) <= rounding;
        if charged > whole + rounding || (!is_busy && !is_whole) {
            return Err(format!("{charged} were charged for a call that is never held, {whole} were due"));
        }
        self.total = if is_whole { whole } else { charged.max(self.total) };
        Ok(())
    }

    /// Charges units that were moved without a call having waited for them. Returns how many are owed. Calls that can be held pass
    /// when they are paid.
    pub(super) fn owe(&mut self, now: Time, units: u64) -> u128 {
        self.leak(now);
        let owed_most = OWED_MAX.as_nanos() * u128::from(self.rate.unwrap_or(0));
        let most = (self.burst_units() + owed_most).max(self.total);
        let owed = (u128::from(units) * NANOS).min(most - self.total);
        self.holdable += owed;
        self.total += owed;
        owed / NANOS
    }

    /// Takes units back, and returns how many others can have: what was paid long ago is lost.
    pub(super) fn refund(&mut self, now: Time, units: u64) -> u128 {
        self.leak(now);
        let left = self.total.min(u128::from(units) * NANOS);
        self.total -= left;
        self.holdable = self.holdable.saturating_sub(u128::from(units) * NANOS);
        left / NANOS
    }

    /// Returns how long all that was let through takes at the rate, beyond now.
    pub(super) fn debt(&mut self, now: Time) -> Duration {
        self.leak(now);
        let nanos = self.rate.map_or(0, |rate| self.total / u128::from(rate));
        Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }

    /// Compares the debt of the gate.
    pub(super) fn compare(&mut self, now: Time, debt: Duration) -> Result<(), String> {
        let own = self.debt(now);
        if self.rate.is_some() && debt.abs_diff(own) > ROUNDING {
            return Err(format!("the gate has a debt of {debt:?}, what was let through one of {own:?}"));
        }
        Ok(())
    }
}
