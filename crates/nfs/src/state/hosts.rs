//! NLM clients: the lock managers of hosts that use NFSv3 (NLM version 4). Their locks are in the same tables as those
//! of NFSv4. They have no leases: a host keeps its locks until it frees them or says that it restarted.
//!
//! An owner's locks of a file depend on an open of their own, without access, which comes and goes with them. A waiter
//! gets its lock at its turn, and is called then (NLM_GRANTED). If it refuses, or does not answer for a lease, the lock
//! is freed. Calls that report a change leave when it is durable. `hosts/inquiry.rs` asks hosts that may be gone.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use volume::request::Durable;
use volume::time::Time;
use wire::nlm4::Nlm4Stats;

use crate::exports::HostAccess;
use crate::state::clients::client::{Client, ClientProtocol, Host, LockOwner};
use crate::state::clients::owner_sequence::OwnerSequence;
use crate::state::files::OpenRequest;
use crate::state::files::share::{Mode, Modes};
use crate::state::ids::{FileId, StateId};
use crate::state::locks::ranges::{LockKind, Range};
use crate::state::locks::waiters::Waiter;
use crate::state::locks::{LockError, LockRequest, Locker};
use crate::state::record::{
    ClientKind, ClientRecord, Key, MonitorRecord, NAME_BYTES_MAX, Principal, address_bytes,
};
use crate::state::shares::Resource;
use crate::state::stateids::entry::StateEntry;
use crate::state::{Context, DurabilityToken, SharedState, StateError};

mod grants;
mod inquiry;
mod message;

use grants::{Grant, Grants};
use inquiry::Inquiries;
use message::MessageKind;
pub(crate) use message::{Message, nlm_range};

/// The interval between repetitions of an unanswered call.
const AGAIN: Duration = Duration::from_secs(5);
/// How long to try to notify a host that this server restarted.
const NOTICE: Duration = Duration::from_secs(15 * 60);
/// When to check again whether something is durable.
const SOON: Duration = Duration::from_millis(2);

/// Bytes at the start of an NLM client's name: the address, and whether it calls from a privileged port.
const ORIGIN_BYTES: usize = 17;

/// Where a call of NLM comes from. Programs of unprivileged users can call from the same host, but not from a privileged
/// port: what they hold is not what the host's lock manager holds, even under the same name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Origin {
    pub(crate) address: IpAddr,
    /// Whether the port is privileged.
    pub(crate) privileged: bool,
}

impl Origin {
    /// Returns the name in the table of clients.
    fn name(self, caller_name: &[u8]) -> Vec<u8> {
        [&address_bytes(self.address)[..], &[u8::from(self.privileged)], caller_name].concat()
    }
}

/// Calls to hosts, by when they are due.
#[derive(Debug, Default)]
struct MessageQueue {
    by_due: BTreeMap<(Time, u64), Message>,
    next: u64,
}

impl MessageQueue {
    fn push(&mut self, message: Message) {
        self.next += 1;
        self.by_due.insert((message.due, self.next), message);
    }

    fn first_due(&self) -> Option<Time> {
        self.by_due.first_key_value().map(|((due, _), _)| *due)
    }

    /// Takes those that are due.
    fn take_due(&mut self, now: Time) -> Vec<Message> {
        let by_due = &mut self.by_due;
        let mut next = || Some(by_due.first_entry().filter(|first| first.key().0 <= now)?.remove());
        std::iter::from_fn(&mut next).collect()
    }
}

/// Calls to hosts, and this server's status monitor.
#[derive(Debug, Default)]
pub(super) struct Hosts {
    /// The state of the monitor: odd, and larger with each start; 0 until it is known.
    monitor: AtomicU32,
    /// Whether a record has it.
    recorded: AtomicBool,
    queue: Mutex<MessageQueue>,
    pub(super) grants: Grants,
    inquiries: Inquiries,
}

/// The process of a host that makes a request, and the file. Its number and the host's name for it (`svid`, `oh`) are
/// the name of the lock owner.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Requester<'a> {
    pub(crate) client: &'a Arc<Client>,
    pub(crate) file: FileId,
    /// The name, see [`owner_name`].
    pub(crate) owner: &'a [u8],
}

/// Returns the name of a lock owner.
pub(crate) fn owner_name(svid: u32, oh: &[u8]) -> Box<[u8]> {
    [&svid.to_be_bytes()[..], oh].concat().into()
}

/// Returns the `svid` and `oh` of a lock owner's name.
pub(crate) fn owner_of(name: &[u8]) -> (u32, &[u8]) {
    match name.split_first_chunk() {
        Some((svid, oh)) => (u32::from_be_bytes(*svid), oh),
        None => (0, name),
    }
}

/// Returns the name of the open owner of locks, or of shares.
fn open_name(tag: u8, owner: &[u8]) -> Box<[u8]> {
    [&[tag], owner].concat().into()
}

/// Checks that records can hold the names of an owner's opens; otherwise a restart would lose them.
///
/// # Errors
/// [`StateError::LimitReached`].
fn check_owner(name: &[u8]) -> Result<(), StateError> {
    if open_name(b'L', name).len() > NAME_BYTES_MAX { Err(StateError::LimitReached) } else { Ok(()) }
}

/// Returns whether two names are of one host, with or without a domain.
fn same_host(one: &[u8], other: &[u8]) -> bool {
    let beneath = |long: &[u8], short: &[u8]| {
        long.get(..short.len()).is_some_and(|front| front.eq_ignore_ascii_case(short))
            && matches!(long.get(short.len()), None | Some(b'.'))
    };
    beneath(one, other) || beneath(other, one)
}

impl Client {
    /// Returns an NLM client's name for itself (`caller_name`).
    pub(crate) fn caller_name(&self) -> &[u8] {
        self.name.get(ORIGIN_BYTES..).unwrap_or_default()
    }

    /// Returns whether the client calls from privileged ports, as its name says.
    pub(crate) fn is_privileged(&self) -> bool {
        let at = if self.host.is_some() { ORIGIN_BYTES - 1 } else { 0 };
        self.name.get(at) == Some(&1)
    }
}

impl SharedState {
    /// Queues a call, or drops it if its host has its share of calls; never a grant. Returns whether it is queued.
    fn push_call(&self, message: Message) -> bool {
        let host = message.host();
        let counted = message.counted(|| Arc::new(self.shares.origin_of(host)));
        counted.map(|message| self.hosts.queue.lock().push(message)).is_some()
    }

    /// Returns the state of this server's status monitor.
    pub(crate) fn monitor_state(&self) -> i32 {
        self.hosts.monitor.load(Ordering::Relaxed).max(1).cast_signed()
    }

    /// Returns the known client `name` at a host.
    pub(crate) fn known_host(
        &self,
        context: &Context<'_>,
        origin: Origin,
        name: &[u8],
    ) -> Option<Arc<Client>> {
        let client = self.clients.of_name(ClientProtocol::Nlm, &origin.name(name), origin.address)?;
        client.renew(context.now);
        Some(client)
    }

    /// Returns the client `name` at a host, creating it if necessary. If its status monitor counts further than before,
    /// the host restarted and its old state is freed.
    ///
    /// # Errors
    /// [`StateError::LimitReached`] if there are too many clients or the name is too long, and those of the journal.
    pub(crate) fn host(
        &self,
        context: &Context<'_>,
        (host, privileged): (Host, bool),
        name: &[u8],
    ) -> Result<Arc<Client>, StateError> {
        let origin = Origin { address: host.address, privileged };
        if name.len() + ORIGIN_BYTES > NAME_BYTES_MAX {
            return Err(StateError::LimitReached);
        }
        if let Some(known) = self.known_host(context, origin, name) {
            let before = known.host.map_or(0, |host| host.state);
            let later = before != 0 && host.state != 0 && host.state.wrapping_sub(before) > 0;
            if !later && !known.is_gone() {
                return Ok(known);
            }
            self.remove_client(context, &known)?;
        }
        let beside = self.clients.at(host.address);
        if beside.iter().filter(|client| client.is_privileged() == privileged).count()
            >= self.config.names_per_host
        {
            return Err(StateError::LimitReached);
        }
        let holder = self.shares.holder(host.address);
        let _room = self.make_room(context, &holder, [(Resource::Clients, 1)])?;
        let name = origin.name(name);
        self.clients.enter(ClientProtocol::Nlm, (&name, host.address), &holder, || {
            let id = self.next_client(context.now);
            let record = ClientRecord {
                name: name.clone().into(),
                verifier: [0; 8],
                principal: Principal::None,
                instance: self.instance(context.now),
                addresses: Box::default(),
                kind: ClientKind::Nlm(host),
            };
            let mut changes = vec![Key::Client(id).put(&record)];
            if !self.hosts.recorded.load(Ordering::Relaxed) {
                let state = self.monitor_state().cast_unsigned();
                changes.push(Key::Monitor.put(&MonitorRecord { state }));
            }
            let token = context.change_home(&changes)?;
            self.hosts.recorded.store(true, Ordering::Relaxed);
            let client = Client::new(id, &record, context.now, Arc::clone(&holder));
            // It is new, so the cell is empty.
            let _ = client.recorded.set(token);
            Ok(Arc::new(client))
        })
    }

    /// NSM's NOTIFY, from a privileged port: frees what a restarted host held. That concerns its clients of this name, or all
    /// if it is known by another name, except those that came after the restart.
    ///
    /// # Errors
    /// Those of the journal.
    pub(crate) fn host_restarted(
        &self,
        context: &Context<'_>,
        address: IpAddr,
        name: &[u8],
        state: i32,
    ) -> Result<Option<DurabilityToken>, StateError> {
        let there = self.clients.at(address);
        let named: Vec<_> =
            there.iter().filter(|client| same_host(client.caller_name(), name)).cloned().collect();
        let came_after = |client: &Client| client.host.is_some_and(|host| host.state == state && state != 0);
        let mut before = if named.is_empty() { there } else { named };
        before.retain(|client| !came_after(client));
        self.remove_clients(context, &before)
    }

    /// FREE_ALL: frees all that a client holds.
    ///
    /// # Errors
    /// Those of the journal.
    pub(crate) fn free_all(
        &self,
        context: &Context<'_>,
        origin: Origin,
        name: &[u8],
    ) -> Result<Option<DurabilityToken>, StateError> {
        let client = self.known_host(context, origin, name);
        client.map(|client| self.remove_client(context, &client)).transpose()
    }

    /// LOCK. A reclaim finds its lock, as a restart loses nothing.
    ///
    /// # Errors
    /// Those of [`SharedState::lock`]; [`StateError::NothingToReclaim`].
    pub(crate) fn lock_for_host(
        &self,
        context: &Context<'_>,
        requester: Requester<'_>,
        wanted: &LockRequest,
        reclaim: bool,
    ) -> Result<DurabilityToken, LockError> {
        let Requester { client, file, owner: name } = requester;
        check_owner(name)?;
        drop(self.check_delegations(context, None, file, wanted.kind.into())?);
        let sequence = || OwnerSequence::restored(context.now, true);
        let owner = self.lock_owner(client, name, sequence)?;
        let opener = client.open_owner(&open_name(b'L', name), sequence);
        let stateid = StateId { seqid: 1, other: self.next_other(client) };
        let open = StateEntry::open(client, file, stateid, &opener, Modes::NOTHING, false);
        let locker = Locker::New { open: &open, owner: &owner };
        if reclaim && !self.has_lock(locker, wanted) {
            return Err(StateError::NothingToReclaim.into());
        }
        let (_, token) = self.lock(context, locker, wanted)?;
        self.hosts.grants.mark_known(&owner, file, context.now);
        Ok(token)
    }

    /// UNLOCK: frees all of the range that the owner has locked.
    ///
    /// # Errors
    /// Those of the journal.
    pub(crate) fn unlock_for_host(
        &self,
        context: &Context<'_>,
        requester: Requester<'_>,
        range: Range,
    ) -> Result<Option<DurabilityToken>, StateError> {
        match requester.client.known_lock_owner(requester.owner) {
            Some(owner) => {
                let unlocked = self.unlock_owner(context, requester.file, &owner, range)?;
                self.hosts.grants.forget(&owner, requester.file, range);
                Ok(unlocked)
            }
            None => Ok(None),
        }
    }

    fn unlock_owner(
        &self,
        context: &Context<'_>,
        file: FileId,
        owner: &Arc<LockOwner>,
        range: Range,
    ) -> Result<Option<DurabilityToken>, StateError> {
        let mut files = self.files.write(&file);
        let Some(state) = files.get_mut(&file) else { return Ok(None) };
        let freed = state.waiters.remove(|waiter| waiter.owner == *owner && waiter.range.overlaps(range));
        self.wake(context, state, file, freed);
        let Some(entry) = state.lock_states.of(owner).cloned() else { return Ok(None) };
        let held = state.locks.extent(owner);
        if held.is_some_and(|held| held.first < range.first || held.last > range.last) {
            return self.unlock_held(context, state, &entry, range).map(Some);
        }
        let open = entry.as_locks().map(|locks| Arc::clone(&locks.open));
        let open = open.ok_or(StateError::BadStateId)?;
        self.close_held(context, &mut files, &open).map(Some)
    }

    /// CANCEL: ends a wait. A grant that the owner may not have heard of is freed.
    ///
    /// # Errors
    /// Those of the journal.
    pub(crate) fn cancel(
        &self,
        context: &Context<'_>,
        requester: Requester<'_>,
        range: Range,
    ) -> Result<(bool, Option<DurabilityToken>), StateError> {
        let Requester { client, file, owner } = requester;
        let Some(owner) = client.known_lock_owner(owner) else { return Ok((false, None)) };
        let mut files = self.files.write(&file);
        if let Some(state) = files.get_mut(&file) {
            let freed = state.waiters.remove(|waiter| waiter.owner == owner && waiter.range == range);
            if freed.is_some() {
                self.wake(context, state, file, freed);
                return Ok((true, None));
            }
        }
        drop(files);
        match self.hosts.grants.of_range(&owner, file, range) {
            Some(grant) => Ok((true, self.return_grant(context, &grant)?)),
            None => Ok((false, None)),
        }
    }

    fn return_grant(
        &self,
        context: &Context<'_>,
        grant: &Grant,
    ) -> Result<Option<DurabilityToken>, StateError> {
        let token = self.unlock_owner(context, grant.open.file, &grant.owner, grant.range)?;
        self.hosts.grants.remove(grant);
        Ok(token)
    }

    /// SHARE: an open with a share reservation. A further one of the same owner is added to it.
    ///
    /// # Errors
    /// Those of [`SharedState::open`]; [`StateError::NothingToReclaim`].
    pub(crate) fn share(
        &self,
        context: &Context<'_>,
        requester: Requester<'_>,
        mode: Mode,
        reclaim: bool,
    ) -> Result<Option<DurabilityToken>, StateError> {
        let Requester { client, file, owner } = requester;
        check_owner(owner)?;
        let name = open_name(b'S', owner);
        self.check_room(client, client.known_open_owner(&name).is_none().then_some(&*name))?;
        let owner = client.open_owner(&name, || OwnerSequence::restored(context.now, true));
        let opening = OpenRequest { client, owner: &owner, mode };
        if reclaim {
            let files = self.files.read(&file);
            let own = files
                .get(&file)
                .and_then(|state| state.opens.of_owner(client, &owner))
                .and_then(|own| own.mode());
            if own.is_none_or(|own| !own.covers(mode)) {
                return Err(StateError::NothingToReclaim);
            }
        }
        Ok(self.hold_and_open(context, file, &opening)?.token)
    }

    /// UNSHARE: ends all share reservations of an owner.
    ///
    /// # Errors
    /// Those of the journal.
    pub(crate) fn unshare(
        &self,
        context: &Context<'_>,
        requester: Requester<'_>,
    ) -> Result<Option<DurabilityToken>, StateError> {
        let Requester { client, file, owner } = requester;
        let Some(owner) = client.known_open_owner(&open_name(b'S', owner)) else { return Ok(None) };
        let own =
            self.files.read(&file).get(&file).and_then(|state| state.opens.of_owner(client, &owner).cloned());
        match own.map(|own| self.close(context, &own)) {
            Some(Ok((_, token))) => Ok(Some(token)),
            Some(Err(error @ StateError::Engine(_))) => Err(error),
            // Another call closed it meanwhile.
            None | Some(Err(_)) => Ok(None),
        }
    }

    /// Calls a host with the result of a message (`*_RES`), when that is durable.
    pub(crate) fn call_back(
        &self,
        context: &Context<'_>,
        host: IpAddr,
        procedure: u32,
        args: Vec<u8>,
        after: Option<DurabilityToken>,
    ) {
        self.push_call(Message::result(context.now, host, procedure, args, after));
        self.wake_driver();
    }

    /// Calls a host whose waiter got a lock.
    pub(super) fn send_granted(
        &self,
        context: &Context<'_>,
        waiter: &Waiter,
        open: &Arc<StateEntry>,
        token: DurabilityToken,
    ) {
        let grant = Arc::new(Grant::new(waiter, open, context.now));
        self.hosts.grants.add(&grant);
        self.push_call(Message::granted(&grant, token));
        self.wake_driver();
    }

    /// Sends the calls that are due. Returns when to look again.
    pub(super) fn tick_nlm(&self, context: &Context<'_>) -> Duration {
        let now = context.now;
        let mut later = Vec::new();
        let due = self.hosts.queue.lock().take_due(now);
        for mut message in due {
            match message.after.map_or(Durable::Yes, |token| context.store.durability(token)) {
                // The change that it reports is lost.
                Durable::Failed => {}
                Durable::NotYet => {
                    message.due = now.plus(SOON);
                    later.push(message);
                }
                // The exports have changed since.
                Durable::Yes if !is_admitted(context, &message) => self.drop_unadmitted(context, message),
                Durable::Yes => self.call_host(context, message),
            }
        }
        let mut queue = self.hosts.queue.lock();
        later.into_iter().for_each(|message| queue.push(message));
        let soon = queue.first_due().map_or(Duration::MAX, |due| due.since(now));
        drop(queue);
        soon
    }

    /// Drops a call to a host that is no longer admitted, and frees the lock that the call would have announced.
    fn drop_unadmitted(&self, context: &Context<'_>, message: Message) {
        match message.grant().map(|grant| self.refused(context, grant)) {
            Some(Ok(())) => {}
            // If the journal does not take it, it is tried again.
            Some(Err(_)) | None => self.nlm_failed(context, message),
        }
    }

    /// Handles a host's answer.
    pub(super) fn nlm_answered(&self, context: &Context<'_>, message: Message, record: &[u8]) {
        match (&message.kind, message.status(record)) {
            (_, None) | (MessageKind::Granted(_), Some(Nlm4Stats::DeniedGracePeriod)) => {
                self.nlm_failed(context, message);
            }
            (MessageKind::Granted(grant), Some(Nlm4Stats::Granted)) => {
                self.hosts.grants.mark(grant, context.now)
            }
            // If the journal does not take it, the call is repeated.
            (MessageKind::Granted(grant), Some(_)) => {
                if self.refused(context, grant).is_err() {
                    self.nlm_failed(context, message);
                }
            }
            (MessageKind::Inquiry, Some(_)) => self.host_answered(context, message.host()),
            (MessageKind::Result | MessageKind::Restarted, Some(_)) => {}
        }
    }

    /// Frees a grant that the owner refused, or could not be told of.
    fn refused(&self, context: &Context<'_>, grant: &Grant) -> Result<(), StateError> {
        if grant.is_known() {
            return Ok(());
        }
        self.return_grant(context, grant).map(drop)
    }

    /// Repeats an unanswered call, for a while.
    pub(super) fn nlm_failed(&self, context: &Context<'_>, mut message: Message) {
        let tried = context.now.since(message.first_due);
        let over = match &message.kind {
            // The host repeats its own request if no result arrives.
            MessageKind::Result => true,
            MessageKind::Granted(grant) if grant.is_known() => true,
            MessageKind::Granted(grant) => tried > self.config.lease && self.refused(context, grant).is_ok(),
            MessageKind::Inquiry => {
                tried > self.config.lease && self.give_up_host(context, message.host()).is_ok()
            }
            MessageKind::Restarted => tried > NOTICE || !context.store.admits(message.host()),
        };
        if !over {
            message.due = context.now.plus(AGAIN);
            self.push_call(message);
        }
    }

    /// After a start: advances the NSM state number, and notifies all hosts, so that they ask again for what they wait
    /// for.
    pub(super) fn start_monitor(&self, context: &Context<'_>, recorded: Option<u32>) {
        let Some(before) = recorded else { return };
        let state = (before | 1).wrapping_add(2);
        self.hosts.monitor.store(state, Ordering::Relaxed);
        // If the journal does not take it, the next new host writes it.
        let token = context.change_home(&[Key::Monitor.put(&MonitorRecord { state })]);
        self.hosts.recorded.store(token.is_ok(), Ordering::Relaxed);
        let mut hosts: Vec<(IpAddr, IpAddr)> = self
            .clients
            .all()
            .iter()
            .filter_map(|client| client.host)
            .map(|host| (host.address, host.server))
            .collect();
        hosts.sort_unstable();
        hosts.dedup();
        for (host, server) in hosts {
            self.push_call(Message::restarted(context.now, host, server, self.monitor_state()));
        }
    }
}

/// Returns whether a host may be told: of a grant, if it may still have such a lock there; of anything else, if any export admits it.
fn is_admitted(context: &Context<'_>, message: &Message) -> bool {
    match message.grant() {
        Some(grant) => {
            let (client, volume) = (&grant.open.client, grant.open.file.volume);
            let access = context.store.access(message.host(), client.is_privileged(), volume);
            match grant.kind {
                LockKind::Read => access != HostAccess::None,
                LockKind::Write => access == HostAccess::Write,
            }
        }
        None => context.store.admits(message.host()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_are_known_with_and_without_their_domain() {
        assert!(same_host(b"one", b"one.example.org") && same_host(b"ONE.example.org", b"one"));
        assert!(!same_host(b"one", b"onerous") && !same_host(b"one.a", b"one.b"));
    }

    #[test]
    fn owner_names_contain_their_process() {
        assert_eq!(owner_of(&owner_name(7, b"7@one")), (7, &b"7@one"[..]));
        assert_eq!(owner_of(b""), (0, &b""[..]));
    }
}
