//! Limits of state, and what is counted of it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Most bytes of memory of an open or of the locks of an owner in a file, its share of tables included. With one owner of many
/// opens 420 to 480 were measured.
const ENTRY_BYTES: u64 = 480;
/// Of an owner with its share of tables, without its name, which is there twice, and without what it was answered last.
pub(super) const OWNER_BYTES: usize = 400;
/// Of a delegation of a file that is not open, so that nothing else has its tables.
const DELEGATION_BYTES: u64 = 480;
/// Of a locked range, in a table that has grown.
const RANGE_BYTES: u64 = 64;
/// Of a client with its first session, what that keeps left out. Its name, up to 1 KiB long, is there twice, that of one that
/// is to be confirmed three times.
const CLIENT_BYTES: u64 = 4 << 10;

/// Limits, which bound memory: see [`Config::bound`]. Those of the default are the most that there are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Config {
    /// How long a client may be silent before it is expired when somebody minds what it holds; and how long a client has
    /// to return a delegation.
    pub(crate) lease: Duration,
    /// How long a silent client is kept if nobody minds it.
    pub(crate) courtesy: Duration,
    /// Clients, confirmed or not.
    pub(crate) clients: usize,
    /// Names by which NLM clients of one host call themselves. What they hold has no lease, so that a host that makes up
    /// names would keep others out for ever.
    pub(crate) names_per_host: usize,
    /// Open owners of a client, and lock owners.
    pub(crate) owners_per_client: usize,
    /// Sessions of a client.
    pub(crate) sessions_per_client: usize,
    /// Slots of a session.
    pub(crate) slots_per_session: u32,
    /// What the slots of all sessions may keep, in bytes. No session gets more than a sixteenth of what is left of it; when
    /// nothing is, the first session of a client still gets one slot, and there is no second one.
    pub(crate) slot_bytes: u64,
    /// Largest request and reply of a session, in bytes.
    pub(crate) message_bytes: u32,
    /// Largest reply that a slot keeps, in bytes.
    pub(crate) cached_bytes: u32,
    /// Operations of a COMPOUND.
    pub(crate) operations: u32,
    /// Opens and lock states of all clients. Their owners count too, by the bytes that they take.
    pub(crate) entries: u64,
    /// Locked ranges of one file.
    pub(crate) ranges_per_file: usize,
    /// Locked ranges of all files.
    pub(crate) ranges: u64,
    /// Those who wait for locks of one file.
    pub(crate) waiters_per_file: usize,
    /// Delegations of all clients.
    pub(crate) delegations: u64,
    /// Copies that go on, and those whose end was not told yet: of all clients.
    pub(crate) copies: usize,
    /// Of one client.
    pub(crate) copies_per_client: usize,
    /// How long a range that became free is kept for who waited first.
    pub(crate) turn: Duration,
    /// How long no delegation of a file is granted after one was recalled.
    pub(crate) undelegated: Duration,
    /// How long after one was revoked, or lost with its client. Clients that come back go by what they have in memory
    /// when they are given another one.
    pub(crate) undelegated_after_loss: Duration,
    /// Files that are not delegated for these reasons, in each part of the state; more are forgotten.
    pub(crate) contended: usize,
    /// How long a callback's answer is waited for.
    pub(crate) callback: Duration,
}

impl Default for Config {
    fn default() -> Self {
        Config {
            lease: Duration::from_secs(60),
            courtesy: Duration::from_secs(24 * 3600),
            clients: 16 << 10,
            names_per_host: 256,
            owners_per_client: 256 << 10,
            sessions_per_client: 64,
            slots_per_session: 256,
            slot_bytes: 256 << 20,
            message_bytes: (1 << 20) + (64 << 10),
            cached_bytes: 8 << 10,
            operations: 128,
            entries: 4 << 20,
            ranges_per_file: 64 << 10,
            ranges: 4 << 20,
            waiters_per_file: 1024,
            delegations: 1 << 20,
            copies: 64,
            copies_per_client: 16,
            turn: Duration::from_secs(5),
            undelegated: Duration::from_secs(30),
            undelegated_after_loss: Duration::from_secs(600),
            contended: 1024,
            callback: Duration::from_secs(10),
        }
    }
}

impl Config {
    /// Lowers limits so that what clients hold takes `bytes` of memory at most: three eighths for opens, locks and their
    /// owners, two for what sessions keep, one each for delegations, for ranges, and for clients with one slot each. What of it one host, or one
    /// file, may have to itself is a fourth.
    #[must_use]
    pub(crate) fn bound(self, bytes: u64) -> Config {
        let eighth = bytes / 8;
        let clients = eighth / (CLIENT_BYTES + u64::from(self.cached_bytes));
        // A client that has one open can do something.
        let max = |limit: u64, within: u64| limit.min(within).max(1);
        let size = |limit: usize, within: u64| limit.min(usize::try_from(within).unwrap_or(usize::MAX));
        let entries = max(self.entries, 3 * eighth / ENTRY_BYTES);
        let ranges = max(self.ranges, eighth / RANGE_BYTES);
        let clients = size(self.clients, clients).max(CLIENTS_MIN);
        Config {
            clients,
            names_per_host: self.names_per_host.min(clients / 4).max(1),
            owners_per_client: size(self.owners_per_client, entries),
            slot_bytes: self.slot_bytes.min(2 * eighth),
            entries,
            ranges,
            ranges_per_file: size(self.ranges_per_file, ranges / 4).max(1),
            delegations: max(self.delegations, eighth / DELEGATION_BYTES),
            ..self
        }
    }
}

/// Clients that there may be with the least memory.
const CLIENTS_MIN: usize = 16;

/// What is counted.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    /// Bytes that the slots of all sessions may take.
    pub(crate) slot_bytes: AtomicU64,
    pub(crate) opens: AtomicU64,
    /// Opens that deny something.
    pub(crate) denials: AtomicU64,
    pub(crate) lock_states: AtomicU64,
    /// Bytes that open owners and lock owners take.
    pub(crate) owner_bytes: Arc<AtomicU64>,
    pub(crate) ranges: AtomicU64,
    pub(crate) delegations_granted: AtomicU64,
    pub(crate) delegations_recalled: AtomicU64,
    pub(crate) delegations_revoked: AtomicU64,
    pub(crate) copies_begun: AtomicU64,
    pub(crate) clients_expired: AtomicU64,
    pub(crate) callbacks_sent: AtomicU64,
    pub(crate) callbacks_failed: AtomicU64,
}

/// Bytes that are counted until this is dropped.
#[derive(Debug)]
pub(crate) struct CountedBytes {
    counter: Arc<AtomicU64>,
    bytes: u64,
}

impl CountedBytes {
    /// Counts so many.
    pub(crate) fn new(counter: &Arc<AtomicU64>, bytes: usize) -> CountedBytes {
        let mut counted = CountedBytes { counter: Arc::clone(counter), bytes: 0 };
        counted.exchange(0, bytes);
        counted
    }

    /// Some of it are no more, and others are there.
    pub(crate) fn exchange(&mut self, before: usize, after: usize) {
        let as_many = |bytes: usize| u64::try_from(bytes).expect("no more than there is memory");
        self.counter.fetch_add(as_many(after), Ordering::Relaxed);
        self.counter.fetch_sub(as_many(before), Ordering::Relaxed);
        self.bytes = self.bytes + as_many(after) - as_many(before);
    }
}

impl Drop for CountedBytes {
    fn drop(&mut self) {
        self.counter.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

impl Counters {
    /// As how many opens all that is held counts.
    pub(crate) fn entries(&self) -> u64 {
        let owners = Counters::get(&self.owner_bytes) / ENTRY_BYTES;
        Counters::get(&self.opens) + Counters::get(&self.lock_states) + owners
    }

    /// One more.
    pub(crate) fn up(counter: &AtomicU64) {
        counter.fetch_add(1, Ordering::Relaxed);
    }

    /// One less.
    pub(crate) fn down(counter: &AtomicU64) {
        counter.fetch_sub(1, Ordering::Relaxed);
    }

    /// How many.
    pub(crate) fn get(counter: &AtomicU64) -> u64 {
        counter.load(Ordering::Relaxed)
    }
}
