//! Limits of the state, and its counters.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Memory of an open, or of an owner's locks in a file, with its share of tables, in bytes. With one owner of many
/// opens, 420 to 480 were measured.
const ENTRY_BYTES: u64 = 480;
/// Memory of an owner with its share of tables, in bytes, without its name, which is stored twice, and its last reply.
pub(super) const OWNER_BYTES: usize = 400;
/// Memory of a delegation of a file that is not open, so it pays for the file's tables alone.
const DELEGATION_BYTES: u64 = 480;
/// Memory of a locked range in a table that has grown.
const RANGE_BYTES: u64 = 64;
/// Memory of a client with its first session, without cached replies. Its name, up to 1 KiB long, is stored twice; that
/// of an unconfirmed client three times.
const CLIENT_BYTES: u64 = 4 << 10;

/// Limits that bound memory: see [`Config::bound`]. The defaults are the maxima.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Config {
    /// How long a client may be idle before a conflict expires it; and how long it has to return a delegation.
    pub(crate) lease: Duration,
    /// How long an idle client is kept while nothing conflicts.
    pub(crate) courtesy: Duration,
    /// Clients, confirmed or not.
    pub(crate) clients: usize,
    /// Names that the NLM clients of one host use. Their state has no lease, so a host that invents names would keep
    /// others out for ever.
    pub(crate) names_per_host: usize,
    /// Open owners of a client; lock owners likewise.
    pub(crate) owners_per_client: usize,
    /// Sessions of a client.
    pub(crate) sessions_per_client: usize,
    /// Slots of a session.
    pub(crate) slots_per_session: u32,
    /// Memory of the replies in the slots of all sessions. A session gets at most a sixteenth of what is free. When
    /// nothing is, the first session of a client still gets one slot, and a second session is refused.
    pub(crate) slot_bytes: u64,
    /// Largest request and reply of a session, in bytes.
    pub(crate) message_bytes: u32,
    /// Largest reply that a slot caches, in bytes.
    pub(crate) cached_bytes: u32,
    /// Operations of a COMPOUND.
    pub(crate) operations: u32,
    /// Opens and lock states of all clients. Owners count too, by their memory.
    pub(crate) entries: u64,
    /// Locked ranges of one file.
    pub(crate) ranges_per_file: usize,
    /// Locked ranges of all files.
    pub(crate) ranges: u64,
    /// Waiters for locks of one file.
    pub(crate) waiters_per_file: usize,
    /// Delegations of all clients.
    pub(crate) delegations: u64,
    /// Copies that run, or whose end is not reported yet, of all clients.
    pub(crate) copies: usize,
    /// The same for one client.
    pub(crate) copies_per_client: usize,
    /// How long a freed range is reserved for the first waiter.
    pub(crate) turn: Duration,
    /// How long a file is not delegated after a recall.
    pub(crate) undelegated: Duration,
    /// The same after a delegation was revoked, or lost with its client. A client that comes back trusts its cache once
    /// it is given another one.
    pub(crate) undelegated_after_loss: Duration,
    /// Files that are not delegated for these reasons, in each shard; more are forgotten.
    pub(crate) contended: usize,
    /// How long to wait for the answer to a callback.
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
    /// Lowers limits so that state takes at most `bytes` of memory: three eighths for opens, locks and their owners,
    /// two for cached replies, one each for delegations, for ranges, and for clients with one slot each. One host, or
    /// one file, may have a fourth of its part.
    #[must_use]
    pub(crate) fn bound(self, bytes: u64) -> Config {
        let eighth = bytes / 8;
        let clients = eighth / (CLIENT_BYTES + u64::from(self.cached_bytes));
        // A client with one open can make progress.
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

/// Clients that are allowed with the least memory.
const CLIENTS_MIN: usize = 16;

/// Gauges and counters.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    /// Bytes that the slots of all sessions may take.
    pub(crate) slot_bytes: AtomicU64,
    pub(crate) opens: AtomicU64,
    /// Opens that deny something.
    pub(crate) denials: AtomicU64,
    pub(crate) lock_states: AtomicU64,
    /// Memory of open owners and lock owners, in bytes.
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
    /// Counts `bytes`.
    pub(crate) fn new(counter: &Arc<AtomicU64>, bytes: usize) -> CountedBytes {
        let mut counted = CountedBytes { counter: Arc::clone(counter), bytes: 0 };
        counted.exchange(0, bytes);
        counted
    }

    /// Replaces `before` of these bytes by `after`.
    pub(crate) fn exchange(&mut self, before: usize, after: usize) {
        let as_many = |bytes: usize| u64::try_from(bytes).expect("less than the memory");
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
    /// Returns the opens and lock states, with owners converted by their memory.
    pub(crate) fn entries(&self) -> u64 {
        let owners = Counters::get(&self.owner_bytes) / ENTRY_BYTES;
        Counters::get(&self.opens) + Counters::get(&self.lock_states) + owners
    }

    /// Adds one.
    pub(crate) fn up(counter: &AtomicU64) {
        counter.fetch_add(1, Ordering::Relaxed);
    }

    /// Subtracts one.
    pub(crate) fn down(counter: &AtomicU64) {
        counter.fetch_sub(1, Ordering::Relaxed);
    }

    /// Returns the value.
    pub(crate) fn get(counter: &AtomicU64) -> u64 {
        counter.load(Ordering::Relaxed)
    }
}
