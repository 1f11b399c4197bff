//! The log of refused mounts: which client, which path, which rule. A client that tries again and again is logged once a
//! minute.

use std::fmt::Display;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use foldhash::HashMap;
use parking_lot::Mutex;
use volume::time::Time;

use crate::limits::REFUSALS_MAX;

/// Why a path that no export has is refused.
pub(crate) const NO_EXPORT: &str = "no export has this path";

/// How long a refusal is not logged again.
const QUIET: Duration = Duration::from_secs(60);

/// A client and a path that was refused to it.
type Refused = (IpAddr, Box<[u8]>);

/// Refusals that were logged within [`QUIET`], at most [`REFUSALS_MAX`].
#[derive(Debug, Default)]
pub(crate) struct Refusals(Mutex<HashMap<Refused, Time>>);

impl Refusals {
    /// Logs that a client may not mount or use `path`, unless that was logged lately. While [`REFUSALS_MAX`] refusals are
    /// remembered, others are not logged.
    pub(crate) fn log(
        &self,
        client: SocketAddr,
        path: &[u8],
        status: &dyn Display,
        reason: &dyn Display,
        now: Time,
    ) {
        if self.is_due((client.ip().to_canonical(), path.into()), now) {
            let path = String::from_utf8_lossy(path);
            tracing::warn!(client = %client.ip().to_canonical(), %path, %status, %reason, "mount refused");
        }
    }

    fn is_due(&self, refused: Refused, now: Time) -> bool {
        let is_recent = |logged: &Time| *logged <= now && now.since(*logged) < QUIET;
        let mut known = self.0.lock();
        if known.get(&refused).is_some_and(is_recent) {
            return false;
        }
        if known.len() >= REFUSALS_MAX {
            known.retain(|_, logged| is_recent(logged));
        }
        let has_room = known.len() < REFUSALS_MAX;
        if has_room {
            known.insert(refused, now);
        }
        has_room
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: i64) -> Time {
        Time::from_parts(seconds, 0)
    }

    fn refused(number: usize) -> Refused {
        ("192.0.2.1".parse().unwrap(), format!("/{number}").into_bytes().into())
    }

    #[test]
    fn a_refusal_is_logged_once_a_minute() {
        let refusals = Refusals::default();
        assert!(refusals.is_due(refused(1), at(100)));
        assert!(!refusals.is_due(refused(1), at(159)));
        assert!(refusals.is_due(refused(2), at(159)), "another path");
        assert!(refusals.is_due(refused(1), at(160)));
        assert!(refusals.is_due(refused(1), at(50)), "the clock was set back");
    }

    #[test]
    fn refusals_in_memory_are_bounded() {
        let refusals = Refusals::default();
        for number in 0..REFUSALS_MAX {
            assert!(refusals.is_due(refused(number), at(100)));
        }
        assert!(!refusals.is_due(refused(REFUSALS_MAX), at(100)));
        assert!(refusals.is_due(refused(REFUSALS_MAX), at(200)), "the others are forgotten after a minute");
        assert!(refusals.0.lock().len() <= REFUSALS_MAX);
    }
}
