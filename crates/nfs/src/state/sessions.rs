//! Sessions: SEQUENCE, BIND_CONN_TO_SESSION, BACKCHANNEL_CTL, DESTROY_SESSION, and the session's half of CREATE_SESSION
//! (RFC 8881 section 2.10).

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use foldhash::fast::RandomState;
use parking_lot::Mutex;
use volume::ids::VolumeId;
use volume::request::Durability;
use wire::nfs4::{create_session_flag, sequence_status};

use crate::connection::ConnectionId;

use crate::state::clients::client::{Client, ClientState};
use crate::state::config::Config;
use crate::state::ids::SessionId;
use crate::state::record::{CallbackSecurity, Channel, Key, SessionRecord};
use crate::state::sessions::slots::{Slot, SlotCheck, SlotReply};
use crate::state::shards::Shards;
use crate::state::shares::{Held, Resource};
use crate::state::{Context, DurabilityToken, Peer, SharedState, StateError};

pub(crate) mod slots;

/// All sessions.
pub(super) type Sessions = Shards<SessionId, Arc<Session>>;

/// Smallest request and reply of a fore channel, in bytes: a SEQUENCE alone.
const FORE_BYTES_MIN: u32 = 128;
/// Smallest request and reply of a backchannel, in bytes.
const BACK_BYTES_MIN: u32 = 320;
/// CB_SEQUENCE and one more operation.
const BACK_OPERATIONS_MIN: u32 = 2;
/// Bytes of the header of an accepted reply with an empty verifier (RFC 5531 section 9).
const REPLY_HEADER_BYTES: u32 = 24;
/// Slots of a backchannel that are used: concurrent callbacks.
const BACK_SLOTS_MAX: u32 = 16;

/// Memory of a session without slots, with its backchannel, in bytes.
pub(super) const SESSION_BYTES: u64 = 2 << 10;
/// Memory of a slot without its cached reply, in bytes.
pub(super) const SLOT_BYTES: u64 = 128;
/// Connections bound to the backchannel of a session. Linux binds up to 16.
pub(super) const BACK_CONNECTIONS_MAX: usize = 16;

/// A session gets at most one part in this many of the memory that is free for slots.
const SESSION_SHARE: u64 = 16;

/// A slot of the backchannel.
#[derive(Clone, Copy, Debug)]
pub(super) struct BackSlot {
    /// The sequence of the last callback that was answered.
    pub(super) last: u32,
    /// Whether a callback is being sent.
    pub(super) taken: bool,
}

/// The parts of a session that change rarely.
#[derive(Debug)]
pub(super) struct Back {
    pub(super) program: u32,
    pub(super) security: CallbackSecurity,
    /// Connections for callbacks; the one bound last comes last.
    pub(super) connections: Vec<ConnectionId>,
    pub(super) slots: Vec<BackSlot>,
}

/// A session.
#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) id: SessionId,
    pub(crate) client: Arc<Client>,
    /// The limits of requests.
    pub(crate) fore: Channel,
    pub(crate) back: Channel,
    /// The flags that CREATE_SESSION granted.
    pub(crate) flags: u32,
    /// Makes the checksums by which a repeated request is told from a new one that reuses its slot and sequence. They guard
    /// against a client's mistakes, not against its malice: a cached reply is given only to the principal it was made for. With
    /// a key of its own for each session, no two requests are mistaken for each other everywhere and always.
    pub(crate) hasher: RandomState,
    slots: Box<[Slot]>,
    /// The number of connections for callbacks.
    back_connections: AtomicU32,
    /// The client counts callbacks differently, as happens after a restart: it must create a new session.
    pub(super) back_fault: AtomicBool,
    pub(super) inner: Mutex<Back>,
    _held: [Held; 2],
}

impl Session {
    /// Creates the session of a record. `restored` is given for a session that a restart brought back: it returns the
    /// highest remembered sequence of a slot.
    pub(super) fn new(
        id: SessionId,
        client: &Arc<Client>,
        record: &SessionRecord,
        restored: Option<&dyn Fn(u32) -> Option<u32>>,
    ) -> Session {
        let slots = (0..record.fore.slots)
            .map(|slot| restored.map_or_else(Slot::new, |highest| Slot::restored(highest(slot))));
        let further = u64::from(record.fore.slots.saturating_sub(1)) * slot_bytes(&record.fore);
        let back_slots = record.back.slots.min(BACK_SLOTS_MAX);
        let back = Back {
            program: record.program,
            security: record.security,
            connections: Vec::new(),
            slots: (0..back_slots).map(|_| BackSlot { last: 0, taken: false }).collect(),
        };
        Session {
            id,
            client: Arc::clone(client),
            fore: record.fore,
            back: record.back,
            flags: record.flags,
            hasher: RandomState::default(),
            slots: slots.collect(),
            back_connections: AtomicU32::new(0),
            back_fault: AtomicBool::new(false),
            inner: Mutex::new(back),
            _held: [
                Held::new(&client.holder, base_resource(client), base_bytes(&record.fore)),
                Held::new(&client.holder, Resource::SlotBytes, further),
            ],
        }
    }

    fn record(&self, back: &Back) -> SessionRecord {
        let (program, security) = (back.program, back.security);
        SessionRecord { fore: self.fore, back: self.back, flags: self.flags, program, security }
    }

    /// Binds a connection to the backchannel. Returns one that gives way.
    fn bind(&self, connection: ConnectionId) -> Option<ConnectionId> {
        let mut back = self.inner.lock();
        if !back.connections.contains(&connection) {
            self.back_connections.fetch_add(1, Ordering::Relaxed);
            self.client.back_connections.fetch_add(1, Ordering::Relaxed);
        }
        back.connections.retain(|known| *known != connection);
        back.connections.push(connection);
        let too_many = back.connections.len() > BACK_CONNECTIONS_MAX;
        back.connections.first().copied().filter(|_| too_many)
    }

    /// Unbinds a connection from the backchannel.
    fn unbind(&self, connection: ConnectionId) {
        let mut back = self.inner.lock();
        if back.connections.contains(&connection) {
            back.connections.retain(|known| *known != connection);
            self.back_connections.fetch_sub(1, Ordering::Relaxed);
            self.client.back_connections.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// Returns the flags for the reply to SEQUENCE (`sr_status_flags`).
    fn status_flags(&self) -> u32 {
        let mut flags = 0;
        let mut raise = |when: bool, flag: u32| flags |= if when { flag } else { 0 };
        if self.flags & create_session_flag::CONN_BACK_CHAN != 0 {
            let down = self.back_connections.load(Ordering::Relaxed) == 0;
            raise(down, sequence_status::CB_PATH_DOWN_SESSION);
            let all_down = self.client.back_connections.load(Ordering::Relaxed) == 0;
            raise(all_down, sequence_status::CB_PATH_DOWN);
        }
        raise(self.back_fault.load(Ordering::Relaxed), sequence_status::BACKCHANNEL_FAULT);
        let revoked =
            self.client.revoked.load(Ordering::Relaxed) > 0 || self.client.may_have_lost_delegations();
        raise(revoked, sequence_status::RECALLABLE_STATE_REVOKED);
        flags
    }
}

/// A request in its slot. Dropped without [`SlotGuard::finish`], nothing of it was executed.
#[derive(Debug)]
pub(crate) struct SlotGuard {
    pub(crate) session: Arc<Session>,
    slot: u32,
    sequence: u32,
    checksum: u64,
    cache_this: bool,
    /// Whether it may have been executed before a restart.
    may_have_run_before: bool,
    finished: bool,
}

impl SlotGuard {
    /// Completes the request. `reply` is given if it is to be cached; `waits` is what it waits for, by volume.
    pub(crate) fn finish(
        mut self,
        reply: Option<&[u8]>,
        waits: impl IntoIterator<Item = (VolumeId, Durability)>,
    ) {
        self.finished = true;
        let tokens = || waits.into_iter().map(|(volume, after)| DurabilityToken { volume, after }).collect();
        let reply = reply.map_or(SlotReply::NotCached, |reply| SlotReply::Cached(reply.into(), tokens()));
        if let Some(slot) = self.own_slot() {
            slot.finish(self.sequence, self.checksum, reply);
        }
    }

    /// Returns whether the client wants the reply to be cached.
    pub(crate) fn cache_this(&self) -> bool {
        self.cache_this
    }

    /// Returns whether it may have been executed before a restart, so that its effects may already exist.
    pub(crate) fn may_have_run_before(&self) -> bool {
        self.may_have_run_before
    }

    /// Returns the largest reply, in bytes, without the RPC header.
    pub(crate) fn reply_bytes_max(&self) -> usize {
        body_bytes(self.session.fore.reply_bytes)
    }

    /// Returns the largest reply that is cached, in bytes, without the RPC header.
    pub(crate) fn reply_bytes_cached_max(&self) -> usize {
        body_bytes(self.session.fore.cached_bytes)
    }

    /// Returns the origin of the session's client.
    pub(crate) fn origin(&self) -> IpAddr {
        self.session.client.holder.origin()
    }

    /// Returns session, slot and sequence, under which the journal remembers results.
    pub(crate) fn request_key(&self) -> [u8; 24] {
        let mut key = [0; 24];
        let (session, rest) = key.split_at_mut(16);
        session.copy_from_slice(&self.session.id.0);
        rest.copy_from_slice(&(u64::from(self.slot) << 32 | u64::from(self.sequence)).to_be_bytes());
        key
    }

    fn own_slot(&self) -> Option<&Slot> {
        self.session.slots.get(usize::try_from(self.slot).ok()?)
    }
}

impl Drop for SlotGuard {
    fn drop(&mut self) {
        if !self.finished
            && let Some(slot) = self.own_slot()
        {
            slot.abandon();
        }
    }
}

/// Bytes of a reply without its RPC header.
fn body_bytes(bytes: u32) -> usize {
    usize::try_from(bytes.saturating_sub(REPLY_HEADER_BYTES)).unwrap_or(usize::MAX)
}

/// A request that asks for a slot.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SlotRequest {
    pub(crate) slot: u32,
    pub(crate) sequence: u32,
    /// The highest slot that the client uses.
    pub(crate) highest_slot: u32,
    /// Whether the client wants the reply to be cached.
    pub(crate) cache_this: bool,
    /// Distinguishes requests with the same sequence.
    pub(crate) checksum: u64,
    /// Where the request comes from.
    pub(crate) address: IpAddr,
}

/// The result of SEQUENCE.
#[derive(Debug)]
pub(crate) enum Sequenced {
    /// The request is to be executed; the status flags of the session.
    Execute(SlotGuard, u32),
    /// The request was executed before; its reply is repeated.
    Replay(SlotReply),
}

/// The channels that a client asks for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Channels {
    pub(crate) fore: Channel,
    pub(crate) back: Channel,
}

impl Channels {
    /// Returns the memory of a session with one slot, in bytes.
    pub(super) fn base_bytes(self, config: &Config) -> u64 {
        base_bytes(&self.fore_within(config))
    }

    /// Returns the fore channel within the limits of one session.
    fn fore_within(self, config: &Config) -> Channel {
        let Channel { request_bytes, reply_bytes, cached_bytes, operations, slots } = self.fore;
        let reply_bytes = reply_bytes.min(config.message_bytes);
        Channel {
            request_bytes: request_bytes.min(config.message_bytes),
            reply_bytes,
            cached_bytes: cached_bytes.min(config.cached_bytes).min(reply_bytes),
            operations: operations.min(config.operations),
            slots: slots.clamp(1, config.slots_per_session),
        }
    }

    /// Returns the channels to grant to a client.
    ///
    /// # Errors
    /// [`StateError::ChannelTooSmall`] if nothing would fit (RFC 8881 section 18.36.3); if there is no room,
    /// [`StateError::TryLater`] for its first session, [`StateError::TooManySessions`] for others.
    pub(super) fn granted(self, config: &Config, client: &Client) -> Result<Channels, StateError> {
        let Channels { fore, back } = self;
        let small = |channel: Channel, bytes: u32, operations: u32| {
            channel.request_bytes < bytes || channel.reply_bytes < bytes || channel.operations < operations
        };
        if small(fore, FORE_BYTES_MIN, 1) || small(back, BACK_BYTES_MIN, BACK_OPERATIONS_MIN) {
            return Err(StateError::ChannelTooSmall);
        }
        let fore = self.fore_within(config);
        let slots = slots_granted(config, client, &fore)?;
        let fore = Channel { slots, ..fore };
        let back = Channel { slots: back.slots.clamp(1, BACK_SLOTS_MAX), ..back };
        Ok(Channels { fore, back })
    }
}

/// Returns the memory of a slot of a channel, in bytes.
fn slot_bytes(channel: &Channel) -> u64 {
    SLOT_BYTES + u64::from(channel.cached_bytes)
}

/// Returns the memory of a session with one slot of a channel, in bytes.
fn base_bytes(channel: &Channel) -> u64 {
    SESSION_BYTES + slot_bytes(channel)
}

/// Returns what the base of a client's next session counts as.
fn base_resource(client: &Client) -> Resource {
    let first = client.inner.lock().sessions.is_empty();
    if first { Resource::SessionBytes } else { Resource::SlotBytes }
}

/// Returns how many of the slots of a channel a client gets in a new session.
///
/// # Errors
/// [`StateError::TryLater`] if there is no room for its first session, [`StateError::TooManySessions`] for others.
fn slots_granted(config: &Config, client: &Client, channel: &Channel) -> Result<u32, StateError> {
    let (resource, base) = (base_resource(client), base_bytes(channel));
    let fits = client.inner.lock().sessions.len() < config.sessions_per_client
        && client.holder.may_take(resource, base);
    let further = client.holder.room(Resource::SlotBytes) / SESSION_SHARE / slot_bytes(channel);
    match resource {
        _ if fits => Ok(channel.slots.min(u32::try_from(further).unwrap_or(u32::MAX).saturating_add(1))),
        Resource::SessionBytes => Err(StateError::TryLater),
        _ => Err(StateError::TooManySessions),
    }
}

impl SharedState {
    /// Returns the session with this id.
    ///
    /// # Errors
    /// [`StateError::UnknownSession`].
    #[inline]
    pub(crate) fn session(&self, id: SessionId) -> Result<Arc<Session>, StateError> {
        self.sessions.read(&id).get(&id).cloned().ok_or(StateError::UnknownSession)
    }

    /// SEQUENCE (RFC 8881 section 18.46): renews the lease, and lets a request execute once. Any connection from an
    /// address of the client is bound to its sessions (section 2.10.3.1); the principal may be any user of the client.
    ///
    /// # Errors
    /// [`StateError::NotBound`], [`StateError::BadSlot`], [`StateError::BadHighSlot`], [`StateError::OutOfSequence`],
    /// [`StateError::FalseRetry`], and [`StateError::TryLater`] for a request that is being executed.
    #[inline]
    pub(crate) fn sequence(
        &self,
        context: &Context<'_>,
        session: Arc<Session>,
        request: SlotRequest,
    ) -> Result<Sequenced, StateError> {
        let SlotRequest { slot, sequence, highest_slot, cache_this, checksum, address } = request;
        if !session.client.is_at(address) {
            return Err(StateError::NotBound);
        }
        let own = usize::try_from(slot).ok().and_then(|index| session.slots.get(index));
        let own = own.ok_or(StateError::BadSlot)?;
        if highest_slot >= session.fore.slots {
            return Err(StateError::BadHighSlot);
        }
        session.client.renew(context.now);
        let may_have_run_before = match own.begin(sequence, checksum) {
            SlotCheck::Execute => {
                // The next request in a slot proves that the reply to the last one arrived. The first request proves
                // nothing.
                if sequence != 1 {
                    session.client.loss_reported();
                }
                false
            }
            SlotCheck::ExecuteAfterRestart => true,
            SlotCheck::Replay(reply) => return Ok(Sequenced::Replay(reply)),
            SlotCheck::FalseRetry => return Err(StateError::FalseRetry),
            SlotCheck::InProgress => return Err(StateError::TryLater),
            SlotCheck::Misordered => return Err(StateError::OutOfSequence),
        };
        let (flags, finished) = (session.status_flags(), false);
        let in_slot =
            SlotGuard { session, slot, sequence, checksum, cache_this, may_have_run_before, finished };
        Ok(Sequenced::Execute(in_slot, flags))
    }

    /// Lets callbacks use the connection of CREATE_SESSION if the session was granted that.
    pub(super) fn bind_creating(&self, session: &Arc<Session>, connection: ConnectionId) {
        if session.flags & create_session_flag::CONN_BACK_CHAN != 0 {
            self.bind(session, connection);
        }
    }

    /// Inserts a session. `held` is its client's, whose lock is held from the check that the client is not gone: a removal
    /// of the client comes before that check, or finds the session.
    pub(super) fn insert(&self, held: &mut ClientState, session: &Arc<Session>) {
        held.sessions.push(session.id);
        self.sessions.write(&session.id).insert(session.id, Arc::clone(session));
    }

    /// Lets callbacks use `connection`.
    fn bind(&self, session: &Arc<Session>, connection: ConnectionId) {
        if let Some(oldest) = session.bind(connection) {
            self.unbind(session, oldest);
        }
        let mut bound = self.bound.write(&connection);
        let sessions = bound.entry(connection).or_default();
        if !sessions.contains(&session.id) {
            sessions.push(session.id);
        }
    }

    /// Lets no callback use `connection`.
    pub(super) fn unbind(&self, session: &Session, connection: ConnectionId) {
        session.unbind(connection);
        let mut bound = self.bound.write(&connection);
        if let Some(sessions) = bound.get_mut(&connection) {
            sessions.retain(|id| *id != session.id);
            if sessions.is_empty() {
                bound.remove(&connection);
            }
        }
    }

    /// BIND_CONN_TO_SESSION (RFC 8881 section 18.34). `back` says whether callbacks may use the connection; requests
    /// may use any from the client's addresses, to which that of `peer` is added: the id of the session, which only the
    /// client was told, and the principal prove that it moved, or has several.
    ///
    /// # Errors
    /// [`StateError::UnknownSession`], [`StateError::WrongPrincipal`], and those of the journal.
    pub(crate) fn bind_connection(
        &self,
        context: &Context<'_>,
        id: SessionId,
        (connection, peer): (ConnectionId, &Peer),
        back: bool,
    ) -> Result<(), StateError> {
        let session = self.session(id)?;
        if session.client.principal != peer.principal {
            return Err(StateError::WrongPrincipal);
        }
        self.admit_address(context, &session.client, peer.address)?;
        session.client.renew(context.now);
        if back {
            self.bind(&session, connection);
            self.send_waiting(context, &session.client);
        } else {
            self.unbind(&session, connection);
        }
        Ok(())
    }

    /// BACKCHANNEL_CTL (RFC 8881 section 18.33).
    ///
    /// # Errors
    /// Those of [`Client::check_owner`] and of the journal.
    pub(crate) fn backchannel_ctl(
        &self,
        context: &Context<'_>,
        (session, peer): (&Session, &Peer),
        program: u32,
        security: CallbackSecurity,
    ) -> Result<DurabilityToken, StateError> {
        session.client.check_owner(peer)?;
        let mut back = session.inner.lock();
        let record = SessionRecord { program, security, ..session.record(&back) };
        let token = context.change_home(&[Key::Session(session.id).put(&record)])?;
        (back.program, back.security) = (program, security);
        Ok(token)
    }

    /// DESTROY_SESSION (RFC 8881 section 18.37).
    ///
    /// # Errors
    /// [`StateError::UnknownSession`], and those of [`Client::check_owner`] and of the journal.
    pub(crate) fn destroy_session(
        &self,
        context: &Context<'_>,
        id: SessionId,
        peer: &Peer,
    ) -> Result<DurabilityToken, StateError> {
        let session = self.session(id)?;
        session.client.check_owner(peer)?;
        session.client.renew(context.now);
        let token = self.end_session(context, &session)?;
        // Pending callbacks move to another session.
        self.requeue_calls(context, &session);
        Ok(token)
    }

    fn end_session(
        &self,
        context: &Context<'_>,
        session: &Arc<Session>,
    ) -> Result<DurabilityToken, StateError> {
        let token = context.change_home(&[Key::Session(session.id).deleted()])?;
        self.sessions.write(&session.id).remove(&session.id);
        session.client.inner.lock().sessions.retain(|id| *id != session.id);
        self.unbind_all(session);
        Ok(token)
    }

    /// Lets callbacks of a session that has ended use no connection.
    pub(super) fn unbind_all(&self, session: &Session) {
        let connections = session.inner.lock().connections.clone();
        connections.into_iter().for_each(|connection| self.unbind(session, connection));
    }

    /// Forgets a closed connection, so that no callback uses it.
    pub(crate) fn connection_closed(&self, connection: ConnectionId) {
        let sessions = self.bound.write(&connection).remove(&connection).unwrap_or_default();
        if sessions.is_empty() {
            // No call went there, and other calls need not be looked at.
            return;
        }
        for id in sessions {
            if let Ok(session) = self.session(id) {
                session.unbind(connection);
            }
        }
        self.callbacks_lost(connection);
    }
}
