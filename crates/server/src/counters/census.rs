//! Who is connected to an event loop. This is counted on request, in the pass that the loop makes over its connections once in
//! a tick anyway, so that frequent requests cost the loop no more.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// Interval between checks of whether a loop has counted.
const POLL: Duration = Duration::from_millis(20);

/// The connections of a client to a loop.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Connected {
    pub(crate) connections: u64,
    /// Calls, bytes received and replied, and a bit for each [`nfs::summary::Protocol`], of these connections.
    pub(crate) calls: u64,
    pub(crate) bytes: u64,
    pub(crate) protocols: u64,
    /// How long none of them has moved a byte.
    pub(crate) idle: Duration,
}

impl Connected {
    /// Adds other connections of the same client.
    pub(crate) fn add(&mut self, other: &Connected) {
        self.idle = if self.connections == 0 { other.idle } else { self.idle.min(other.idle) };
        self.connections += other.connections;
        self.calls += other.calls;
        self.bytes += other.bytes;
        self.protocols |= other.protocols;
    }
}

/// The last count of a loop.
#[derive(Debug, Default)]
pub(crate) struct Census {
    /// There never are connections, and nobody counts.
    is_empty: bool,
    is_wanted: AtomicBool,
    latest: Mutex<Latest>,
}

#[derive(Debug, Default)]
struct Latest {
    number: u64,
    clients: HashMap<IpAddr, Connected>,
}

impl Census {
    /// Makes the census of a thread that has no connections.
    pub(crate) fn empty() -> Census {
        Census { is_empty: true, ..Census::default() }
    }

    /// Whether a count was requested since the last one.
    pub(crate) fn is_wanted(&self) -> bool {
        self.is_wanted.load(Ordering::Acquire)
    }

    /// Shows what the loop has counted.
    pub(crate) fn show(&self, clients: HashMap<IpAddr, Connected>) {
        let mut latest = self.latest.lock();
        self.is_wanted.store(false, Ordering::Release);
        latest.number += 1;
        latest.clients = clients;
    }

    /// Asks the loop to count.
    fn ask(&self) -> u64 {
        let latest = self.latest.lock();
        self.is_wanted.store(true, Ordering::Release);
        latest.number
    }

    /// Returns what several loops count from now on, by client, or counted last if that takes longer than `patience`.
    pub(crate) fn take<'a>(
        loops: impl Iterator<Item = &'a Census>,
        patience: Duration,
    ) -> HashMap<IpAddr, Connected> {
        let asked: Vec<(&Census, u64)> =
            loops.filter(|census| !census.is_empty).map(|census| (census, census.ask())).collect();
        let until = Instant::now() + patience;
        let mut all: HashMap<IpAddr, Connected> = HashMap::new();
        for (census, before) in asked {
            while census.latest.lock().number == before && Instant::now() < until {
                thread::sleep(POLL);
            }
            for (client, connected) in &census.latest.lock().clients {
                all.entry(*client).or_default().add(connected);
            }
        }
        all
    }
}
