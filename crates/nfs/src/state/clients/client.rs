//! One client: its identity, its lease, and what it holds.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use parking_lot::{Mutex, RwLock};
use volume::time::Time;

use crate::state::callbacks::{CallbackPath, PathRest};
use crate::state::clients::owner_sequence::OwnerSequence;
use crate::state::config::{OWNER_BYTES, OWNER_REPLY_BYTES};
use crate::state::ids::cipher::StateidMask;
use crate::state::ids::{ClientId, Other, SessionId};
use crate::state::locks::ranges::Owner;
use crate::state::record::{CLIENT_ADDRESSES_MAX, CallbackAddress, ClientKind, ClientRecord, Principal};
use crate::state::shares::{Held, Holder, Resource};
use crate::state::stateids::entry::StateEntry;
use crate::state::{DurabilityToken, Peer, StateError};

/// How far stateid numbers skip ahead at a restart: more than the opens that can be lost with the last batch, so no
/// number recurs.
const NUMBERS_SKIPPED: u32 = 1 << 20;

/// An open owner of a client (`open_owner4`).
#[derive(Debug)]
pub(crate) struct OpenOwner {
    /// Distinguishes owners while the process lives.
    number: u64,
    /// The client's name for it.
    pub(crate) name: Box<[u8]>,
    /// The order of its requests; used by NFSv4.0 only.
    pub(crate) sequence: OwnerSequence,
    /// Its principal; used by NFSv4.0 only.
    principal: OnceLock<Principal>,
}

/// Returns the number of a new owner.
fn next_owner() -> u64 {
    static NUMBERS: AtomicU64 = AtomicU64::new(0);
    NUMBERS.fetch_add(1, Ordering::Relaxed)
}

impl OpenOwner {
    /// Returns a number that no other owner has.
    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    /// Returns its principal, if known.
    pub(crate) fn principal(&self) -> Option<Principal> {
        self.principal.get().copied()
    }

    /// Returns whether `principal` is the owner's; the first one to ask becomes it.
    pub(crate) fn is_of(&self, principal: Principal) -> bool {
        *self.principal.get_or_init(|| principal) == principal
    }
}

/// The identity of a lock owner. Locks of different owners conflict.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum LockOwnerId {
    /// A lock owner of an NFSv4 client (`lock_owner4`).
    Nfs4 { client: ClientId, name: Box<[u8]> },
    /// A process of an NLM client; [`crate::state::hosts::owner_name`] makes the name.
    Nlm { client: ClientId, name: Box<[u8]> },
}

/// An owner of byte-range locks.
#[derive(Debug)]
pub(crate) struct LockOwner {
    /// Distinguishes owners while the process lives.
    number: u64,
    pub(crate) id: LockOwnerId,
    /// The order of its requests; used by NFSv4.0 only.
    pub(crate) sequence: OwnerSequence,
    /// Its lock states, in all files; used by NFSv4.0 only, for RELEASE_LOCKOWNER.
    states: Mutex<BTreeSet<Other>>,
    /// The ranges that it has locked, in all files.
    ranges: AtomicU64,
    /// The origin of its client.
    origin: IpAddr,
}

impl LockOwner {
    /// Creates an owner that differs from all others.
    fn new(id: LockOwnerId, sequence: OwnerSequence, origin: IpAddr) -> LockOwner {
        let (states, ranges) = (Mutex::default(), AtomicU64::new(0));
        LockOwner { number: next_owner(), id, sequence, states, ranges, origin }
    }

    /// Returns the client that it belongs to.
    pub(crate) fn client(&self) -> ClientId {
        match &self.id {
            LockOwnerId::Nfs4 { client, .. } | LockOwnerId::Nlm { client, .. } => *client,
        }
    }

    /// Notes a lock state of the owner.
    pub(crate) fn note_state(&self, entry: &StateEntry) {
        if entry.client.version == ClientProtocol::V40 {
            self.states.lock().insert(entry.other);
        }
    }

    /// Forgets a lock state of the owner.
    pub(crate) fn forget_state(&self, entry: &StateEntry) {
        if entry.client.version == ClientProtocol::V40 {
            self.states.lock().remove(&entry.other);
        }
    }

    /// Returns at most `max` lock states of an owner of NFSv4.0.
    pub(crate) fn some_states(&self, max: usize) -> Vec<Other> {
        self.states.lock().iter().take(max).copied().collect()
    }

    /// Counts ranges that the client locked and freed.
    pub(crate) fn count_ranges(&self, locked: usize, freed: usize) {
        self.ranges.fetch_add(locked as u64, Ordering::Relaxed);
        self.ranges.fetch_sub(freed as u64, Ordering::Relaxed);
    }

    /// Returns whether it has locked anything in any file.
    pub(crate) fn has_ranges(&self) -> bool {
        self.ranges.load(Ordering::Relaxed) > 0
    }

    /// Returns the client's name for it.
    pub(crate) fn name(&self) -> &[u8] {
        match &self.id {
            LockOwnerId::Nfs4 { name, .. } | LockOwnerId::Nlm { name, .. } => name,
        }
    }
}

impl Owner for Arc<LockOwner> {
    fn number(&self) -> u64 {
        self.number
    }

    fn origin(&self) -> IpAddr {
        self.origin
    }
}

impl PartialEq for LockOwner {
    fn eq(&self, other: &LockOwner) -> bool {
        self.number == other.number
    }
}

impl Eq for LockOwner {}

/// The protocol of a client; it never changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum ClientProtocol {
    /// NFSv4.0: owners number their requests, and callbacks use a connection that the server makes.
    V40,
    /// NFSv4.1 and later: sessions.
    Sessions,
    /// NLM version 4, the lock manager of a host that uses NFSv3: no lease, no stateids.
    Nlm,
}

/// The host of an NLM client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Host {
    /// The address to call.
    pub(crate) address: IpAddr,
    /// This server's address, as the host knows it.
    pub(crate) server: IpAddr,
    /// The state number of its status monitor at its first call; 0 if the call had none.
    pub(crate) state: i32,
}

/// A confirmed client.
///
/// ```text
///   (unconfirmed: see clients.rs) ──confirmed──▶ Active ──idle for a lease──▶ Courtesy
///                                                  ▲ │ ◀──────renewed──────── │ conflict, or memory is short
///                                                  │ │ restarted, destroyed   ▼
///                                                  │ └──────────────────────▶ Gone
/// ```
///
/// Active and Courtesy differ only in the time of the last renewal. A client that is Gone can be given nothing more.
#[derive(Debug)]
pub(crate) struct Client {
    pub(crate) id: ClientId,
    pub(crate) name: Box<[u8]>,
    pub(crate) verifier: [u8; 8],
    pub(crate) principal: Principal,
    /// The instance of the server that handed out the id.
    instance: u32,
    /// Where it comes from.
    pub(crate) address: IpAddr,
    /// Other addresses of the same client, the latest last: it has several, or moved.
    further_addresses: RwLock<Vec<IpAddr>>,
    pub(crate) version: ClientProtocol,
    /// The minor version to send in callbacks.
    pub(crate) minor: u32,
    /// When it was confirmed, or restored after a restart.
    since: Time,
    /// The time of the last request, in nanoseconds.
    renewed: AtomicI64,
    /// When rate limits last held a request, in nanoseconds.
    held: AtomicI64,
    /// The number of the next stateid.
    numbers: AtomicU32,
    /// What hides the numbers of its stateids, once it has any.
    stateid_mask: OnceLock<StateidMask>,
    /// Connections bound to the backchannel of any of its sessions.
    pub(crate) back_connections: AtomicU32,
    /// Delegations that were revoked and not freed yet.
    pub(crate) revoked: AtomicU32,
    /// Delegations that it holds.
    pub(crate) delegations: AtomicU32,
    /// Whether a restart may have lost delegations with the last batch, and the client has not been told.
    may_have_lost_delegations: AtomicBool,
    /// The host of an NLM client.
    pub(crate) host: Option<Host>,
    /// The change that wrote its record, if this process did. Creating an NLM client does not wait for it.
    pub(crate) recorded: OnceLock<DurabilityToken>,
    /// The change that deleted its record: it is gone. Set under the lock of `inner`.
    pub(super) ended: OnceLock<DurabilityToken>,
    /// Whether it is gone because its lease was over.
    pub(super) has_expired: AtomicBool,
    /// What it holds of what clients share.
    pub(crate) holder: Arc<Holder>,
    pub(crate) inner: Mutex<ClientState>,
}

/// What a client holds.
#[derive(Debug)]
pub(crate) struct ClientState {
    /// Every stateid of the client, in an order that a simulation can repeat.
    pub(crate) entries: BTreeSet<Other>,
    pub(crate) open_owners: BTreeMap<Box<[u8]>, Arc<OpenOwner>>,
    pub(crate) lock_owners: BTreeMap<Box<[u8]>, Arc<LockOwner>>,
    pub(crate) sessions: Vec<SessionId>,
    /// The sequence of the last CREATE_SESSION, and the session that it created.
    pub(crate) created: Option<(u32, SessionId)>,
    /// What must be durable before the reply to that, or to SETCLIENTID_CONFIRM, leaves.
    pub(crate) confirmed: Option<DurabilityToken>,
    /// Whether RECLAIM_COMPLETE was received.
    pub(crate) reclaimed: bool,
    /// NFSv4.0: the verifier of SETCLIENTID_CONFIRM, and the callback address.
    pub(crate) callback: Option<([u8; 8], CallbackAddress)>,
    /// NFSv4.0: whether callbacks reach that address.
    pub(crate) path: CallbackPath,
    /// NFSv4.0: when to find that out again if they do not.
    pub(crate) path_rest: PathRest,
}

impl Client {
    /// Creates the client of a record, which counts with `holder`.
    pub(crate) fn new(id: ClientId, record: &ClientRecord, now: Time, holder: Arc<Holder>) -> Client {
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
        let further = record.addresses.iter().skip(1).copied();
        let held = ClientState {
            entries: BTreeSet::new(),
            open_owners: BTreeMap::new(),
            lock_owners: BTreeMap::new(),
            sessions: Vec::new(),
            created,
            confirmed: None,
            reclaimed,
            callback,
            path: CallbackPath::Unknown,
            path_rest: PathRest::default(),
        };
        Client {
            id,
            name: record.name.clone(),
            verifier: record.verifier,
            principal: record.principal,
            instance: record.instance,
            address: record.address(),
            further_addresses: RwLock::new(further.collect()),
            version,
            minor,
            since: now,
            renewed: AtomicI64::new(now.nanos()),
            held: AtomicI64::new(i64::MIN),
            numbers: AtomicU32::new(1),
            stateid_mask: OnceLock::new(),
            back_connections: AtomicU32::new(0),
            revoked: AtomicU32::new(0),
            delegations: AtomicU32::new(0),
            may_have_lost_delegations: AtomicBool::new(false),
            host,
            recorded: OnceLock::new(),
            ended: OnceLock::new(),
            has_expired: AtomicBool::new(false),
            holder,
            inner: Mutex::new(held),
        }
    }

    /// Returns the client's record as of `held`.
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
        let (name, verifier, principal) = (self.name.clone(), self.verifier, self.principal);
        let addresses = if self.host.is_some() { Box::default() } else { self.addresses() };
        ClientRecord { name, verifier, principal, instance: self.instance, addresses, kind }
    }

    /// Returns the addresses from which it comes, that of its introduction first.
    pub(crate) fn addresses(&self) -> Box<[IpAddr]> {
        std::iter::once(self.address).chain(self.further_addresses.read().iter().copied()).collect()
    }

    /// Returns whether a request from this address is the client's.
    #[inline]
    pub(crate) fn is_at(&self, address: IpAddr) -> bool {
        self.address == address || self.further_addresses.read().contains(&address)
    }

    /// Returns its addresses with one more, without those that give way.
    pub(crate) fn addresses_with(&self, address: IpAddr) -> Box<[IpAddr]> {
        let mut addresses = self.addresses().into_vec();
        if !addresses.contains(&address) {
            if addresses.len() >= CLIENT_ADDRESSES_MAX {
                addresses.remove(1);
            }
            addresses.push(address);
        }
        addresses.into()
    }

    /// Replaces the addresses besides the first, once a record names them.
    pub(crate) fn set_addresses(&self, addresses: &[IpAddr]) {
        *self.further_addresses.write() = addresses.iter().skip(1).copied().collect();
    }

    /// Checks that a request that manages the client or its sessions comes from the client itself.
    ///
    /// # Errors
    /// [`StateError::NotBound`] from another address, [`StateError::WrongPrincipal`] for another principal.
    pub(crate) fn check_owner(&self, peer: &Peer) -> Result<(), StateError> {
        match (self.is_at(peer.address), self.principal == peer.principal) {
            (false, _) => Err(StateError::NotBound),
            (true, false) => Err(StateError::WrongPrincipal),
            (true, true) => Ok(()),
        }
    }

    /// Renews the lease.
    pub(crate) fn renew(&self, now: Time) {
        self.renewed.fetch_max(now.nanos(), Ordering::Relaxed);
    }

    /// Notes a request that rate limits hold: it renews the lease.
    pub(crate) fn note_held(&self, now: Time) {
        self.renew(now);
        self.held.fetch_max(now.nanos(), Ordering::Relaxed);
    }

    /// Whether rate limits have held a request since this time.
    pub(crate) fn was_held_since(&self, time: Time) -> bool {
        self.held.load(Ordering::Relaxed) >= time.nanos()
    }

    /// Returns how long the lease has not been renewed; zero for NLM clients, which have none.
    pub(crate) fn lease_idle(&self, now: Time) -> Duration {
        if self.version == ClientProtocol::Nlm { Duration::ZERO } else { self.idle(now) }
    }

    /// Returns how long the client has sent nothing.
    pub(crate) fn idle(&self, now: Time) -> Duration {
        now.since(Time::from_nanos(self.renewed.load(Ordering::Relaxed)))
    }

    /// Returns how long it has been a client of this start of the server.
    pub(crate) fn age(&self, now: Time) -> Duration {
        now.since(self.since)
    }

    /// Returns the number of a new stateid, which may be in use: see [`crate::state::SharedState::next_other`].
    pub(crate) fn next_number(&self) -> u32 {
        self.numbers.fetch_add(1, Ordering::Relaxed)
    }

    /// Returns what hides the numbers of its stateids, which is determined once.
    #[inline]
    pub(crate) fn stateid_mask(&self, determine: impl FnOnce() -> StateidMask) -> StateidMask {
        *self.stateid_mask.get_or_init(determine)
    }

    /// Has the next stateid get this number.
    #[cfg(test)]
    pub(crate) fn set_next_number(&self, number: u32) {
        self.numbers.store(number, Ordering::Relaxed);
    }

    /// Marks a client of an earlier start of the server. That start may have handed out stateids that no record names;
    /// each start has numbers of its own, so they do not recur.
    pub(crate) fn begin_generation(&self, generation: u32) {
        self.numbers.store(generation.wrapping_mul(NUMBERS_SKIPPED).max(1), Ordering::Relaxed);
        // NFSv4.0 grants are durable before the reply.
        self.may_have_lost_delegations.store(self.version == ClientProtocol::Sessions, Ordering::Relaxed);
    }

    /// Returns whether replies must say that delegations may be lost.
    pub(crate) fn may_have_lost_delegations(&self) -> bool {
        self.may_have_lost_delegations.load(Ordering::Relaxed)
    }

    /// Notes that the client received a reply that said so.
    pub(crate) fn loss_reported(&self) {
        if self.may_have_lost_delegations() {
            self.may_have_lost_delegations.store(false, Ordering::Relaxed);
        }
    }

    /// Skips the numbers up to that of a stateid that a record names.
    pub(crate) fn known(&self, number: u32) {
        self.numbers.fetch_max(number.wrapping_add(NUMBERS_SKIPPED), Ordering::Relaxed);
    }

    /// Returns the open owner with this name; creates it if it is new.
    pub(crate) fn open_owner(&self, name: &[u8], make: impl FnOnce() -> OwnerSequence) -> Arc<OpenOwner> {
        let mut held = self.inner.lock();
        if let Some(owner) = held.open_owners.get(name) {
            return Arc::clone(owner);
        }
        let sequence = make().counted(self.count_owner(name));
        let (number, principal) = (next_owner(), OnceLock::new());
        let owner = Arc::new(OpenOwner { number, name: name.into(), sequence, principal });
        held.open_owners.insert(name.into(), Arc::clone(&owner));
        owner
    }

    /// Counts the memory of a new owner with this name.
    fn count_owner(&self, name: &[u8]) -> Held {
        Held::new(&self.holder, Resource::StateBytes, self.bytes_of_new_owner(name))
    }

    /// Returns the memory that a new owner with this name takes, including the reply that it will remember.
    pub(crate) fn bytes_of_new_owner(&self, name: &[u8]) -> u64 {
        let reply = if self.version == ClientProtocol::V40 { OWNER_REPLY_BYTES } else { 0 };
        OWNER_BYTES + 2 * name.len() as u64 + reply
    }

    /// Returns the open owner with this name, if it exists.
    pub(crate) fn known_open_owner(&self, name: &[u8]) -> Option<Arc<OpenOwner>> {
        self.inner.lock().open_owners.get(name).cloned()
    }

    /// Returns the lock owner with this name, if it exists.
    pub(crate) fn known_lock_owner(&self, name: &[u8]) -> Option<Arc<LockOwner>> {
        self.inner.lock().lock_owners.get(name).cloned()
    }

    /// Returns the lock owner with this name; creates it if it is new.
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
        let owner = Arc::new(LockOwner::new(owner_id, sequence, self.holder.origin()));
        held.lock_owners.insert(name.into(), Arc::clone(&owner));
        owner
    }

    /// Forgets a lock owner without locks, as after a CLOSE. Returns whether it did. Does not scan all that the client
    /// holds.
    pub(crate) fn forget_idle(&self, owner: &Arc<LockOwner>) -> bool {
        let mut held = self.inner.lock();
        // One reference is the map's, one the caller's. Each lock state and queue position has another.
        let idle = Arc::strong_count(owner) == 2;
        idle && held.lock_owners.remove(owner.name()).is_some()
    }

    /// Returns whether the client is gone, so that nothing can be added. That does not change while the lock of `inner` is
    /// held.
    #[inline]
    pub(crate) fn is_gone(&self) -> bool {
        self.ended.get().is_some()
    }

    /// Returns whether the client has sessions, or holds anything.
    pub(crate) fn has_state(&self) -> bool {
        let held = self.inner.lock();
        !held.entries.is_empty() || !held.sessions.is_empty()
    }
}
