//! The files that are not delegated for a while, since others waited for a delegation of them, or a client lost one.
//!
//! Whoever waits must find the file free, so no mark may be displaced by marks of other files, however many a client can make.
//! Each file has one place, which it shares with the files that hash to it: these are not delegated either, which costs them
//! nothing but a delegation.

use std::sync::atomic::Ordering;
use std::time::Duration;

use volume::time::Time;

use crate::state::delegations::places::Places;
use crate::state::ids::FileId;

/// For each place, the second until which its files are not delegated.
#[derive(Debug)]
pub(crate) struct Contended {
    until: Places,
}

impl Contended {
    /// Makes places for a server that grants up to this many delegations.
    pub(crate) fn new(delegations: u64) -> Contended {
        Contended { until: Places::new(delegations) }
    }

    /// Keeps a file from being delegated for `time` from now on, or up to a second longer.
    pub(crate) fn mark(&self, now: Time, file: FileId, time: Duration) {
        let (until, _) = self.until.of(file);
        until.fetch_max(second(now.plus(time)).saturating_add(1), Ordering::Relaxed);
    }

    /// Whether a file must not be delegated now.
    pub(crate) fn has(&self, now: Time, file: FileId) -> bool {
        let (until, _) = self.until.of(file);
        second(now) < until.load(Ordering::Relaxed)
    }
}

fn second(time: Time) -> u32 {
    u32::try_from(time.nanos() / 1_000_000_000).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::tests::file;

    const START: Time = Time::from_nanos(1_000_000_000_000);

    #[test]
    fn a_mark_lasts_whatever_else_is_marked() {
        let contended = Contended::new(1 << 20);
        contended.mark(START, file(0), Duration::from_secs(30));
        (1..10_000).for_each(|ino| contended.mark(START, file(ino), Duration::from_secs(600)));
        contended.mark(START, file(0), Duration::from_secs(1));
        assert!(contended.has(START.plus(Duration::from_secs(30)), file(0)));
        let others = (10_000..20_000).filter(|ino| contended.has(START, file(*ino))).count();
        assert!(others < 1000, "{others} of 10,000: places are rarely shared");
    }

    #[test]
    fn a_mark_ends() {
        let contended = Contended::new(1);
        assert!(!contended.has(START, file(1)));
        contended.mark(START, file(1), Duration::from_secs(30));
        assert!(!contended.has(START.plus(Duration::from_secs(31)), file(1)));
    }
}
