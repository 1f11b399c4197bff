//! What a watcher saw of a lease, and when it may take it.

use std::time::Duration;

use crate::limits::{INHERITED_MAX, SLOW, WATCH};
use crate::record::{Identity, LeaseRecord, LeaseState};
use crate::time::Time;

use super::call::Version;

/// What a watcher saw of a lease, for another process of the same machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Watched {
    /// The version that it has.
    pub version: Version,
    /// When the first answer that showed it came.
    pub since: Time,
    /// When the last read that showed it was sent.
    pub confirmed: Time,
}

/// The lease as a watcher saw it.
#[derive(Clone, Debug)]
pub(super) struct Sighting {
    pub(super) version: Version,
    pub(super) record: LeaseRecord,
    /// When the first answer that showed it came.
    pub(super) since: Time,
    /// When the last read that showed it was sent.
    confirmed: Time,
}

impl Sighting {
    /// Returns what is seen after a read that was sent at `sent` and answered at `now`. If the lease changed, or the store was
    /// slow, watching begins anew.
    pub(super) fn after(
        before: Option<Sighting>,
        now: Time,
        sent: Time,
        version: Version,
        record: LeaseRecord,
    ) -> Sighting {
        let is_steady = now.since(sent) <= SLOW;
        match before {
            Some(seen) if is_steady && (seen.version, &seen.record) == (version, &record) => {
                Sighting { confirmed: sent, ..seen }
            }
            _ => Sighting { version, record, since: now, confirmed: sent },
        }
    }

    pub(super) fn watched(&self) -> Watched {
        Watched { version: self.version, since: self.since, confirmed: self.confirmed }
    }

    /// Adds what another process of this machine saw before the read that was sent at `sent` and answered at `now`. It counts
    /// only if nobody could have missed for long that the store is slow.
    pub(super) fn inherit(&mut self, watched: Watched, now: Time, sent: Time) {
        let is_steady = now.since(sent) <= SLOW && sent.since(watched.confirmed) <= INHERITED_MAX;
        if is_steady && watched.version == self.version {
            self.since = self.since.min(watched.since);
        }
    }

    /// Returns when a candidate may take the lease, unless it changes before; never without a candidacy.
    pub(super) fn ripe_at(&self, identity: &Identity, candidacy: Option<Duration>) -> Option<Time> {
        let delay = candidacy?;
        Some(match &self.record.state {
            LeaseState::OfferedTo(node) if node == identity.node() => self.since,
            LeaseState::Released => self.since + delay,
            LeaseState::Held | LeaseState::OfferedTo(_) => self.since + WATCH + delay,
        })
    }

    /// Whether a candidate may take the lease now. If somebody may have it, a read that was sent after the watch must have
    /// shown it.
    pub(super) fn may_be_taken(&self, identity: &Identity, candidacy: Option<Duration>, now: Time) -> bool {
        let is_open = match &self.record.state {
            LeaseState::Held => false,
            LeaseState::Released => true,
            LeaseState::OfferedTo(node) => node == identity.node(),
        };
        let until = if is_open { now } else { self.confirmed };
        self.ripe_at(identity, candidacy).is_some_and(|ripe| ripe <= until)
    }
}
