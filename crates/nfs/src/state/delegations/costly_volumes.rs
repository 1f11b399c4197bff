//! Volumes in which others have waited too long for delegations, of whichever origins. Each origin has a budget of its own
//! (`state/shares/recall_costs.rs`), but many of them may make the same caller wait, one after another.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use volume::ids::VolumeId;
use volume::time::Time;

use crate::state::config::Config;

/// Shorter waits are not counted: they are the time that a prompt client and the network need.
const WAIT_MIN: Duration = Duration::from_millis(100);

/// What waits cost, by volume.
#[derive(Debug, Default)]
pub(crate) struct CostlyVolumes {
    costs: Mutex<BTreeMap<VolumeId, Cost>>,
    /// From when on all volumes are delegated, in nanoseconds.
    all_from: AtomicI64,
}

#[derive(Debug)]
struct Cost {
    /// When the current window began: with the first wait after the last window.
    window: Time,
    /// For how long others have waited in it.
    waited: Duration,
    /// From when on files of the volume are delegated.
    delegated_from: Time,
}

impl CostlyVolumes {
    /// Counts a wait, of which `lately` was not counted before, for a delegation that was recalled `in_all` ago. Returns whether the
    /// budget of the volume is exceeded. Its files are not delegated then for a while.
    pub(super) fn count(
        &self,
        now: Time,
        volume: VolumeId,
        (lately, in_all): (Duration, Duration),
        config: &Config,
    ) -> bool {
        if in_all < WAIT_MIN || lately.is_zero() || !self.are_delegated(now, volume) {
            return false;
        }
        let Config { recall_window, recall_budget_of_volume, undelegated_after_loss, .. } = *config;
        let mut costs = self.costs.lock();
        costs.retain(|_, cost| now.apart(cost.window) <= recall_window || now < cost.delegated_from);
        let fresh = || Cost { window: now, waited: Duration::ZERO, delegated_from: Time::EPOCH };
        let cost = costs.entry(volume).or_insert_with(fresh);
        cost.waited += lately;
        let is_exceeded = cost.waited > recall_budget_of_volume;
        if is_exceeded {
            let from = now.plus(undelegated_after_loss);
            (cost.window, cost.waited, cost.delegated_from) = (from, Duration::ZERO, from);
            self.all_from.fetch_max(from.nanos(), Ordering::Relaxed);
        }
        is_exceeded
    }

    /// Whether files of a volume may be delegated.
    pub(super) fn are_delegated(&self, now: Time, volume: VolumeId) -> bool {
        now.nanos() >= self.all_from.load(Ordering::Relaxed)
            || self.costs.lock().get(&volume).is_none_or(|cost| now >= cost.delegated_from)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: Time = Time::from_nanos(1_000_000_000_000);
    const NINE: Duration = Duration::from_secs(9);

    #[test]
    fn a_volume_in_which_others_wait_too_long_is_not_delegated_for_a_while() {
        let (costly, config) = (CostlyVolumes::default(), Config::default());
        let count = |seconds, volume| {
            let now = START.plus(Duration::from_secs(seconds));
            costly.count(now, VolumeId(volume), (NINE, NINE), &config)
        };
        assert!((0..6).all(|wait| !count(9 * wait, 1)));
        assert!(!count(54, 2), "each volume has its own budget");
        assert!(count(54, 1));
        let after = |seconds: u64| START.plus(Duration::from_secs(54 + seconds));
        assert!(!costly.are_delegated(after(599), VolumeId(1)));
        assert!(costly.are_delegated(after(599), VolumeId(2)));
        assert!(costly.are_delegated(after(600), VolumeId(1)));
    }

    #[test]
    fn waits_of_more_than_a_window_ago_and_short_ones_do_not_count() {
        let (costly, config) = (CostlyVolumes::default(), Config::default());
        for round in 0..100 {
            let now = START.plus(Duration::from_secs(101 * round));
            assert!(!costly.count(now, VolumeId(1), (NINE, NINE), &config), "{round}");
            let short = Duration::from_millis(99);
            assert!((0..1000).all(|_| !costly.count(now, VolumeId(1), (short, short), &config)));
        }
    }
}
