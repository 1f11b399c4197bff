//! A client: who it is, its lease, and what it holds.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use parking_lot::Mutex;
use volume::time::Time;

use crate::state::DurabilityToken;
use crate::state::callbacks::CallbackPath;
use crate::state::clients::owner_sequence::OwnerSequence;
use crate::state::config::{CountedBytes, Counters, OWNER_BYTES};
use crate::state::ids::{ClientId, FileId, Other, SessionId};
use crate::state::record::{CallbackAddress, ClientKind, ClientRecord, Principal};

/// How far the numbers of stateids go ahead at a restart: more opens than can have been lost with the last batch, so that
/// no number is given out twice.
const NUMBERS_SKIPPED: u32 = 1 << 20;

/// Somebody at a client who opens files (`open_owner4`).
#[derive(Debug)]
pub(crate) struct OpenOwner {
    /// What the client calls it.
    pub(crate) name: Box<[u8]>,
    /// Its requests; used by NFSv4.0 only.
    pub(crate) sequence: OwnerSequence,
}

/// Whose locks conflict with whose.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum LockOwnerId {
    /// A lock owner of an NFSv4 client (`lock_owner4`).
    Nfs4 { client: ClientId, name: Box<[u8]> },
    /// A process of an NLM client; [`crate::state::hosts::owner_name`] makes the name.
    Nlm { client: ClientId, name: Box<[u8]> },
}

/// Somebody who locks ranges.
#[derive(Debug)]
pub(crate) struct LockOwner {
    /// Tells owners apart while the process lives.
    number: u64,
    pub(crate) id: LockOwnerId,
    /// Its requests; used by NFSv4.0 only.
    pub(crate) sequence: OwnerSequence,
}

impl LockOwner {
    /// A new owner, different from all others.
    fn new(id: LockOwnerId, sequence: OwnerSequence) -> LockOwner {
        static NUMBERS: AtomicU64 = AtomicU64::new(0);
        LockOwner { number: NUMBERS.fetch_add(1, Ordering::Relaxed), id, sequence }
    }

    /// The client that it belongs to.
    pub(crate) fn client(&self) -> ClientId {
        match &self.id {
            LockOwnerId::Nfs4 { client, .. } | LockOwnerId::Nlm { client, .. } => *client,
        }
    }

    /// What its client calls it.
    pub(crate) fn name(&self) -> &[u8] {
        match &self.id {
            LockOwnerId::Nfs4 { name, .. } | LockOwnerId::Nlm { name, .. } => name,
        }
    }
}

impl PartialEq for LockOwner {
    fn eq(&self, other: &LockOwner) -> bool {
        self.number == other.number
    }
}

impl Eq for LockOwner {}

/// Which protocol a client speaks, which never changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum ClientProtocol {
    /// NFSv4.0: owners count their requests, callbacks have a connection of their own.
    V40,
    /// NFSv4.1 and later: sessions.
    Sessions,
    /// The lock manager of a host that uses NFSv3 (NLM version 4): no lease, no stateids.
    Nlm,
}

/// The host of an NLM client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Host {
    /// Where it is called.
    pub(crate) address: IpAddr,
    /// Ours, as the host knows it.
    pub(crate) server: IpAddr,
    /// That of its status monitor when it came; 0 if it did not say.
    pub(crate) state: i32,
}

/// A confirmed client.
///
/// ```text
///   (unconfirmed: see clients.rs) ──confirmed──▶ Active ──silent for a lease──▶ Courtesy
///                                                  ▲ │ ◀───────renewed────────── │ conflict, or memory is short
///                                                  │ │ restarted, destroyed      ▼
///                                                  │ └───────────────────────▶ Gone
/// ```
///
/// Active and Courtesy differ only in the time of the last renewal. What is Gone cannot be given anything any more.
#[derive(Debug)]
pub(crate) struct Client {
    pub(crate) id: ClientId,
    pub(crate) name: Box<[u8]>,
    pub(crate) verifier: [u8; 8],
    pub(crate) principal: Principal,
    pub(crate) version: ClientProtocol,
    /// The minor version that callbacks say.
    pub(crate) minor: u32,
    /// When it was last heard of, in nanoseconds.
    renewed: AtomicI64,
    /// The number of the next stateid.
    numbers: AtomicU32,
    /// Connections that are bound to the backchannel of any of its sessions.
    pub(crate) back_connections: AtomicU32,
    /// Delegations that were revoked and not freed yet.
    pub(crate) revoked: AtomicU32,
    /// Delegations that it has.
    pub(crate) delegations: AtomicU32,
    /// Whether delegations may be lost to it with the last batch of an earlier start of the server, and it does not know.
    may_have_lost_delegations: AtomicBool,
    /// Of an NLM client.
    pub(crate) host: Option<Host>,
    /// What has its record, if that was written by this process: an NLM client's, which is not waited for when it is made.
    pub(crate) recorded: OnceLock<DurabilityToken>,
    /// What its owners take is counted there.
    owner_bytes: Arc<AtomicU64>,
    pub(crate) inner: Mutex<ClientState>,
}

/// What a client has.
#[derive(Debug)]
pub(crate) struct ClientState {
    /// Nothing may be added any more.
    pub(crate) gone: bool,
    /// Every stateid that it holds, and of which file.
    pub(crate) entries: HashMap<Other, FileId>,
    pub(crate) open_owners: HashMap<Box<[u8]>, Arc<OpenOwner>>,
    pub(crate) lock_owners: HashMap<Box<[u8]>, Arc<LockOwner>>,
    pub(crate) sessions: Vec<SessionId>,
    /// Sequence of the last CREATE_SESSION, and the session that it made.
    pub(crate) created: Option<(u32, SessionId)>,
    /// What of that, or of SETCLIENTID_CONFIRM, must be durable before it is told.
    pub(crate) confirmed: Option<DurabilityToken>,
    /// Whether RECLAIM_COMPLETE came.
    pub(crate) reclaimed: bool,
    /// NFSv4.0: what SETCLIENTID_CONFIRM proved it with, and where it listens.
    pub(crate) callback: Option<([u8; 8], CallbackAddress)>,
    /// NFSv4.0: whether it listens there.
    pub(crate) path: CallbackPath,
}

impl ClientState {
    /// What it holds, by the numbers of stateids: for whoever does something for each, so that it is done in an order that a
    /// simulation repeats.
    pub(crate) fn stateids(&self) -> Vec<Other> {
        let mut stateids: Vec<Other> = self.entries.keys().copied().collect();
        stateids.sort_unstable();
        stateids
    }
}

impl Client {
    /// The client of a record. What its owners take is counted with that of others.
    pub(crate) fn new(id: ClientId, record: &ClientRecord, now: Time, counters: &Counters) -> Client {
        let (version, minor, created, reclaimed, callback) = match &record.kind {
            ClientKind::V40 { confirm, callback } => {
                (ClientProtocol::V40, 0, None, true, Some((*confirm, callback.clone())))
            }
            ClientKind::Sessions { minor, created, reclaimed } => {
                (ClientProtocol::Sessions, *minor, *created, *reclaimed, None)
            }
            ClientKind::Nlm(_) => (ClientProtocol::Nlm, 0, None, true, None),
        };
        let host = match record.kind {
            ClientKind::Nlm(host) => Some(host),
            _ => None,
        };
        let held = ClientState {
            gone: false,
            entries: HashMap::new(),
            open_owners: HashMap::new(),
            lock_owners: HashMap::new(),
            sessions: Vec::new(),
            created,
            confirmed: None,
            reclaimed,
            callback,
            path: CallbackPath::Unknown,
        };
        Client {
            id,
            name: record.name.clone(),
            verifier: record.verifier,
            principal: record.principal,
            version,
            minor,
            renewed: AtomicI64::new(now.nanos()),
            numbers: AtomicU32::new(1),
            back_connections: AtomicU32::new(0),
            revoked: AtomicU32::new(0),
            delegations: AtomicU32::new(0),
            may_have_lost_delegations: AtomicBool::new(false),
            host,
            recorded: OnceLock::new(),
            owner_bytes: Arc::clone(&counters.owner_bytes),
            inner: Mutex::new(held),
        }
    }

    /// Its record, with what `held` says now.
    pub(crate) fn record(&self, held: &ClientState) -> ClientRecord {
        let kind = match (&held.callback, self.host) {
            (_, Some(host)) => ClientKind::Nlm(host),
            (Some((confirm, callback)), None) => {
                ClientKind::V40 { confirm: *confirm, callback: callback.clone() }
            }
            (None, None) => {
                ClientKind::Sessions { minor: self.minor, created: held.created, reclaimed: held.reclaimed }
            }
        };
        ClientRecord { name: self.name.clone(), verifier: self.verifier, principal: self.principal, kind }
    }

    /// It was heard of.
    pub(crate) fn renew(&self, now: Time) {
        self.renewed.fetch_max(now.nanos(), Ordering::Relaxed);
    }

    /// How long it has been silent, if that matters: NLM clients have no leases.
    pub(crate) fn lease_idle(&self, now: Time) -> Duration {
        if self.version == ClientProtocol::Nlm { Duration::ZERO } else { self.idle(now) }
    }

    /// How long nothing was heard of it.
    pub(crate) fn idle(&self, now: Time) -> Duration {
        now.since(Time::from_nanos(self.renewed.load(Ordering::Relaxed)))
    }

    /// The `other` of a new stateid, unless it is in use: see [`super::SharedState::next_other`].
    pub(crate) fn next_other(&self) -> Other {
        Other::new(self.id, self.numbers.fetch_add(1, Ordering::Relaxed))
    }

    /// The client is of an earlier start of the server. What that gave out and no record names must not come again, so
    /// each start has numbers of its own.
    pub(crate) fn begin_generation(&self, generation: u32) {
        self.numbers.store(generation.wrapping_mul(NUMBERS_SKIPPED).max(1), Ordering::Relaxed);
        // What NFSv4.0 is granted is durable before it is told.
        self.may_have_lost_delegations.store(self.version == ClientProtocol::Sessions, Ordering::Relaxed);
    }

    /// Whether every reply has to say that delegations may be lost.
    pub(crate) fn may_have_lost_delegations(&self) -> bool {
        self.may_have_lost_delegations.load(Ordering::Relaxed)
    }

    /// It has received a reply that said so.
    pub(crate) fn loss_reported(&self) {
        if self.may_have_lost_delegations() {
            self.may_have_lost_delegations.store(false, Ordering::Relaxed);
        }
    }

    /// A record names this stateid: new ones come after it.
    pub(crate) fn known(&self, other: Other) {
        self.numbers.fetch_max(other.number().wrapping_add(NUMBERS_SKIPPED), Ordering::Relaxed);
    }

    /// Whether it has so many owners that no more are to be made.
    pub(crate) fn has_owners(&self, max: usize) -> bool {
        let held = self.inner.lock();
        held.open_owners.len().max(held.lock_owners.len()) >= max
    }

    /// The open owner of this name.
    pub(crate) fn open_owner(&self, name: &[u8], make: impl FnOnce() -> OwnerSequence) -> Arc<OpenOwner> {
        let mut held = self.inner.lock();
        if let Some(owner) = held.open_owners.get(name) {
            return Arc::clone(owner);
        }
        let sequence = make().counted(self.count_owner(name));
        let owner = Arc::new(OpenOwner { name: name.into(), sequence });
        held.open_owners.insert(name.into(), Arc::clone(&owner));
        owner
    }

    /// Counts what a new owner of this name takes.
    fn count_owner(&self, name: &[u8]) -> CountedBytes {
        CountedBytes::new(&self.owner_bytes, OWNER_BYTES + 2 * name.len())
    }

    /// The open owner of this name, if there is one.
    pub(crate) fn known_open_owner(&self, name: &[u8]) -> Option<Arc<OpenOwner>> {
        self.inner.lock().open_owners.get(name).cloned()
    }

    /// The lock owner of this name, if there is one.
    pub(crate) fn known_lock_owner(&self, name: &[u8]) -> Option<Arc<LockOwner>> {
        self.inner.lock().lock_owners.get(name).cloned()
    }

    /// The lock owner of this name.
    pub(crate) fn lock_owner(&self, name: &[u8], make: impl FnOnce() -> OwnerSequence) -> Arc<LockOwner> {
        let mut held = self.inner.lock();
        if let Some(owner) = held.lock_owners.get(name) {
            return Arc::clone(owner);
        }
        let (client, own) = (self.id, name.into());
        let owner_id = match self.version {
            ClientProtocol::Nlm => LockOwnerId::Nlm { client, name: own },
            ClientProtocol::V40 | ClientProtocol::Sessions => LockOwnerId::Nfs4 { client, name: own },
        };
        let sequence = make().counted(self.count_owner(name));
        let owner = Arc::new(LockOwner::new(owner_id, sequence));
        held.lock_owners.insert(name.into(), Arc::clone(&owner));
        owner
    }

    /// Forgets a lock owner that has nothing, as after a CLOSE; whether it was so. Does not look at all that the client has.
    pub(crate) fn forget_idle(&self, owner: &Arc<LockOwner>) -> bool {
        let mut held = self.inner.lock();
        // One reference is the map's, another the caller's; each of its locks and places in queues has one more.
        let idle = Arc::strong_count(owner) == 2;
        idle && held.lock_owners.remove(owner.name()).is_some()
    }

    /// Whether nothing can be added to it any more.
    pub(crate) fn is_gone(&self) -> bool {
        self.inner.lock().gone
    }

    /// Whether it has sessions, or holds anything.
    pub(crate) fn has_state(&self) -> bool {
        let held = self.inner.lock();
        !held.entries.is_empty() || !held.sessions.is_empty()
    }
}
