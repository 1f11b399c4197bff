//! How long others have waited for the delegations of an origin. Each delegation may be returned
//! soon, and others then wait for the next one, so what counts is the sum.
//!
//! Time counts once while any recall that a conflict began is open, however many there are: a client that writes back forty
//! files at once costs no more than one that writes back the longest of them. Recalls that no conflict began do not count, or an
//! origin that is asked for all its delegations would lose trust for that.

use std::collections::BTreeSet;
use std::time::Duration;

use volume::time::Time;

use crate::state::config::Config;
use crate::state::ids::Other;

/// What the recalls of an origin's delegations cost others.
#[derive(Debug)]
pub(super) struct RecallCosts {
    /// Recalls that a conflict began and that have not ended, by the time since which the holder knows of them.
    open: BTreeSet<(Time, Other)>,
    /// Time before this is counted already.
    counted_until: Time,
    /// When the current window began: with the first cost after the last window.
    window: Time,
    /// For how long others have waited in it.
    cost: Duration,
    /// Whether one of the holders has been silent in it.
    was_silent: bool,
}

impl Default for RecallCosts {
    fn default() -> RecallCosts {
        RecallCosts {
            open: BTreeSet::new(),
            counted_until: Time::EPOCH,
            window: Time::EPOCH,
            cost: Duration::ZERO,
            was_silent: false,
        }
    }
}

impl RecallCosts {
    /// Notes that a conflict began a recall.
    pub(super) fn begin(&mut self, since: Time, other: Other) {
        self.open.insert((since, other));
    }

    /// Notes that a recall has ended, or has another time now. Returns whether a conflict began it.
    pub(super) fn end(&mut self, since: Time, other: Other) -> bool {
        self.open.remove(&(since, other))
    }

    /// Whether a conflict began a recall that has not ended.
    pub(super) fn has(&self, since: Time, other: Other) -> bool {
        self.open.contains(&(since, other))
    }

    /// Whether others have waited in the current window.
    pub(super) fn matter(&self, now: Time, config: &Config) -> bool {
        let is_spent = self.was_silent || !self.cost.is_zero();
        is_spent && now.apart(self.window) <= config.recall_window
    }

    /// Counts the time until now. `is_silent` says that the holder of what has ended may have been cut off: once in a window, that
    /// costs nothing. Returns whether the budget is exceeded, and then begins anew.
    pub(super) fn count(&mut self, now: Time, is_silent: bool, config: &Config) -> bool {
        let Some((oldest, _)) = self.open.first() else { return false };
        let Config { recall_budget, recall_window, .. } = *config;
        // The clock may have been set back.
        let from = (*oldest).max(self.counted_until.min(now));
        let waited = now.since(from);
        if waited.is_zero() {
            return false;
        }
        if now.apart(self.window) > recall_window {
            (self.window, self.cost, self.was_silent) = (now, Duration::ZERO, false);
        }
        self.counted_until = now;
        if is_silent && !self.was_silent {
            self.was_silent = true;
            return false;
        }
        self.cost += waited;
        let is_exceeded = self.cost > recall_budget;
        if is_exceeded {
            self.cost = Duration::ZERO;
        }
        is_exceeded
    }
}
