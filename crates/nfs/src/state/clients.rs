//! Clients: SETCLIENTID and EXCHANGE_ID introduce one, SETCLIENTID_CONFIRM and CREATE_SESSION confirm it.
//!
//! A name (`nfs_client_id4.id`, `client_owner4.co_ownerid`) has at most one confirmed and one unconfirmed client.
//! NFSv4.0 and later versions have separate names.

use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use parking_lot::RwLock;
use volume::time::Time;

use crate::connection::ConnectionId;

use crate::state::clients::client::{Client, ClientProtocol};
use crate::state::config::Counters;
use crate::state::ids::{ClientId, SessionId};
use crate::state::record::{
    CallbackAddress, CallbackSecurity, ClientKind, ClientRecord, Key, Principal, SessionRecord,
};
use crate::state::sessions::{Channels, Session};
use crate::state::{Context, DurabilityToken, SharedState, StateError};

pub(crate) mod client;
pub(crate) mod expiry;
pub(crate) mod owner_sequence;

/// A client that is not confirmed yet.
#[derive(Clone, Debug)]
struct Unconfirmed {
    id: ClientId,
    record: ClientRecord,
    proposed: Time,
}

/// The clients with the same name.
#[derive(Debug, Default)]
struct Named {
    confirmed: Option<Arc<Client>>,
    unconfirmed: Option<Unconfirmed>,
}

type Name = (ClientProtocol, Box<[u8]>);

/// Unconfirmed clients may be at most one in this many.
const UNCONFIRMED_SHARE: usize = 4;

#[derive(Debug, Default)]
struct Table {
    names: HashMap<Name, Named>,
    confirmed: BTreeMap<ClientId, Arc<Client>>,
    /// By id, so the oldest come first.
    unconfirmed: BTreeMap<ClientId, Name>,
}

/// All clients.
#[derive(Debug, Default)]
pub(super) struct Clients(RwLock<Table>);

impl Table {
    fn len(&self) -> usize {
        self.confirmed.len() + self.unconfirmed.len()
    }

    fn named(&self, name: &Name) -> (Option<Arc<Client>>, Option<&Unconfirmed>) {
        let named = self.names.get(name);
        (named.and_then(|named| named.confirmed.clone()), named.and_then(|named| named.unconfirmed.as_ref()))
    }

    /// Drops the oldest unconfirmed client if unconfirmed ones exceed their share of `max`: a peer that invents names
    /// must not keep others out. Returns whether there is room for one more.
    fn make_room(&mut self, max: usize) -> bool {
        if self.unconfirmed.len() >= (max / UNCONFIRMED_SHARE).max(1)
            && let Some(name) = self.unconfirmed.values().next().cloned()
        {
            self.propose(&name, None);
        }
        self.len() < max
    }

    /// Replaces the unconfirmed client of a name.
    fn propose(&mut self, name: &Name, proposed: Option<Unconfirmed>) {
        let named = self.names.entry(name.clone()).or_default();
        if let Some(earlier) = named.unconfirmed.take() {
            self.unconfirmed.remove(&earlier.id);
        }
        match proposed {
            Some(proposed) => {
                self.unconfirmed.insert(proposed.id, name.clone());
                named.unconfirmed = Some(proposed);
            }
            None if named.confirmed.is_none() => drop(self.names.remove(name)),
            None => {}
        }
    }

    fn confirm(&mut self, name: &Name, client: &Arc<Client>) {
        let named = self.names.entry(name.clone()).or_default();
        named.confirmed = Some(Arc::clone(client));
        self.confirmed.insert(client.id, Arc::clone(client));
        self.propose(name, None);
    }
}

impl Clients {
    /// Returns the confirmed client with this id.
    pub(super) fn confirmed(&self, id: ClientId) -> Option<Arc<Client>> {
        self.0.read().confirmed.get(&id).cloned()
    }

    /// Returns the confirmed client with this name.
    pub(super) fn of_name(&self, version: ClientProtocol, name: &[u8]) -> Option<Arc<Client>> {
        self.0.read().names.get(&(version, Box::from(name)))?.confirmed.clone()
    }

    /// Returns the confirmed client with this name, or inserts the one that `make` returns.
    ///
    /// # Errors
    /// [`StateError::LimitReached`] if there are `max` already, and those of `make`.
    pub(super) fn enter(
        &self,
        version: ClientProtocol,
        name: &[u8],
        max: usize,
        make: impl FnOnce() -> Result<Arc<Client>, StateError>,
    ) -> Result<Arc<Client>, StateError> {
        let name = (version, Box::from(name));
        let mut table = self.0.write();
        if let (Some(there), _) = table.named(&name) {
            return Ok(there);
        }
        if table.len() >= max {
            return Err(StateError::LimitReached);
        }
        let client = make()?;
        table.confirm(&name, &client);
        Ok(client)
    }

    /// Returns the NLM clients of a host.
    pub(super) fn at(&self, address: IpAddr) -> Vec<Arc<Client>> {
        let there = |client: &&Arc<Client>| client.host.is_some_and(|host| host.address == address);
        self.0.read().confirmed.values().filter(there).cloned().collect()
    }

    /// Returns the number of NLM clients.
    pub(super) fn hosts(&self) -> usize {
        self.0.read().confirmed.values().filter(|client| client.host.is_some()).count()
    }

    /// Returns all confirmed clients.
    pub(super) fn all(&self) -> Vec<Arc<Client>> {
        self.0.read().confirmed.values().cloned().collect()
    }

    /// Returns the number of clients, confirmed or not.
    pub(super) fn total(&self) -> usize {
        self.0.read().len()
    }

    /// Returns the number of confirmed clients.
    pub(super) fn len(&self) -> usize {
        self.0.read().confirmed.len()
    }

    /// Inserts a client that a record names.
    pub(super) fn restore(&self, client: &Arc<Client>) {
        self.0.write().confirm(&(client.version, client.name.clone()), client);
    }

    /// Removes a client.
    pub(super) fn remove(&self, client: &Client) {
        let mut table = self.0.write();
        table.confirmed.remove(&client.id);
        let name = (client.version, client.name.clone());
        if let Some(named) = table.names.get_mut(&name) {
            if named.confirmed.as_ref().is_some_and(|known| known.id == client.id) {
                named.confirmed = None;
            }
            if named.confirmed.is_none() && named.unconfirmed.is_none() {
                table.names.remove(&name);
            }
        }
    }

    /// Drops clients that were not confirmed within a lease.
    pub(super) fn forget_unconfirmed(&self, now: Time, lease: Duration) {
        let mut table = self.0.write();
        let late =
            |named: &Named| named.unconfirmed.as_ref().is_some_and(|one| now.since(one.proposed) > lease);
        let names: Vec<Name> =
            table.names.iter().filter(|(_, named)| late(named)).map(|(name, _)| name.clone()).collect();
        names.iter().for_each(|name| table.propose(name, None));
    }
}

/// How SETCLIENTID or EXCHANGE_ID introduces a client.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Introduction<'a> {
    pub(crate) name: &'a [u8],
    pub(crate) verifier: [u8; 8],
    pub(crate) principal: Principal,
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
    pub(crate) principal: Principal,
    /// The flags to grant.
    pub(crate) flags: u32,
    pub(crate) channels: Channels,
    pub(crate) program: u32,
    pub(crate) security: CallbackSecurity,
    pub(crate) connection: ConnectionId,
}

/// Why SETCLIENTID failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum SetClientIdError {
    /// NFS4ERR_CLID_INUSE, and the callback address of the other client.
    InUse(Option<CallbackAddress>),
    Failed(StateError),
}

impl SharedState {
    /// Returns the number of this instance; the first call decides it.
    fn instance(&self, now: Time) -> u32 {
        let seconds = u32::try_from(now.seconds()).unwrap_or(u32::MAX).max(1);
        *self.instance.get_or_init(|| {
            // The clock may have been set back since records were written: their ids must not recur.
            let _ = self.oldest.compare_exchange(0, seconds, Ordering::Relaxed, Ordering::Relaxed);
            seconds.max(self.newest_known.load(Ordering::Relaxed).saturating_add(1))
        })
    }

    fn next_number(&self) -> u32 {
        self.numbers.fetch_add(1, Ordering::Relaxed).wrapping_add(1)
    }

    pub(super) fn next_client(&self, now: Time) -> ClientId {
        ClientId::new(self.instance(now), self.next_number())
    }

    /// Returns a verifier for SETCLIENTID_CONFIRM that never recurs.
    fn next_confirm(&self, now: Time) -> [u8; 8] {
        (u64::from(self.instance(now)) << 32 | u64::from(self.next_number())).to_be_bytes()
    }

    /// Returns the confirmed client of an id that NFSv4.0 sends with OPEN, LOCK, RENEW and others. Renews its lease.
    ///
    /// # Errors
    /// [`StateError::Expired`] if it expired, [`StateError::UnknownClient`] if nothing is known of it.
    pub(crate) fn client(&self, context: &Context<'_>, id: ClientId) -> Result<Arc<Client>, StateError> {
        match self.clients.confirmed(id) {
            Some(client) if client.version == ClientProtocol::V40 => {
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
    pub(crate) fn renew(&self, context: &Context<'_>, id: ClientId) -> Result<(), StateError> {
        let client = self.client(context, id)?;
        let down = client.inner.lock().path == crate::state::callbacks::CallbackPath::Down;
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
    /// [`SetClientIdError`]; [`StateError::LimitReached`] if there are too many clients.
    pub(crate) fn set_client_id(
        &self,
        context: &Context<'_>,
        who: &Introduction<'_>,
        callback: CallbackAddress,
    ) -> Result<(ClientId, [u8; 8]), SetClientIdError> {
        let now = context.now;
        self.finish_removal(context, ClientProtocol::V40, who.name).map_err(SetClientIdError::Failed)?;
        let name = (ClientProtocol::V40, Box::from(who.name));
        let mut table = self.clients.0.write();
        let (confirmed, _) = table.named(&name);
        let id = match &confirmed {
            Some(client) if client.principal != who.principal && self.is_in_use(client, now) => {
                let address = client.inner.lock().callback.clone().map(|(_, address)| address);
                return Err(SetClientIdError::InUse(address));
            }
            // The same client, perhaps with a new callback address.
            Some(client) if client.verifier == who.verifier && client.principal == who.principal => client.id,
            // An unknown client, or one that restarted.
            _ => self.next_client(now),
        };
        if !table.make_room(self.config.clients) {
            return Err(SetClientIdError::Failed(StateError::LimitReached));
        }
        let confirm = self.next_confirm(now);
        let record = record_of(who, ClientKind::V40 { confirm, callback });
        table.propose(&name, Some(Unconfirmed { id, record, proposed: now }));
        Ok((id, confirm))
    }

    /// Prepares for a client of this name: finishes a removal that a full journal interrupted, and makes room.
    fn finish_removal(
        &self,
        context: &Context<'_>,
        version: ClientProtocol,
        name: &[u8],
    ) -> Result<(), StateError> {
        if let Some(gone) = self.clients.of_name(version, name).filter(|known| known.is_gone()) {
            self.remove_client(context, &gone)?;
        }
        self.make_room_for_client(context)
    }

    /// Returns whether another principal may not take the client's name: it has state, and its lease runs.
    fn is_in_use(&self, client: &Client, now: Time) -> bool {
        client.has_state() && client.lease_idle(now) <= self.config.lease
    }

    /// SETCLIENTID_CONFIRM (RFC 7530 section 16.34.5). Probes the client's callback path, so that it can get
    /// delegations.
    ///
    /// # Errors
    /// [`StateError::UnknownClient`], [`StateError::ClientInUse`], and those of the journal.
    pub(crate) fn confirm_client_id(
        &self,
        context: &Context<'_>,
        id: ClientId,
        confirm: [u8; 8],
        principal: Principal,
    ) -> Result<Option<DurabilityToken>, StateError> {
        let mut table = self.clients.0.write();
        let proposed = table.unconfirmed.get(&id).cloned().and_then(|name| {
            let (_, unconfirmed) = table.named(&name);
            let unconfirmed = unconfirmed.filter(|one| confirms(&one.record, confirm)).cloned()?;
            Some((name, unconfirmed))
        });
        let Some((name, unconfirmed)) = proposed else {
            let known = table.confirmed.get(&id).filter(|client| {
                client.inner.lock().callback.as_ref().is_some_and(|(known, _)| *known == confirm)
            });
            return match known {
                Some(client) if client.principal == principal => Ok(client.inner.lock().confirmed),
                Some(_) => Err(StateError::ClientInUse),
                None => Err(StateError::UnknownClient),
            };
        };
        if unconfirmed.record.principal != principal {
            return Err(StateError::ClientInUse);
        }
        let token = context.change_home(&[Key::Client(id).put(&unconfirmed.record)])?;
        let (earlier, _) = table.named(&name);
        let client = match &earlier {
            Some(client) if client.id == id => {
                if let ClientKind::V40 { confirm, callback } = unconfirmed.record.kind {
                    let mut held = client.inner.lock();
                    held.callback = Some((confirm, callback));
                    held.path = crate::state::callbacks::CallbackPath::Unknown;
                }
                table.propose(&name, None);
                Arc::clone(client)
            }
            _ => {
                let client = Arc::new(Client::new(id, &unconfirmed.record, context.now, &self.counters));
                table.confirm(&name, &client);
                client
            }
        };
        drop(table);
        client.inner.lock().confirmed = Some(token);
        client.renew(context.now);
        self.remove_replaced(context, earlier, &client)?;
        self.probe(context, &client);
        Ok(Some(token))
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

    /// EXCHANGE_ID: the cases of RFC 8881 section 18.35.5. `update` is EXCHGID4_FLAG_UPD_CONFIRMED_REC_A.
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
    /// As in the table; [`StateError::TryLater`] if there are too many clients; those of the journal.
    pub(crate) fn exchange_id(
        &self,
        context: &Context<'_>,
        who: &Introduction<'_>,
        minor: u32,
        update: bool,
    ) -> Result<Exchanged, StateError> {
        let now = context.now;
        self.finish_removal(context, ClientProtocol::Sessions, who.name)?;
        let name = (ClientProtocol::Sessions, Box::from(who.name));
        let mut table = self.clients.0.write();
        let (confirmed, _) = table.named(&name);
        let mut replaced = None;
        match (confirmed, update) {
            (None, true) => return Err(StateError::NotConfirmed),
            (None, false) => {}
            (Some(client), _) if client.verifier == who.verifier && client.principal == who.principal => {
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
            (Some(client), false) if client.principal != who.principal => {
                if self.is_in_use(&client, now) {
                    return Err(StateError::ClientInUse);
                }
                replaced = Some(client);
            }
            (Some(_), false) => {}
        }
        if !table.make_room(self.config.clients) {
            return Err(StateError::TryLater);
        }
        let id = self.next_client(now);
        let record = record_of(who, ClientKind::Sessions { minor, created: None, reclaimed: false });
        table.propose(&name, Some(Unconfirmed { id, record, proposed: now }));
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
    /// [`StateError::ChannelTooSmall`], [`StateError::TooManySessions`], and those of the journal.
    pub(crate) fn create_session(
        &self,
        context: &Context<'_>,
        args: &CreateSession,
    ) -> Result<(Arc<Session>, Option<DurabilityToken>), StateError> {
        let mut table = self.clients.0.write();
        let confirmed = table.confirmed.get(&args.client).cloned();
        let confirmed = confirmed.filter(|client| client.version == ClientProtocol::Sessions);
        let proposed = table.unconfirmed.get(&args.client).cloned().and_then(|name| {
            let (_, unconfirmed) = table.named(&name);
            let unconfirmed = unconfirmed.cloned()?;
            (name.0 == ClientProtocol::Sessions).then_some((name, unconfirmed))
        });
        let (last, token) = match (&confirmed, &proposed) {
            (Some(client), _) => {
                let held = client.inner.lock();
                if held.gone {
                    // It is being removed.
                    return Err(StateError::UnknownClient);
                }
                (held.created, held.confirmed)
            }
            (None, Some(_)) => (None, None),
            (None, None) => return Err(StateError::UnknownClient),
        };
        if let Some((_, created)) = last.filter(|(sequence, _)| *sequence == args.sequence) {
            return Ok((self.session(created).map_err(|_| StateError::OutOfSequence)?, token));
        }
        if args.sequence != last.map_or(1, |(sequence, _)| sequence.wrapping_add(1)) {
            return Err(StateError::OutOfSequence);
        }
        if let (None, Some((_, unconfirmed))) = (&confirmed, &proposed)
            && unconfirmed.record.principal != args.principal
        {
            return Err(StateError::ClientInUse);
        }
        let taken = Counters::get(&self.counters.slot_bytes);
        let channels = args.channels.granted(&self.config, taken)?;
        let max = if taken < self.config.slot_bytes { self.config.sessions_per_client } else { 1 };
        if confirmed.as_ref().is_some_and(|client| client.inner.lock().sessions.len() >= max) {
            return Err(StateError::TooManySessions);
        }
        let client = match (&confirmed, &proposed) {
            (Some(client), _) => Arc::clone(client),
            (None, Some((_, unconfirmed))) => {
                Arc::new(Client::new(unconfirmed.id, &unconfirmed.record, context.now, &self.counters))
            }
            (None, None) => return Err(StateError::UnknownClient),
        };
        let (session, token) = self.make_session(context, &client, args, channels)?;
        let mut earlier = None;
        if let (None, Some((name, _))) = (&confirmed, &proposed) {
            (earlier, _) = table.named(name);
            table.confirm(name, &client);
        }
        drop(table);
        client.renew(context.now);
        self.remove_replaced(context, earlier, &client)?;
        self.send_waiting(context, &client);
        Ok((session, Some(token)))
    }

    fn make_session(
        &self,
        context: &Context<'_>,
        client: &Arc<Client>,
        args: &CreateSession,
        channels: Channels,
    ) -> Result<(Arc<Session>, DurabilityToken), StateError> {
        let id = SessionId::new(client.id, self.instance(context.now), self.next_number());
        let CreateSession { flags, program, security, .. } = *args;
        let record = SessionRecord { fore: channels.fore, back: channels.back, flags, program, security };
        let created = Some((args.sequence, id));
        let client_record = {
            let held = client.inner.lock();
            let kind = ClientKind::Sessions { minor: client.minor, created, reclaimed: held.reclaimed };
            ClientRecord { kind, ..client.record(&held) }
        };
        let changes = [Key::Client(client.id).put(&client_record), Key::Session(id).put(&record)];
        let token = context.change_home(&changes)?;
        {
            let mut held = client.inner.lock();
            (held.created, held.confirmed) = (created, Some(token));
        }
        let session = self.insert_session(Session::new(id, client, &record, None), args.connection);
        Ok((session, token))
    }

    /// RECLAIM_COMPLETE for the whole server (RFC 8881 section 18.51).
    ///
    /// # Errors
    /// [`StateError::AlreadyReclaimed`], and those of the journal.
    pub(crate) fn reclaim_complete(
        &self,
        context: &Context<'_>,
        client: &Client,
    ) -> Result<DurabilityToken, StateError> {
        let mut held = client.inner.lock();
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
    /// [`StateError::UnknownClient`]; [`StateError::ClientBusy`] if it has sessions or state; those of the journal.
    pub(crate) fn destroy_client_id(&self, context: &Context<'_>, id: ClientId) -> Result<(), StateError> {
        let mut table = self.clients.0.write();
        if let Some(name) = table.unconfirmed.get(&id).cloned()
            && name.0 == ClientProtocol::Sessions
        {
            table.propose(&name, None);
            return Ok(());
        }
        let client = table.confirmed.get(&id).cloned();
        drop(table);
        let client = client.filter(|client| client.version == ClientProtocol::Sessions);
        let client = client.ok_or(StateError::UnknownClient)?;
        if client.has_state() || self.has_copies(&client) {
            return Err(StateError::ClientBusy);
        }
        self.remove_client(context, &client).map(drop)
    }
}

fn record_of(who: &Introduction<'_>, kind: ClientKind) -> ClientRecord {
    let Introduction { name, verifier, principal } = *who;
    ClientRecord { name: name.into(), verifier, principal, kind }
}

fn confirms(record: &ClientRecord, sent: [u8; 8]) -> bool {
    matches!(&record.kind, ClientKind::V40 { confirm, .. } if *confirm == sent)
}
