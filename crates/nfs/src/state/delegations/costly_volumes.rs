//! Volumes whose delegations others have waited for too long, whichever origins hold them. Each origin has a budget of its own
//! (`state/shares/recall_costs.rs`), but several of them together can make one caller wait again and again.
//!
//! Waits that overlap count once: one change of a file that many clients have delegated is one wait. An origin costs a volume no more
//! than its own budget, so that no host alone can take the delegations of a volume from others.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use volume::ids::VolumeId;
use volume::time::Time;

use crate::state::config::Config;

/// Shorter waits do not count: a client that returns its delegation at once may need this long if it is far away or has data to write
/// back.
const WAIT_MIN: Duration = Duration::from_millis(250);

/// What waits cost, by volume. Its lock is taken last.
#[derive(Debug, Default)]
pub(crate) struct CostlyVolumes {
    costs: Mutex<BTreeMap<VolumeId, Cost>>,
    /// When the last volume may be delegated again, in nanoseconds; after that, `costs` need not be searched.
    all_from: AtomicI64,
}

/// A wait for a delegation that a conflict has recalled.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wait {
    /// The volume of the file.
    pub(super) volume: VolumeId,
    /// The origin that holds the delegation.
    pub(super) origin: IpAddr,
    /// How long ago the recall began.
    pub(super) duration: Duration,
}

#[derive(Debug)]
struct Cost {
    /// When the current window began: with the first wait after the last window.
    window: Time,
    /// For how long others have waited in it, and what each origin has cost of that.
    waited: Duration,
    of_origins: BTreeMap<IpAddr, Duration>,
    /// Time before this is counted already.
    counted_until: Time,
    /// When files of the volume may be delegated again.
    delegated_from: Time,
}

impl CostlyVolumes {
    /// Counts a wait until now. Returns whether the budget of the volume is now exceeded; its files are then not delegated for a
    /// while.
    pub(super) fn count(&self, now: Time, wait: &Wait, config: &Config) -> bool {
        if wait.duration < WAIT_MIN || !self.can_delegate(now, wait.volume) {
            return false;
        }
        let mut costs = self.costs.lock();
        costs.retain(|_, cost| now.apart(cost.window) <= config.recall_window || now < cost.delegated_from);
        let cost = costs.entry(wait.volume).or_insert_with(|| Cost::since(now));
        cost.add(now, wait, config);
        let is_exceeded = cost.waited > config.recall_budget_of_volume;
        if is_exceeded {
            let from = now.plus(config.undelegated_after_loss);
            *cost = Cost { delegated_from: from, ..Cost::since(from) };
            self.all_from.fetch_max(from.nanos(), Ordering::Relaxed);
        }
        is_exceeded
    }

    /// Whether files of a volume may be delegated.
    pub(super) fn can_delegate(&self, now: Time, volume: VolumeId) -> bool {
        now.nanos() >= self.all_from.load(Ordering::Relaxed)
            || self.costs.lock().get(&volume).is_none_or(|cost| now >= cost.delegated_from)
    }
}

impl Cost {
    fn since(window: Time) -> Cost {
        Cost {
            window,
            waited: Duration::ZERO,
            of_origins: BTreeMap::new(),
            counted_until: Time::EPOCH,
            delegated_from: Time::EPOCH,
        }
    }

    /// Adds what was not counted of a wait.
    fn add(&mut self, now: Time, wait: &Wait, config: &Config) {
        let counted = self.of_origins.get(&wait.origin).copied().unwrap_or_default();
        let left = config.recall_budget.saturating_sub(counted);
        let lately = wait.duration.min(now.since(self.counted_until.min(now)));
        if lately.is_zero() || left.is_zero() {
            return;
        }
        let added = lately.min(left);
        // What is not added of it must not hide what others cost meanwhile.
        let rest = i64::try_from((lately - added).as_nanos()).unwrap_or(i64::MAX);
        self.counted_until = Time::from_nanos(now.nanos().saturating_sub(rest));
        self.of_origins.insert(wait.origin, counted + added);
        self.waited += added;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: Time = Time::from_nanos(1_000_000_000_000);
    const NINE: Duration = Duration::from_secs(9);

    fn wait(volume: u64, origin: u8, duration: Duration) -> Wait {
        Wait { volume: VolumeId(volume), origin: IpAddr::from([10, 0, 0, origin]), duration }
    }

    fn after(seconds: u64) -> Time {
        START.plus(Duration::from_secs(seconds))
    }

    #[test]
    fn a_volume_in_which_others_wait_too_long_is_not_delegated_for_a_while() {
        let (costly, config) = (CostlyVolumes::default(), Config::default());
        let count =
            |seconds, volume, origin| costly.count(after(seconds), &wait(volume, origin, NINE), &config);
        assert!((1..7).all(|origin| !count(9 * u64::from(origin), 1, origin)));
        assert!(!count(63, 2, 7), "each volume has its own budget");
        assert!(count(63, 1, 7));
        assert!(!costly.can_delegate(after(662), VolumeId(1)));
        assert!(costly.can_delegate(after(662), VolumeId(2)));
        assert!(costly.can_delegate(after(663), VolumeId(1)));
    }

    #[test]
    fn waits_that_overlap_count_once() {
        let (costly, config) = (CostlyVolumes::default(), Config::default());
        for origin in 0..100 {
            let now = after(9).plus(Duration::from_millis(u64::from(origin)));
            assert!(!costly.count(now, &wait(1, origin, NINE), &config), "{origin}");
        }
    }

    #[test]
    fn a_long_wait_for_several_origins_counts_once() {
        let (costly, config) = (CostlyVolumes::default(), Config::default());
        let long = config.recall_budget + Duration::from_secs(1);
        assert!((0..100).all(|origin| !costly.count(after(30), &wait(1, origin, long), &config)));
    }

    #[test]
    fn no_three_origins_alone_keep_a_volume_from_being_delegated() {
        let (costly, config) = (CostlyVolumes::default(), Config::default());
        let minute = Duration::from_secs(60);
        let count = |round: u64, origin| costly.count(after(60 * round), &wait(1, origin, minute), &config);
        for round in 1..8 {
            assert!((1..4).all(|origin| !count(round, origin)));
        }
        assert!(count(8, 1) || count(8, 4), "what the first costs hides nothing");
    }

    #[test]
    fn waits_before_the_window_and_short_ones_do_not_count() {
        let (costly, config) = (CostlyVolumes::default(), Config::default());
        for round in 0..100 {
            let origin = u8::try_from(round).unwrap();
            assert!(!costly.count(after(101 * round), &wait(1, origin, NINE), &config), "{round}");
            let short = wait(1, origin, Duration::from_millis(249));
            assert!((0..1000).all(|_| !costly.count(after(101 * round + 1), &short, &config)));
        }
    }
}
