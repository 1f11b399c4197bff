//! The state that clients hold: clients and sessions, opens, locks, delegations, copies, and the callbacks about them.
//!
//! NFSv3, NFSv4 and NLM share it. It owns no socket and reads no clock: time comes with each request ([`Context`]), and
//! what must survive a restart goes to the volumes as records ([`StateStore`]). Its modules:
//!
//! | module | holds |
//! |---|---|
//! | [`restart`] | restores the state from its records |
//! | [`hosts`] | NLM clients: lock managers of hosts that use NFSv3, and the calls to them |
//! | [`clients`] | clients, their leases, expiry and removal, their owners and the order of an owner's requests |
//! | [`sessions`] | sessions and their slots: each request is executed once |
//! | [`copies`] | copies that continue after the reply |
//! | [`locks`] | byte-range locks, and the queues for them |
//! | [`files`] | opens and share reservations |
//! | [`delegations`] | granting, recalling, revoking; modifications that keep a file from being delegated |
//! | [`callbacks`] | calls to clients |
//! | [`stateids`] | what a stateid stands for, and whether it allows an operation |
//! | [`record`] | the records, byte for byte |
//! | [`shares`] | how clients share what is bounded |
//! | [`holdings`] | what a client holds, for operators |
//! | [`config`], [`ids`], `shards`, `error` | limits and gauges, identifiers, sharded maps, errors |
//!
//! # Locks
//!
//! SEQUENCE, READ and WRITE take only read locks of shards: that of the session and that of the stateid. A thread takes
//! locks in this order, and none while it holds one further right:
//!
//! clients that give way → shard of a file → clients' table → shard of sessions → shard of stateids → a client's
//! [`clients::client::ClientState`] → the inside of a session → outgoing callbacks.
//!
//! A change is journaled under the lock of what it changes, so records are written in the order of the changes. The
//! journal takes no inode lock. A thread that holds an inode lock, such as the engine when it asks for the record of a
//! new file's open, must take none of the locks above: see [`files::PreparedOpen`].

use std::collections::VecDeque;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU32, AtomicU64};
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;
use volume::ids::VolumeId;
use volume::request::{Durability, Durable, Error};
use volume::state::{DeferredValue, StateChange, StateKey};
use volume::time::Time;

pub(crate) mod callbacks;
pub(crate) mod clients;
pub(crate) mod config;
pub(crate) mod copies;
pub(crate) mod delegations;
mod error;
mod excluded;
pub(crate) mod files;
pub(crate) mod holdings;
pub(crate) mod hosts;
pub(crate) mod ids;
pub(crate) mod locks;
pub(crate) mod record;
pub(crate) mod restart;
pub(crate) mod sessions;
mod shards;
pub(crate) mod shares;
pub(crate) mod stateids;

use crate::connection::ConnectionId;
use crate::exports::HostAccess;

use callbacks::Callbacks;
use clients::client::Client;
use clients::idle_owners::OwnerSweep;
use clients::removal::Removals;
use clients::{Clients, GivingWay};
use config::{Config, Counters};
use copies::CopyJobs;
use delegations::contended::Contended;
use delegations::costly_volumes::CostlyVolumes;
use delegations::in_flight::InFlightModifications;
use delegations::lately_opened::LatelyOpened;
use delegations::recalls::Recalls;
pub(crate) use error::StateError;
use excluded::Excluded;
use files::Files;
use holdings::Holding;
use ids::cipher::IdKeys;
use ids::{FileId, Other, SessionId};
use record::Principal;
use sessions::Sessions;
pub(crate) use sessions::SlotGuard;

use shards::Shards;
use shares::{Resource, Shares};

/// Where records are kept: the volumes, as the state sees them.
pub(crate) trait StateStore {
    /// Returns the volume that stores clients and sessions.
    fn home(&self) -> VolumeId;

    /// Journals changes in order, without waiting for durability. Called with locks held.
    ///
    /// # Errors
    /// Those of [`volume::volume::Volume::change_state`]; nothing was changed.
    fn change(&self, volume: VolumeId, changes: &[StateChange]) -> Result<Durability, Error>;

    /// Writes a new record for whose durability no reply waits. It is journaled before the volume's next change, or within
    /// about a second ([`StateStore::journal_deferred`]), unless it is deleted before. Called with locks held.
    ///
    /// # Errors
    /// Those of [`StateStore::change`].
    fn defer(&self, volume: VolumeId, key: StateKey, value: Arc<dyn DeferredValue>) -> Result<(), Error>;

    /// Journals the records that were deferred.
    fn journal_deferred(&self);

    /// Returns a number that grows with each start.
    fn generation(&self) -> u32;

    /// Keeps the file even when it loses its last name.
    fn hold(&self, file: FileId);

    /// Ends a [`StateStore::hold`].
    fn release(&self, file: FileId);

    /// Returns whether a reply that shows this change may leave.
    fn durability(&self, token: DurabilityToken) -> Durable;

    /// Returns the file's handle.
    fn handle(&self, file: FileId) -> Box<[u8]>;

    /// Returns whether an export admits the host at this address, so that it may be called.
    fn admits(&self, host: IpAddr) -> bool;

    /// Returns the widest access that the exports of a volume give the host at this address, which calls from privileged ports or not.
    fn access(&self, host: IpAddr, is_privileged: bool, volume: VolumeId) -> HostAccess;
}

/// What every request to the state brings.
#[derive(Clone, Copy)]
pub(crate) struct Context<'a> {
    /// Where records are kept.
    pub(crate) store: &'a dyn StateStore,
    /// A clock that is never set, see [`crate::clocks::ClockReading`].
    pub(crate) now: Time,
}

/// A journaled change that a reply waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DurabilityToken {
    /// The volume whose journal has it.
    pub(crate) volume: VolumeId,
    /// How far that journal must be durable.
    pub(crate) after: Durability,
}

impl Context<'_> {
    /// Journals changes of `volume`.
    fn change(&self, volume: VolumeId, changes: &[StateChange]) -> Result<DurabilityToken, StateError> {
        Ok(DurabilityToken { volume, after: self.store.change(volume, changes)? })
    }

    /// Journals changes of clients and sessions, in the home volume.
    fn change_home(&self, changes: &[StateChange]) -> Result<DurabilityToken, StateError> {
        self.change(self.store.home(), changes)
    }
}

/// The sender of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Peer {
    pub(crate) principal: Principal,
    /// Canonical: IPv4 mapped into IPv6 is IPv4.
    pub(crate) address: IpAddr,
}

/// How a request identifies its client.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Caller<'a> {
    /// NFSv4.0: by the stateid, which must be of a client at that address.
    V40(Peer),
    /// NFSv4.1 and later: by the session.
    Session(&'a Arc<Client>),
}

impl<'a> Caller<'a> {
    /// Returns the client if the request itself names it.
    pub(crate) fn client(self) -> Option<&'a Arc<Client>> {
        match self {
            Caller::Session(client) => Some(client),
            Caller::V40(_) => None,
        }
    }
}

/// All clients and what they hold. Survives a change of the configuration.
#[derive(Debug)]
pub(crate) struct SharedState {
    config: Config,
    shares: Shares,
    /// The keys of the ids that it hands out.
    keys: IdKeys,
    /// The second in which this instance started; part of the ids that it hands out.
    instance: OnceLock<u32>,
    /// The first instance with known ids. Ids of earlier instances are stale; unknown ids of later ones have expired.
    oldest: AtomicU32,
    /// The number of the last client or session, in the lower half; the upper one counts in what instance it is
    /// numbered: see [`SharedState::next_number`].
    numbers: AtomicU64,
    clients: Clients,
    removals: Removals,
    excluded: Excluded,
    owner_sweep: OwnerSweep,
    giving_way: Mutex<GivingWay>,
    sessions: Sessions,
    files: Files,
    stateids: Shards<Other, Arc<stateids::entry::StateEntry>>,
    callbacks: Callbacks,
    copies: CopyJobs,
    counters: Counters,
    modifications: InFlightModifications,
    lately_opened: LatelyOpened,
    /// When [`SharedState::tick`] last swept all clients, in nanoseconds.
    swept: AtomicU64,
    /// The newest instance that a record names.
    newest_known: AtomicU32,
    recalls: Recalls,
    /// Files with waiters that can be granted their locks; they are woken by later ticks, as each wakes a bounded number.
    waking: Mutex<VecDeque<FileId>>,
    /// Files that are not delegated for a while, because several clients want them.
    contended: Contended,
    /// Volumes whose files are not delegated for a while, because others have waited too long for them.
    costly_volumes: CostlyVolumes,
    /// Calls to hosts, and this server's status monitor.
    hosts: hosts::Hosts,
    /// The sessions to whose backchannels each connection is bound.
    bound: Shards<ConnectionId, Vec<SessionId>>,
}

impl SharedState {
    /// Creates an empty state with these limits. Its ids are made with `keys`.
    pub(crate) fn new(config: Config, keys: IdKeys) -> SharedState {
        SharedState {
            shares: Shares::new(&config),
            lately_opened: LatelyOpened::new(config.delegations),
            contended: Contended::new(config.delegations),
            costly_volumes: CostlyVolumes::default(),
            config,
            keys,
            instance: OnceLock::new(),
            oldest: AtomicU32::new(0),
            numbers: AtomicU64::new(0),
            clients: Clients::default(),
            removals: Removals::default(),
            excluded: Excluded::default(),
            owner_sweep: OwnerSweep::default(),
            giving_way: Mutex::default(),
            sessions: Sessions::default(),
            files: Files::default(),
            stateids: Shards::default(),
            callbacks: Callbacks::default(),
            copies: CopyJobs::default(),
            counters: Counters::default(),
            modifications: InFlightModifications::default(),
            swept: AtomicU64::new(0),
            newest_known: AtomicU32::new(0),
            recalls: Recalls::default(),
            waking: Mutex::default(),
            hosts: hosts::Hosts::default(),
            bound: Shards::default(),
        }
    }

    /// Returns the keys of its ids.
    pub(crate) fn keys(&self) -> &IdKeys {
        &self.keys
    }

    /// Returns the limits.
    pub(crate) fn config(&self) -> &Config {
        &self.config
    }

    /// Returns the duration of a lease in seconds.
    pub(crate) fn lease_time(&self) -> u32 {
        u32::try_from(self.config.lease.as_secs()).unwrap_or(u32::MAX)
    }

    /// Returns what each client holds.
    pub(crate) fn holdings(&self, now: Time) -> Vec<Holding> {
        self.clients.all().into_iter().map(|client| client.holding(now)).collect()
    }

    /// Returns gauges and counters for operators, as names and values.
    pub(crate) fn gauges(&self) -> Vec<(&'static str, u64)> {
        let counters = &self.counters;
        let size = |length: usize| u64::try_from(length).unwrap_or(u64::MAX);
        let held = |resource: Resource| self.shares.held(resource);
        vec![
            ("nfs4_clients", size(self.clients.len())),
            ("nfs4_clients_unconfirmed", held(Resource::Unconfirmed)),
            ("nfs4_client_origins", size(self.shares.origins())),
            ("nlm_hosts", size(self.clients.hosts())),
            ("nfs4_sessions", size(self.sessions.len())),
            ("nfs4_slot_bytes", held(Resource::SessionBytes) + held(Resource::SlotBytes)),
            ("nfs4_opens", Counters::get(&counters.opens)),
            ("nfs4_lock_states", Counters::get(&counters.lock_states)),
            ("nfs4_state_bytes", held(Resource::StateBytes)),
            ("nfs4_locked_ranges", held(Resource::Ranges)),
            ("nfs4_lock_waiters", held(Resource::Waiters)),
            ("nfs4_delegations", self.modifications.granted()),
            ("nfs4_delegations_granted", Counters::get(&counters.delegations_granted)),
            ("nfs4_delegations_recalled", Counters::get(&counters.delegations_recalled)),
            ("nfs4_delegations_revoked", Counters::get(&counters.delegations_revoked)),
            ("nfs4_copies", size(self.copies.len())),
            ("nfs4_copies_begun", Counters::get(&counters.copies_begun)),
            ("nfs4_clients_expired", Counters::get(&counters.clients_expired)),
            ("nlm_hosts_given_up", Counters::get(&counters.hosts_given_up)),
            ("nfs4_callbacks_sent", Counters::get(&counters.callbacks_sent)),
            ("nfs4_callbacks_failed", Counters::get(&counters.callbacks_failed)),
            ("nfs4_callbacks_pending", size(self.callbacks.len())),
            ("nfs4_call_bytes", held(Resource::CallBytes)),
        ]
    }
}

#[cfg(test)]
mod tests;
