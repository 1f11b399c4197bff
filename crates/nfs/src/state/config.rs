//! Limits of the state, and its counters. [`crate::state::shares`] says how clients share what is bounded in all.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::state::delegations::places;
use crate::state::shares::Resource;

/// Memory of an open, or of an owner's locks in a file, with its share of tables, in bytes. With one owner of many opens, 340 to
/// 480 were measured, and 400 to 430 more for a locked range of each file with its lock state.
pub(super) const ENTRY_BYTES: u64 = 480;
/// Memory of an owner with its share of tables, in bytes, without its name, which is stored twice, and its last reply. Its list
/// of lock states, in NFSv4.0, is counted with these.
pub(super) const OWNER_BYTES: u64 = 400;
/// Memory counted for the last reply to an owner of NFSv4.0, however short, so that no later reply needs more. Enough for an OPEN that
/// returns a delegation.
pub(crate) const OWNER_REPLY_BYTES: u64 = 256;
/// Memory of a delegation of a file that is not open, so it pays for the file's tables alone; and of its places in two tables: of
/// files opened lately, and of contended ones.
const DELEGATION_BYTES: u64 = 512 + 2 * places::BYTES_PER_DELEGATION;
/// Memory of a locked range in a table that has grown. In a file with few ranges it is less.
pub(super) const RANGE_BYTES: u64 = 160;
/// Memory of a place in the queue for a range, or of a remembered grant from there.
pub(super) const WAITER_BYTES: u64 = 256;
/// Memory of a client without sessions. Its name, up to 1 KiB long, is stored twice; that of an unconfirmed client three
/// times.
const CLIENT_BYTES: u64 = 4 << 10;
/// Unconfirmed clients may be one for this many confirmed ones.
const CLIENTS_PER_UNCONFIRMED: usize = 4;
/// For how many leases at most a delegation that is recalled, or a lock that was granted, is left to its client because there is no
/// room to call the client.
pub(super) const UNTOLD_LEASES_MAX: u32 = 4;
/// Locked ranges for each place in a queue.
const RANGES_PER_WAITER: u64 = 16;

/// Limits that bound memory: see [`Config::bound`]. The defaults are the maxima.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Config {
    /// How long a client may be idle before a conflict expires it; and how long it has to return a delegation.
    pub(crate) lease: Duration,
    /// How long an idle client is kept while nothing conflicts.
    pub(crate) courtesy: Duration,
    /// Confirmed clients.
    pub(crate) clients: usize,
    /// Clients that are not confirmed yet.
    pub(crate) unconfirmed: usize,
    /// Names that the NLM clients of one host use. Their state has no lease, so a host that invents names would keep
    /// others out for ever.
    pub(crate) names_per_host: usize,
    /// Sessions of a client.
    pub(crate) sessions_per_client: usize,
    /// Slots of a session.
    pub(crate) slots_per_session: u32,
    /// Memory of all sessions and their slots, with cached replies. Half of it is for the first session of each client,
    /// with one slot. Of what the client may take of the other half, a session gets at most a sixteenth.
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
    /// Waiters for locks of all files.
    pub(crate) waiters: u64,
    /// Delegations of all clients.
    pub(crate) delegations: u64,
    /// Memory of calls to clients and hosts that wait or are not answered yet. Calls beyond are dropped: recalls and ends of
    /// copies are repeated later, and hosts ask again by themselves. Enough to notify 16,384 hosts of a restart.
    pub(crate) call_bytes: u64,
    /// Copies that run, or whose end is not reported yet, of all clients.
    pub(crate) copies: usize,
    /// The same for one client.
    pub(crate) copies_per_client: usize,
    /// How long a freed range is reserved for the first waiter.
    pub(crate) turn: Duration,
    /// How soon a client that has nothing to write back returns a delegation that is recalled.
    pub(crate) prompt_return: Duration,
    /// How long others may wait for the delegations of one origin in total, within [`Config::recall_window`]. Enough to write back some
    /// seconds of data a few times; an origin that needs more is better off without delegations. Linux clients of NFSv4.0 were
    /// seen to take 6 seconds to return a read delegation of an open file.
    pub(crate) recall_budget: Duration,
    /// How long others may wait for delegations of one volume in total, whoever holds them, within [`Config::recall_window`]: three times
    /// [`Config::recall_budget`], so that no three origins can exceed it alone. Beyond that, delegations cost more than they save.
    pub(crate) recall_budget_of_volume: Duration,
    /// The window over which the budget of an origin or of a volume counts: as long as one that has exceeded it goes without
    /// delegations ([`Config::undelegated_after_loss`]).
    pub(crate) recall_window: Duration,
    /// How long a file is not delegated after a recalled delegation was returned.
    pub(crate) undelegated: Duration,
    /// The same after a delegation was revoked, or lost with its client. A client that comes back trusts its cache once
    /// it is given another one. An origin that is not trusted to return them gets none of other files either for that time.
    pub(crate) undelegated_after_loss: Duration,
    /// How long to wait for the answer to a callback over a connection of the client.
    pub(crate) callback: Duration,
    /// How long to wait for the end of a call over a connection of the server's own. The caller is told how it ended, after
    /// 30 s at most, so this matters only if that is lost.
    pub(crate) outbound: Duration,
}

impl Default for Config {
    fn default() -> Self {
        Config {
            lease: Duration::from_secs(60),
            courtesy: Duration::from_secs(24 * 3600),
            clients: 16 << 10,
            unconfirmed: 4 << 10,
            names_per_host: 256,
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
            waiters: 64 << 10,
            delegations: 1 << 20,
            call_bytes: 5 << 20,
            copies: 64,
            copies_per_client: 16,
            turn: Duration::from_secs(5),
            prompt_return: Duration::from_secs(10),
            recall_budget: Duration::from_secs(20),
            recall_budget_of_volume: Duration::from_secs(60),
            recall_window: Duration::from_secs(600),
            undelegated: Duration::from_secs(30),
            undelegated_after_loss: Duration::from_secs(600),
            callback: Duration::from_secs(10),
            outbound: Duration::from_secs(40),
        }
    }
}

impl Config {
    /// Lowers limits so that state takes at most `bytes` of memory: three eighths for opens, locks and their owners, two
    /// for sessions with their slots, one each for delegations, for ranges with the queues for them, and for clients. One
    /// file may have a fourth of the ranges, and one NLM host a fourth of the clients.
    #[must_use]
    pub(crate) fn bound(self, bytes: u64) -> Config {
        let eighth = bytes / 8;
        // A client with one open can make progress.
        let max = |limit: u64, within: u64| limit.min(within).max(1);
        let size = |limit: usize, within: u64| limit.min(usize::try_from(within).unwrap_or(usize::MAX));
        let entries = max(self.entries, 3 * eighth / ENTRY_BYTES);
        let ranges = max(self.ranges, eighth / (RANGE_BYTES + WAITER_BYTES / RANGES_PER_WAITER));
        let introduced = size(self.clients + self.unconfirmed, eighth / CLIENT_BYTES);
        let unconfirmed = introduced / (CLIENTS_PER_UNCONFIRMED + 1);
        let clients = (introduced - unconfirmed).max(CLIENTS_MIN);
        Config {
            clients,
            unconfirmed: unconfirmed.max(CLIENTS_MIN / CLIENTS_PER_UNCONFIRMED),
            names_per_host: self.names_per_host.min(clients / 4).max(1),
            slot_bytes: self.slot_bytes.min(2 * eighth).max(SLOT_BYTES_MIN),
            entries,
            ranges,
            ranges_per_file: size(self.ranges_per_file, ranges / 4).max(1),
            waiters: max(self.waiters, ranges / RANGES_PER_WAITER),
            delegations: max(self.delegations, eighth / DELEGATION_BYTES),
            ..self
        }
    }

    /// Returns the bound of a resource that clients share.
    pub(super) fn bound_of(&self, resource: Resource) -> u64 {
        match resource {
            Resource::Clients => self.clients as u64,
            Resource::Unconfirmed => self.unconfirmed as u64,
            Resource::SessionBytes | Resource::SlotBytes => self.slot_bytes / 2,
            Resource::StateBytes => self.entries.saturating_mul(ENTRY_BYTES),
            Resource::Ranges => self.ranges,
            Resource::Waiters => self.waiters,
            Resource::Delegations => self.delegations,
            Resource::CallBytes => self.call_bytes,
            Resource::Copies => self.copies as u64,
        }
    }
}

/// Clients that are allowed with the least memory.
const CLIENTS_MIN: usize = 16;
/// Memory of sessions and slots with the least memory: one for each of those clients.
const SLOT_BYTES_MIN: u64 = 2 * (CLIENTS_MIN as u64) * (16 << 10);

/// Gauges and counters.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) opens: AtomicU64,
    /// Opens that deny something.
    pub(crate) denials: AtomicU64,
    pub(crate) lock_states: AtomicU64,
    pub(crate) delegations_granted: AtomicU64,
    pub(crate) delegations_recalled: AtomicU64,
    pub(crate) delegations_revoked: AtomicU64,
    pub(crate) copies_begun: AtomicU64,
    pub(crate) clients_expired: AtomicU64,
    /// Hosts that lost their locks because they did not answer.
    pub(crate) hosts_given_up: AtomicU64,
    pub(crate) callbacks_sent: AtomicU64,
    pub(crate) callbacks_failed: AtomicU64,
}

impl Counters {
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
