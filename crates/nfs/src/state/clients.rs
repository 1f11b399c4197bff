//! Clients: SETCLIENTID and EXCHANGE_ID introduce one, SETCLIENTID_CONFIRM and CREATE_SESSION confirm it.
//!
//! A name (`nfs_client_id4.id`, `client_owner4.co_ownerid`) has at most one confirmed and one unconfirmed client at an
//! address: AUTH_SYS proves nothing but the address, so the same name at another address is another client. A client
//! proves that another address is its own with its verifier, or the id of a session, and the same principal.
//! NFSv4.0 and later versions have separate names.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use parking_lot::MutexGuard;
use volume::time::Time;

use crate::connection::ConnectionId;

use crate::state::callbacks::CallbackPath;
use crate::state::clients::client::{Client, ClientProtocol};
use crate::state::clients::table::{Name, Table, Unconfirmed, name_of};
use crate::state::ids::ClientId;
use crate::state::record::{
    CallbackAddress, CallbackSecurity, ClientKind, ClientRecord, Key, Principal, SessionRecord,
};
use crate::state::sessions::{Channels, Session};
use crate::state::shares::{Holder, Resource};
use crate::state::{Context, DurabilityToken, Peer, SharedState, StateError};

pub(crate) mod client;
pub(crate) mod expiry;
mod guesses;
pub(crate) mod idle_owners;
mod newcomers;
pub(crate) mod owner_sequence;
mod proposals;
pub(crate) mod removal;
mod table;

#[cfg(test)]
pub(super) use guesses::{WINDOW, WRONG_VERIFIERS_MAX};
pub(crate) use newcomers::GivingWay;
pub(super) use table::Clients;
#[cfg(test)]
pub(super) use table::NAMESAKES_MAX;

/// How SETCLIENTID or EXCHANGE_ID introduces a client.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Introduction<'a> {
    pub(crate) name: &'a [u8],
    pub(crate) verifier: [u8; 8],
    pub(crate) peer: Peer,
}

impl Introduction<'_> {
    /// Returns whether it introduces this client again.
    fn is_of(&self, client: &Client) -> bool {
        is_same(client.verifier, self.verifier) && client.principal == self.peer.principal
    }
}

/// The result of EXCHANGE_ID.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Exchanged {
    pub(crate) id: ClientId,
    /// The sequence of the next CREATE_SESSION.
    pub(crate) sequence: u32,
    pub(crate) confirmed: bool,
}

/// The arguments of CREATE_SESSION.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CreateSession {
    pub(crate) client: ClientId,
    pub(crate) sequence: u32,
    pub(crate) peer: Peer,
    /// The flags to grant.
    pub(crate) flags: u32,
    pub(crate) channels: Channels,
    pub(crate) program: u32,
    pub(crate) security: CallbackSecurity,
    pub(crate) connection: ConnectionId,
}

/// Why SETCLIENTID failed: NFS4ERR_CLID_INUSE, and the callback address of the other client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NameInUse(pub(crate) Option<CallbackAddress>);

impl SharedState {
    /// Returns the number of this instance; the first call decides it. It becomes the next one when its numbers are used up.
    pub(super) fn instance(&self, now: Time) -> u32 {
        self.first_instance(now).wrapping_add(halves(self.numbers.load(Ordering::Relaxed)).0)
    }

    fn first_instance(&self, now: Time) -> u32 {
        let seconds = u32::try_from(now.seconds()).unwrap_or(u32::MAX).max(1);
        *self.instance.get_or_init(|| {
            // The clock may have been set back since records were written: their ids must not recur.
            let _ = self.oldest.compare_exchange(0, seconds, Ordering::Relaxed, Ordering::Relaxed);
            seconds.max(self.newest_known.load(Ordering::Relaxed).saturating_add(1))
        })
    }

    /// Returns an instance and a number there that were never returned before. An instance is a second, and its 2^32 numbers
    /// last for an hour at least, so the next one is over before a restart can use it.
    fn next_number(&self, now: Time) -> (u32, u32) {
        let (instances, number) = halves(self.numbers.fetch_add(1, Ordering::Relaxed).wrapping_add(1));
        (self.first_instance(now).wrapping_add(instances), number)
    }

    /// Returns the newest instance that has handed out ids, in this process or before; 0 if none has.
    pub(super) fn newest_instance(&self) -> u32 {
        match self.instance.get() {
            Some(first) => first.wrapping_add(halves(self.numbers.load(Ordering::Relaxed)).0),
            // After a restart, an instance begins with the first id that it hands out.
            None => self.newest_known.load(Ordering::Relaxed),
        }
    }

    /// Returns the id of a new client, which no other ever had, though the key of older ids may have been another one.
    pub(super) fn next_client(&self, now: Time) -> ClientId {
        let (instance, number) = self.next_number(now);
        self.keys.client(instance, number)
    }

    /// Returns a verifier for SETCLIENTID_CONFIRM that never recurs, and that nobody can guess.
    fn next_confirm(&self, now: Time) -> [u8; 8] {
        let (instance, number) = self.next_number(now);
        self.keys.confirm(instance, number)
    }

    /// Returns the confirmed client of an id that NFSv4.0 sends with OPEN, LOCK, RENEW and others. Renews its lease. The
    /// principal may be another one than the client's: Linux sends RENEW and RELEASE_LOCKOWNER on behalf of any user.
    ///
    /// # Errors
    /// [`StateError::Expired`] if it expired, [`StateError::UnknownClient`] if nothing is known of it, or if it is
    /// another host's.
    pub(crate) fn client(
        &self,
        context: &Context<'_>,
        id: ClientId,
        peer: &Peer,
    ) -> Result<Arc<Client>, StateError> {
        match self.clients.confirmed(id).filter(|client| !client.is_gone()) {
            Some(client) if client.version == ClientProtocol::V40 && client.is_at(peer.address) => {
                client.renew(context.now);
                Ok(client)
            }
            None if self.is_of_known_instance(id) => Err(StateError::Expired),
            _ => Err(StateError::UnknownClient),
        }
    }

    /// RENEW (RFC 7530 section 16.29).
    ///
    /// # Errors
    /// Those of [`SharedState::client`]; [`StateError::CallbackPathDown`] if the client has delegations and recalls do
    /// not reach it, and until it tries to return a revoked one: nothing else tells it to stop trusting them.
    pub(crate) fn renew(&self, context: &Context<'_>, id: ClientId, peer: &Peer) -> Result<(), StateError> {
        let client = self.client(context, id, peer)?;
        let down = client.inner.lock().path == CallbackPath::Down;
        let was_revoked = client.revoked.load(Ordering::Relaxed) > 0;
        if was_revoked || down && client.delegations.load(Ordering::Relaxed) > 0 {
            Err(StateError::CallbackPathDown)
        } else {
            Ok(())
        }
    }

    /// SETCLIENTID (RFC 7530 section 16.33.5). Returns the id and the verifier to confirm it with.
    ///
    /// # Errors
    /// [`NameInUse`].
    pub(crate) fn set_client_id(
        &self,
        context: &Context<'_>,
        who: &Introduction<'_>,
        callback: CallbackAddress,
    ) -> Result<(ClientId, [u8; 8]), NameInUse> {
        let now = context.now;
        let holder = self.shares.holder(who.peer.address);
        let mut table = self.clients.write();
        let confirmed = table.known_as(ClientProtocol::V40, who, (holder.origin(), now));
        let id = match &confirmed {
            Some(client) if client.principal != who.peer.principal && self.is_in_use(client, now) => {
                let address = client.inner.lock().callback.clone().map(|(_, address)| address);
                return Err(NameInUse(address));
            }
            // The same client, perhaps with a new callback address.
            Some(client) if who.is_of(client) => client.id,
            // An unknown client, or one that restarted.
            _ => self.next_client(now),
        };
        table.make_room(&holder);
        let confirm = self.next_confirm(now);
        let record = self.record_of(now, who, ClientKind::V40 { confirm, callback });
        let name = name_for(ClientProtocol::V40, who, confirmed.as_deref());
        table.propose(&name, Some(Unconfirmed::new(id, record, now, holder)));
        Ok((id, confirm))
    }

    /// Makes room for a client that is about to be confirmed, and for its first session of `session` bytes, which a confirmed
    /// client may lack too. Hold what is returned until they exist.
    ///
    /// # Errors
    /// Those of the journal.
    fn make_room_for_session(
        &self,
        context: &Context<'_>,
        id: ClientId,
        session: u64,
    ) -> Result<Option<MutexGuard<'_, GivingWay>>, StateError> {
        let table = self.clients.read();
        let (holder, clients) = match (table.proposed(id), table.confirmed.get(&id)) {
            (Some((name, unconfirmed)), _) => (unconfirmed.holder, u64::from(table.named(&name).0.is_none())),
            (None, Some(client)) if client.inner.lock().sessions.is_empty() => {
                (Arc::clone(&client.holder), 0)
            }
            (None, _) => return Ok(None),
        };
        drop(table);
        let needs = [(Resource::Clients, clients), (Resource::SessionBytes, session)];
        self.make_room(context, &holder, needs).map(Some)
    }

    /// Checks that there is room for a client, unless it takes the place of an earlier one.
    ///
    /// # Errors
    /// [`StateError::TryLater`].
    fn check_room_for_client(
        &self,
        holder: &Holder,
        earlier: Option<&Arc<Client>>,
    ) -> Result<(), StateError> {
        let fits = earlier.is_some() || holder.may_take(Resource::Clients, 1);
        if fits { Ok(()) } else { Err(StateError::TryLater) }
    }

    /// Lets a client come from one more address.
    ///
    /// # Errors
    /// [`StateError::UnknownClient`] if it is being removed, and those of the journal.
    pub(super) fn admit_address(
        &self,
        context: &Context<'_>,
        client: &Arc<Client>,
        address: IpAddr,
    ) -> Result<(), StateError> {
        if client.is_at(address) {
            return Ok(());
        }
        self.add_address(context, &mut self.clients.write(), client, address)
    }

    /// Does the same while the table is locked.
    fn add_address(
        &self,
        context: &Context<'_>,
        table: &mut Table,
        client: &Arc<Client>,
        address: IpAddr,
    ) -> Result<(), StateError> {
        if client.is_at(address) {
            return Ok(());
        }
        let held = client.inner.lock();
        if client.is_gone() {
            return Err(StateError::UnknownClient);
        }
        let record = ClientRecord { addresses: client.addresses_with(address), ..client.record(&held) };
        // Nothing waits for it: if it is lost, the client introduces itself again from there.
        context.change_home(&[Key::Client(client.id).put(&record)])?;
        table.set_addresses(client, &record.addresses);
        Ok(())
    }

    /// Returns whether another principal may not take the client's name: it has state, and its lease runs.
    fn is_in_use(&self, client: &Client, now: Time) -> bool {
        client.has_state() && client.lease_idle(now) <= self.config.lease
    }

    /// SETCLIENTID_CONFIRM (RFC 7530 section 16.34.5). Probes the client's callback path, so that it can get
    /// delegations.
    ///
    /// # Errors
    /// [`StateError::UnknownClient`], [`StateError::ClientInUse`], [`StateError::TryLater`] if there are too many clients,
    /// and those of the journal.
    pub(crate) fn confirm_client_id(
        &self,
        context: &Context<'_>,
        id: ClientId,
        confirm: [u8; 8],
        peer: &Peer,
    ) -> Result<Option<DurabilityToken>, StateError> {
        let _room = self.make_room_for_session(context, id, 0)?;
        let mut table = self.clients.write();
        let proposed = table.proposed(id).filter(|(_, one)| confirms(&one.record, confirm));
        let Some((name, unconfirmed)) = proposed else {
            let known = table.confirmed.get(&id).filter(|client| {
                client.inner.lock().callback.as_ref().is_some_and(|(known, _)| is_same(*known, confirm))
            });
            let known = known.ok_or(StateError::UnknownClient)?;
            check_confirming(peer, known.principal, known.is_at(peer.address))?;
            return Ok(known.inner.lock().confirmed);
        };
        let introduced = unconfirmed.peer();
        check_confirming(peer, introduced.principal, introduced.address == peer.address)?;
        let (earlier, _) = table.named(&name);
        self.check_room_for_client(&unconfirmed.holder, earlier.as_ref())?;
        let client = match &earlier {
            Some(client) if client.id == id => {
                self.update_callback(context, &mut table, client, (unconfirmed.record, peer))?;
                table.propose(&name, None);
                Arc::clone(client)
            }
            _ => {
                let token = context.change_home(&[Key::Client(id).put(&unconfirmed.record)])?;
                let client = Arc::new(Client::new(id, &unconfirmed.record, context.now, unconfirmed.holder));
                client.inner.lock().confirmed = Some(token);
                table.confirm(&name, &client);
                client
            }
        };
        drop(table);
        let token = client.inner.lock().confirmed;
        client.renew(context.now);
        self.remove_replaced(context, earlier, &client)?;
        self.probe(context, &client);
        Ok(token)
    }

    /// Gives a confirmed client the callback address with which it introduced itself again.
    ///
    /// # Errors
    /// [`StateError::UnknownClient`] if it is gone, and those of the journal.
    fn update_callback(
        &self,
        context: &Context<'_>,
        table: &mut Table,
        client: &Arc<Client>,
        (mut record, peer): (ClientRecord, &Peer),
    ) -> Result<(), StateError> {
        let mut held = client.inner.lock();
        if client.is_gone() {
            return Err(StateError::UnknownClient);
        }
        record.addresses = client.addresses_with(peer.address);
        held.confirmed = Some(context.change_home(&[Key::Client(client.id).put(&record)])?);
        table.set_addresses(client, &record.addresses);
        if let ClientKind::V40 { confirm, callback } = record.kind {
            held.callback = Some((confirm, callback));
            // A probe that is under way says nothing of the new address; its end makes the path unknown.
            if held.path != CallbackPath::Probing {
                held.path = CallbackPath::Unknown;
            }
        }
        Ok(())
    }

    /// Removes the client that restarted, or whose name another principal took.
    fn remove_replaced(
        &self,
        context: &Context<'_>,
        earlier: Option<Arc<Client>>,
        now_there: &Client,
    ) -> Result<(), StateError> {
        match earlier {
            Some(earlier) if earlier.id != now_there.id => self.remove_client(context, &earlier).map(drop),
            _ => Ok(()),
        }
    }

    /// EXCHANGE_ID: the cases of RFC 8881 section 18.35.5. `update` is EXCHGID4_FLAG_UPD_CONFIRMED_REC_A. Of several
    /// clients with the name, [`Table::known_as`] finds the one in question; for anyone else the name is free.
    ///
    /// | update | confirmed client of the name | verifier, principal | case | result |
    /// |---|---|---|---|---|
    /// | no | none | | 1, 4 | proposes a new one, instead of an earlier proposal |
    /// | no | one | the same | 2 | returns it as confirmed |
    /// | no | one | other principal | 3 | CLID_INUSE, unless it has no state or its lease is over |
    /// | no | one | other verifier | 5 | it restarted: proposes a new one; the old one stays until that is confirmed |
    /// | yes | one | the same | 6 | updates it |
    /// | yes | none | | 7 | NOENT |
    /// | yes | one | other verifier | 8 | NOT_SAME |
    /// | yes | one | other principal | 9 | PERM |
    ///
    /// # Errors
    /// As in the table; those of the journal.
    pub(crate) fn exchange_id(
        &self,
        context: &Context<'_>,
        who: &Introduction<'_>,
        minor: u32,
        update: bool,
    ) -> Result<Exchanged, StateError> {
        let now = context.now;
        let holder = self.shares.holder(who.peer.address);
        let mut table = self.clients.write();
        let confirmed = table.known_as(ClientProtocol::Sessions, who, (holder.origin(), now));
        let name = name_for(ClientProtocol::Sessions, who, confirmed.as_deref());
        let mut replaced = None;
        match (confirmed, update) {
            (None, true) => {
                let address = who.peer.address;
                let others = table.is_named_elsewhere(ClientProtocol::Sessions, who.name, address);
                return Err(if others { StateError::PrincipalDiffers } else { StateError::NotConfirmed });
            }
            (None, false) => {}
            (Some(client), _) if who.is_of(&client) => {
                self.add_address(context, &mut table, &client, who.peer.address)?;
                client.renew(now);
                let created = client.inner.lock().created;
                let sequence = created.map_or(1, |(last, _)| last.wrapping_add(1));
                return Ok(Exchanged { id: client.id, sequence, confirmed: true });
            }
            (Some(client), true) => {
                let other_verifier = client.verifier != who.verifier;
                return Err(if other_verifier {
                    StateError::VerifierDiffers
                } else {
                    StateError::PrincipalDiffers
                });
            }
            (Some(client), false) if client.principal != who.peer.principal => {
                if self.is_in_use(&client, now) {
                    return Err(StateError::ClientInUse);
                }
                replaced = Some(client);
            }
            (Some(_), false) => {}
        }
        table.make_room(&holder);
        let id = self.next_client(now);
        let kind = ClientKind::Sessions { minor, created: None, reclaimed: false };
        let record = self.record_of(now, who, kind);
        table.propose(&name, Some(Unconfirmed::new(id, record, now, holder)));
        drop(table);
        if let Some(replaced) = replaced {
            self.remove_client(context, &replaced)?;
        }
        Ok(Exchanged { id, sequence: 1, confirmed: false })
    }

    /// CREATE_SESSION (RFC 8881 section 18.36): confirms the client and creates a session. Each client has one slot for
    /// it, which repeats the last reply. Only successes count.
    ///
    /// # Errors
    /// [`StateError::UnknownClient`], [`StateError::OutOfSequence`], [`StateError::ClientInUse`],
    /// [`StateError::ChannelTooSmall`], [`StateError::TooManySessions`], [`StateError::TryLater`] if there is no room, and
    /// those of the journal.
    pub(crate) fn create_session(
        &self,
        context: &Context<'_>,
        args: &CreateSession,
    ) -> Result<(Arc<Session>, Option<DurabilityToken>), StateError> {
        let session_bytes = args.channels.base_bytes(&self.config);
        let _room = self.make_room_for_session(context, args.client, session_bytes)?;
        let mut table = self.clients.write();
        let confirmed = table.confirmed.get(&args.client).cloned();
        let confirmed = confirmed.filter(|client| client.version == ClientProtocol::Sessions);
        let proposed = table.proposed(args.client).filter(|(name, _)| name.0 == ClientProtocol::Sessions);
        let (last, token) = match (&confirmed, &proposed) {
            (Some(client), _) => {
                check_confirming(&args.peer, client.principal, client.is_at(args.peer.address))?;
                if client.is_gone() {
                    return Err(StateError::UnknownClient);
                }
                let held = client.inner.lock();
                (held.created, held.confirmed)
            }
            (None, Some((_, unconfirmed))) => {
                let introduced = unconfirmed.peer();
                check_confirming(&args.peer, introduced.principal, introduced.address == args.peer.address)?;
                (None, None)
            }
            (None, None) => return Err(StateError::UnknownClient),
        };
        if let Some((_, created)) = last.filter(|(sequence, _)| *sequence == args.sequence) {
            return Ok((self.session(created).map_err(|_| StateError::OutOfSequence)?, token));
        }
        if args.sequence != last.map_or(1, |(sequence, _)| sequence.wrapping_add(1)) {
            return Err(StateError::OutOfSequence);
        }
        let mut earlier = None;
        let client = match (confirmed, &proposed) {
            (Some(client), _) => client,
            (None, Some((name, unconfirmed))) => {
                (earlier, _) = table.named(name);
                self.check_room_for_client(&unconfirmed.holder, earlier.as_ref())?;
                let holder = Arc::clone(&unconfirmed.holder);
                Arc::new(Client::new(unconfirmed.id, &unconfirmed.record, context.now, holder))
            }
            (None, None) => return Err(StateError::UnknownClient),
        };
        let channels = args.channels.granted(&self.config, &client)?;
        let (session, token) = self.make_session(context, &client, args, channels)?;
        if let Some((name, _)) = &proposed {
            table.confirm(name, &client);
        }
        drop(table);
        client.renew(context.now);
        self.remove_replaced(context, earlier, &client)?;
        self.send_waiting(context, &client);
        Ok((session, Some(token)))
    }

    /// Makes a session. The client may have been removed since it was looked up.
    ///
    /// # Errors
    /// [`StateError::UnknownClient`], and those of the journal.
    fn make_session(
        &self,
        context: &Context<'_>,
        client: &Arc<Client>,
        args: &CreateSession,
        channels: Channels,
    ) -> Result<(Arc<Session>, DurabilityToken), StateError> {
        let (instance, number) = self.next_number(context.now);
        let id = self.keys.session(client.id, instance, number);
        let CreateSession { flags, program, security, .. } = *args;
        let record = SessionRecord { fore: channels.fore, back: channels.back, flags, program, security };
        let created = Some((args.sequence, id));
        let session = Arc::new(Session::new(id, client, &record, None));
        let mut held = client.inner.lock();
        if client.is_gone() {
            return Err(StateError::UnknownClient);
        }
        let kind = ClientKind::Sessions { minor: client.minor, created, reclaimed: held.reclaimed };
        let client_record = ClientRecord { kind, ..client.record(&held) };
        let changes = [Key::Client(client.id).put(&client_record), Key::Session(id).put(&record)];
        let token = context.change_home(&changes)?;
        (held.created, held.confirmed) = (created, Some(token));
        self.insert(&mut held, &session);
        drop(held);
        self.bind_creating(&session, args.connection);
        Ok((session, token))
    }

    /// RECLAIM_COMPLETE for the whole server (RFC 8881 section 18.51).
    ///
    /// # Errors
    /// [`StateError::AlreadyReclaimed`]; [`StateError::UnknownSession`] if it is gone; those of the journal.
    pub(crate) fn reclaim_complete(
        &self,
        context: &Context<'_>,
        client: &Client,
    ) -> Result<DurabilityToken, StateError> {
        let mut held = client.inner.lock();
        if client.is_gone() {
            return Err(StateError::UnknownSession);
        }
        if held.reclaimed {
            return Err(StateError::AlreadyReclaimed);
        }
        let kind = ClientKind::Sessions { minor: client.minor, created: held.created, reclaimed: true };
        let record = ClientRecord { kind, ..client.record(&held) };
        let token = context.change_home(&[Key::Client(client.id).put(&record)])?;
        held.reclaimed = true;
        Ok(token)
    }

    /// DESTROY_CLIENTID (RFC 8881 section 18.50).
    ///
    /// # Errors
    /// [`StateError::UnknownClient`]; [`StateError::ClientBusy`] if it has sessions or state; those of
    /// [`Client::check_owner`] and of the journal.
    pub(crate) fn destroy_client_id(
        &self,
        context: &Context<'_>,
        id: ClientId,
        peer: &Peer,
    ) -> Result<(), StateError> {
        let mut table = self.clients.write();
        if let Some((name, unconfirmed)) = table.proposed(id)
            && name.0 == ClientProtocol::Sessions
        {
            if unconfirmed.peer() != *peer {
                return Err(StateError::WrongPrincipal);
            }
            table.propose(&name, None);
            return Ok(());
        }
        let client = table.confirmed.get(&id).cloned();
        drop(table);
        let client = client.filter(|client| client.version == ClientProtocol::Sessions);
        let client = client.ok_or(StateError::UnknownClient)?;
        client.check_owner(peer)?;
        if client.has_state() || self.has_copies(&client) {
            return Err(StateError::ClientBusy);
        }
        self.remove_client(context, &client).map(drop)
    }

    fn record_of(&self, now: Time, who: &Introduction<'_>, kind: ClientKind) -> ClientRecord {
        let Introduction { name, verifier, peer: Peer { principal, address } } = *who;
        let (instance, addresses) = (self.instance(now), [address].into());
        ClientRecord { name: name.into(), verifier, principal, instance, addresses, kind }
    }
}

/// Returns the upper and the lower half of a number.
fn halves(number: u64) -> (u32, u32) {
    let [a, b, c, d, e, f, g, h] = number.to_be_bytes();
    (u32::from_be_bytes([a, b, c, d]), u32::from_be_bytes([e, f, g, h]))
}

/// Returns the name under which a client is introduced; `known` is the confirmed one that it is or replaces.
fn name_for(version: ClientProtocol, who: &Introduction<'_>, known: Option<&Client>) -> Name {
    known.map_or_else(|| (version, who.name.into(), who.peer.address), name_of)
}

/// Checks that a client is confirmed by the peer that introduced it.
///
/// # Errors
/// [`StateError::UnknownClient`] at another address, [`StateError::ClientInUse`] for another principal.
fn check_confirming(peer: &Peer, principal: Principal, at_its_address: bool) -> Result<(), StateError> {
    match (at_its_address, peer.principal == principal) {
        (false, _) => Err(StateError::UnknownClient),
        (true, false) => Err(StateError::ClientInUse),
        (true, true) => Ok(()),
    }
}

/// Compares in constant time.
fn is_same(one: [u8; 8], other: [u8; 8]) -> bool {
    u64::from_be_bytes(one) == u64::from_be_bytes(other)
}

fn confirms(record: &ClientRecord, sent: [u8; 8]) -> bool {
    matches!(&record.kind, ClientKind::V40 { confirm, .. } if is_same(*confirm, sent))
}
