//! Limits of state, and what is counted of it.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Limits. Each kind of state costs some hundred bytes of memory, so that the bounds on opens, locks and delegations
/// bound memory.
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
    /// What the slots of all sessions may keep, in bytes. No session gets more than a sixteenth of what is left of it, and
    /// each gets one slot.
    pub(crate) slot_bytes: u64,
    /// Largest request and reply of a session, in bytes.
    pub(crate) message_bytes: u32,
    /// Largest reply that a slot keeps, in bytes.
    pub(crate) cached_bytes: u32,
    /// Operations of a COMPOUND.
    pub(crate) operations: u32,
    /// Opens and lock states of all clients. An open was measured to take 420 to 480 bytes of memory, its share of tables
    /// included, with an owner of many opens.
    pub(crate) holdings: u64,
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
            holdings: 4 << 20,
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

/// What is counted.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    /// Bytes that the slots of all sessions may take.
    pub(crate) slot_bytes: AtomicU64,
    pub(crate) opens: AtomicU64,
    /// Opens that deny something.
    pub(crate) denials: AtomicU64,
    pub(crate) lock_states: AtomicU64,
    pub(crate) ranges: AtomicU64,
    pub(crate) delegations_granted: AtomicU64,
    pub(crate) delegations_recalled: AtomicU64,
    pub(crate) delegations_revoked: AtomicU64,
    pub(crate) copies_begun: AtomicU64,
    pub(crate) clients_expired: AtomicU64,
    pub(crate) callbacks_sent: AtomicU64,
    pub(crate) callbacks_failed: AtomicU64,
}

impl Counters {
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
