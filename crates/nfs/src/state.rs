//! The state machine of NFSv4: clients, sessions, opens, locks, delegations, callbacks.
//!
//! It owns no socket and reads no clock; time comes with each question ([`Context`]), and what is to survive a restart
//! goes out as records of a volume ([`StateStore`]).
//!
//! | module | holds |
//! |---|---|
//! | [`ids`] | client ids, session ids, stateids |
//! | [`clients`], [`client`] | who there is: SETCLIENTID, EXCHANGE_ID, CREATE_SESSION; leases |
//! | [`sessions`], [`slots`] | sessions; each request once |
//! | [`turns`] | the order of an owner's requests in NFSv4.0 |
//! | [`holding`] | what a stateid stands for |
//! | [`files`], [`share`] | who has a file open, and how |
//! | [`locking`], [`ranges`] | who has which bytes locked, and who waits for them |
//! | [`nlm`] | the lock managers of hosts that use NFSv3, and what they are called for |
//! | [`delegations`] | granting, recalling, revoking |
//! | [`changing`] | changes of files that are under way, which are not delegated meanwhile |
//! | [`offload`] | copies that go on after the reply |
//! | [`callbacks`] | calls to clients |
//! | [`expiry`] | what time does: leases, recalls, owners that are not used any more |
//! | [`record`], [`restart`] | what is kept, and coming back from it |
//! | [`config`] | limits and gauges |
//! | `error` | why an operation is refused |
//!
//! # Locks
//!
//! What is on the path of SEQUENCE, READ and WRITE takes read locks of shards only: that of the session, that of the
//! stateid. In order, none while one further right is held:
//!
//! shard of a file → clients' table → shard of sessions → shard of stateids → a client's [`crate::state::clients::client::ClientState`] → what is in a
//! session → outgoing callbacks.
//!
//! A change is journaled under the lock of what it changes, so that records are written in the order of the changes. The
//! journal takes no lock of an inode; and who holds one, as the engine does when it asks for a record to go with a new
//! file, must take none of the locks above: see [`files::PreparedOpen`].

use std::sync::Arc;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, AtomicU64};

use parking_lot::Mutex;
use volume::ids::VolumeId;
use volume::request::{Durability, Durable, Error};
use volume::state::StateChange;
use volume::time::Time;

pub(crate) mod callbacks;
pub(crate) mod clients;
pub(crate) mod config;
pub(crate) mod copies;
pub(crate) mod delegations;
mod error;
pub(crate) mod files;
pub(crate) mod hosts;
pub(crate) mod ids;
pub(crate) mod locks;
pub(crate) mod record;
pub(crate) mod restart;
pub(crate) mod sessions;
mod shards;
pub(crate) mod stateids;

use crate::connection::ConnectionId;

use callbacks::Callbacks;
use clients::Clients;
use clients::client::Client;
use config::{Config, Counters};
use copies::CopyJobs;
use delegations::in_flight::InFlightModifications;
pub(crate) use error::StateError;
use files::Files;
use ids::{FileId, Other, SessionId};
use sessions::Sessions;
pub(crate) use sessions::SlotGuard;

use shards::Shards;

/// Where records are kept: the volumes, as the state machine sees them.
pub(crate) trait StateStore {
    /// The volume of clients and sessions.
    fn home(&self) -> VolumeId;

    /// Journals changes, in order. Does not wait until they are durable, and is called with locks held.
    ///
    /// # Errors
    /// Those of [`volume::volume::Volume::change_state`]: nothing was changed.
    fn change(&self, volume: VolumeId, changes: &[StateChange]) -> Result<Durability, Error>;

    /// Larger after each start.
    fn generation(&self) -> u32;

    /// From now on the file is kept though its last name goes.
    fn hold(&self, file: FileId);

    /// That ends.
    fn release(&self, file: FileId);

    /// Whether what tells of this may leave.
    fn durability(&self, token: DurabilityToken) -> Durable;

    /// The file's handle.
    fn handle(&self, file: FileId) -> Box<[u8]>;
}

/// What every question comes with.
#[derive(Clone, Copy)]
pub(crate) struct Context<'a> {
    /// Where records are kept.
    pub(crate) store: &'a dyn StateStore,
    /// The wall clock.
    pub(crate) now: Time,
}

/// What a reply waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DurabilityToken {
    /// The volume whose journal has it.
    pub(crate) volume: VolumeId,
    /// Up to where it must be durable.
    pub(crate) after: Durability,
}

impl Context<'_> {
    /// Journals changes of `volume`.
    fn change(&self, volume: VolumeId, changes: &[StateChange]) -> Result<DurabilityToken, StateError> {
        Ok(DurabilityToken { volume, after: self.store.change(volume, changes)? })
    }

    /// Journals changes of clients and sessions.
    fn change_home(&self, changes: &[StateChange]) -> Result<DurabilityToken, StateError> {
        self.change(self.store.home(), changes)
    }
}

/// Who asks.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Caller<'a> {
    /// NFSv4.0, where the stateid tells who.
    V40,
    /// NFSv4.1 and later: the session does.
    Session(&'a Arc<Client>),
}

impl<'a> Caller<'a> {
    /// The client, if that is known beforehand.
    pub(crate) fn client(self) -> Option<&'a Arc<Client>> {
        match self {
            Caller::Session(client) => Some(client),
            Caller::V40 => None,
        }
    }
}

/// Clients and what they hold. Survives a change of the configuration.
#[derive(Debug, Default)]
pub(crate) struct SharedState {
    config: Config,
    /// The second in which this instance began; names it in ids.
    instance: OnceLock<u32>,
    /// The first instance of which something is known; what is older is stale, what is not there any more expired.
    oldest: AtomicU32,
    /// The number of the next client or session.
    numbers: AtomicU32,
    clients: Clients,
    sessions: Sessions,
    files: Files,
    stateids: Shards<Other, Arc<stateids::entry::StateEntry>>,
    callbacks: Callbacks,
    copies: CopyJobs,
    counters: Counters,
    modifications: InFlightModifications,
    /// When [`SharedState::tick`] last looked at everybody, in nanoseconds.
    swept: AtomicU64,
    /// The newest instance that records name.
    newest_known: AtomicU32,
    /// Delegations that were asked back and not returned yet.
    recalls: Mutex<Vec<Arc<stateids::entry::StateEntry>>>,
    /// Until when files are not delegated, as several want them.
    contended: Shards<FileId, Time>,
    /// Calls to the lock managers of hosts, and this status monitor.
    hosts: hosts::Hosts,
    /// To the backchannels of which sessions a connection is bound.
    bound: Shards<ConnectionId, Vec<SessionId>>,
}

impl SharedState {
    /// A state with these limits.
    pub(crate) fn new(config: Config) -> SharedState {
        SharedState { config, ..SharedState::default() }
    }

    /// Its limits.
    pub(crate) fn config(&self) -> &Config {
        &self.config
    }

    /// How long a lease lasts, in seconds.
    pub(crate) fn lease_time(&self) -> u32 {
        u32::try_from(self.config.lease.as_secs()).unwrap_or(u32::MAX)
    }

    /// Gauges and counters for operators, name and value.
    pub(crate) fn gauges(&self) -> Vec<(&'static str, u64)> {
        let counters = &self.counters;
        let size = |length: usize| u64::try_from(length).unwrap_or(u64::MAX);
        vec![
            ("nfs4_clients", size(self.clients.len())),
            ("nlm_hosts", size(self.clients.hosts())),
            ("nfs4_sessions", size(self.sessions.len())),
            ("nfs4_slot_bytes", Counters::get(&counters.slot_bytes)),
            ("nfs4_opens", Counters::get(&counters.opens)),
            ("nfs4_lock_states", Counters::get(&counters.lock_states)),
            ("nfs4_owner_bytes", Counters::get(&counters.owner_bytes)),
            ("nfs4_locked_ranges", Counters::get(&counters.ranges)),
            ("nfs4_delegations", self.modifications.granted()),
            ("nfs4_delegations_granted", Counters::get(&counters.delegations_granted)),
            ("nfs4_delegations_recalled", Counters::get(&counters.delegations_recalled)),
            ("nfs4_delegations_revoked", Counters::get(&counters.delegations_revoked)),
            ("nfs4_copies", size(self.copies.len())),
            ("nfs4_copies_begun", Counters::get(&counters.copies_begun)),
            ("nfs4_clients_expired", Counters::get(&counters.clients_expired)),
            ("nfs4_callbacks_sent", Counters::get(&counters.callbacks_sent)),
            ("nfs4_callbacks_failed", Counters::get(&counters.callbacks_failed)),
            ("nfs4_callbacks_pending", size(self.callbacks.len())),
        ]
    }
}

#[cfg(test)]
mod tests;
