//! Calls to clients: CB_NULL, CB_RECALL, CB_NOTIFY_LOCK, CB_OFFLOAD. NFSv4.0 clients are called over a connection that
//! the server makes, later ones over the backchannel of a session (RFC 8881 section 2.10.3.1).
//!
//! A call is encoded when it can be sent, queued for the driver of the service, and matched to its reply by its xid.
//! A call waits while no backchannel is bound or all its slots are in use. Recalls are repeated until the delegation
//! is returned or revoked, and CB_OFFLOAD until it is answered.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use parking_lot::{Mutex, RwLock};
use volume::time::Time;
use wire::nfs4::NfsStat4;
use wire::portmap::parse_universal_address;
use wire::rpc::{AcceptStat, ReplyBody, ReplyHeader};
use wire::xdr::{Decode, Decoder};

use crate::connection::ConnectionId;
use crate::state::callbacks::outgoing::{Callback, Destination};

use crate::state::clients::client::{Client, ClientProtocol, ClientState, LockOwner};
use crate::state::config::Counters;
use crate::state::copies::CopyJob;
use crate::state::hosts::Message;
use crate::state::ids::{ClientId, FileId, SessionId};
use crate::state::sessions::Session;
use crate::state::shares::{Held, Resource};
use crate::state::stateids::entry::{Delegation, StateEntry};
use crate::state::{Context, SharedState};

mod message;

use message::{Body, Call};

pub(crate) mod outgoing;

/// Interval between checks of whether waiting calls can be sent.
const LOOK: Duration = Duration::from_secs(1);

/// How long to wait before probing an NFSv4.0 client again that a call did not reach: twice as long after each further failure.
const PATH_REST_MIN: Duration = Duration::from_secs(1);
const PATH_REST_MAX: Duration = Duration::from_secs(60);

/// How many times as long as a probe the pause after it is.
const PROBE_PAUSE: u32 = 9;

/// Memory of a call without names, in bytes.
const CALL_BYTES: usize = 1024;

/// The statuses that say that a backchannel is unusable.
const BACK_FAULTS: [u32; 2] = [NfsStat4::SeqMisordered.code(), NfsStat4::BadSession.code()];
/// The client asks for a repetition. Or it answered a call of this sequence before the server restarted; from the next
/// one on, both count alike.
const AGAIN: [u32; 3] =
    [NfsStat4::Delay.code(), NfsStat4::RetryUncachedRep.code(), NfsStat4::SeqFalseRetry.code()];

/// Whether callbacks reach a client of NFSv4.0.
///
/// ```text
///      ┌─── not sent ───┐
///      ▼     probe      │         answered
///   Unknown ────────▶ Probing ─────────────────▶ Up
///      ▲               │  ▲ probe, after a rest  │ a call failed
///      │               ▼  │                      │
///      └── confirmed ─ Down ◀────────────────────┘
/// ```
///
/// A client that was cut off need not know that a call to it failed, so it does not confirm its address again. It is probed again
/// when it opens a file, see [`PathRest`]. So is one that confirms its address again during a probe, or right after one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CallbackPath {
    /// Not tried yet.
    Unknown,
    /// CB_NULL is being sent.
    Probing,
    /// It answered.
    Up,
    /// It did not answer, or cannot be called.
    Down,
}

/// When to probe an NFSv4.0 client again that a call did not reach. Most such clients can never be called, for example behind a
/// firewall, so they are probed less and less often.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PathRest {
    /// Not before this.
    until: Time,
    /// How long it rests after the next failure.
    next: Duration,
    /// When the last probe began.
    probed: Time,
    /// A client that confirmed its address again is not probed before this.
    paused: Time,
}

impl Default for PathRest {
    fn default() -> PathRest {
        PathRest { until: Time::EPOCH, next: PATH_REST_MIN, probed: Time::EPOCH, paused: Time::EPOCH }
    }
}

impl PathRest {
    /// Returns what follows a failure.
    fn after_failure(self, now: Time) -> PathRest {
        PathRest { until: now.plus(self.next), next: (2 * self.next).min(PATH_REST_MAX), ..self }
    }

    /// Returns what follows a probe, which may have failed: a pause that is [`PROBE_PAUSE`] times as long as the probe, up to a second.
    /// Without it, a client that answers slowly, and confirms its address all the time, would be called all the time. After a quick
    /// answer it is short, since Linux confirms its address twice when it mounts.
    fn after_probe(self, now: Time) -> PathRest {
        let pause = now.since(self.probed).saturating_mul(PROBE_PAUSE).min(PATH_REST_MIN);
        PathRest { paused: now.plus(pause), ..self }
    }

    /// Returns whether a client that has confirmed its address again may be probed.
    fn has_paused(self, now: Time) -> bool {
        // The clock may have been set back.
        self.paused <= now || now.plus(PATH_REST_MIN) < self.paused
    }

    /// Returns whether it is over.
    fn is_over(self, now: Time) -> bool {
        // The clock may have been set back.
        self.until <= now || now.plus(PATH_REST_MAX) < self.until
    }
}

/// What to call a client for.
#[derive(Clone, Debug)]
enum Job {
    /// Whether it answers.
    Probe,
    /// A delegation is recalled.
    Recall(Arc<StateEntry>),
    /// A lock of this owner may be free now; the file's handle.
    NotifyLock { handle: Box<[u8]>, owner: Arc<LockOwner> },
    /// A copy has ended.
    Offload(Arc<CopyJob>),
    /// A call of NLM or NSM.
    Nlm(Box<Message>),
}

impl Job {
    /// Returns the memory of the call, in bytes.
    fn bytes(&self) -> usize {
        match self {
            Job::NotifyLock { handle, owner } => CALL_BYTES + handle.len() + owner.name().len(),
            Job::Probe | Job::Recall(_) | Job::Offload(_) | Job::Nlm(_) => CALL_BYTES,
        }
    }
}

/// A call without a reply so far.
#[derive(Debug)]
struct Pending {
    client: ClientId,
    /// The slot of the backchannel that it uses.
    slot: Option<(SessionId, usize)>,
    /// For NFSv4.0, the verifier that confirmed the address to which it goes.
    confirmed: Option<[u8; 8]>,
    to: Destination,
    job: Job,
    /// When it is given up.
    due: Time,
    /// Counts its memory; none for messages that count themselves.
    held: Option<Held>,
}

#[derive(Debug, Default)]
struct Inner {
    ready: Vec<Callback>,
    pending: BTreeMap<u32, Pending>,
    /// When they are given up.
    late: BTreeSet<(Time, u32)>,
    /// Calls that wait for a backchannel, with their counted memory.
    waiting: BTreeMap<ClientId, VecDeque<(Job, Held)>>,
    /// When it was last checked whether they can be sent.
    looked: Time,
    xid: u32,
}

impl Inner {
    fn insert(&mut self, xid: u32, pending: Pending) {
        self.late.insert((pending.due, xid));
        self.pending.insert(xid, pending);
    }

    fn take(&mut self, xid: u32) -> Option<Pending> {
        let pending = self.pending.remove(&xid)?;
        self.late.remove(&(pending.due, xid));
        Some(pending)
    }

    /// Takes a call that is late.
    fn take_late(&mut self, now: Time) -> Option<Pending> {
        let (_, xid) = *self.late.first().filter(|(due, _)| *due < now)?;
        self.take(xid)
    }
}

/// A slot of a session's backchannel that is reserved for a call, and where the call goes.
type BackSlotTaken = (Arc<Session>, usize, Destination);

pub(crate) type Notify = Box<dyn Fn() + Send + Sync>;

/// All calls.
#[derive(Default)]
pub(super) struct Callbacks {
    inner: Mutex<Inner>,
    notify: RwLock<Option<Notify>>,
    /// How many sessions were looked at for a free slot.
    #[cfg(test)]
    pub(super) looked_at: std::sync::atomic::AtomicUsize,
}

impl fmt::Debug for Callbacks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.lock().fmt(f)
    }
}

impl Callbacks {
    /// Sends a call.
    fn send(&self, pending: Pending, encode: impl FnOnce(u32) -> Vec<u8>) {
        let mut inner = self.inner.lock();
        inner.xid = inner.xid.wrapping_add(1);
        let xid = inner.xid;
        inner.ready.push(Callback { id: u64::from(xid), to: pending.to, record: encode(xid) });
        inner.insert(xid, pending);
        drop(inner);
        if let Some(notify) = &*self.notify.read() {
            notify();
        }
    }

    /// Queues a call that cannot be sent now.
    fn wait(&self, client: ClientId, job: Job, held: Held) {
        self.inner.lock().waiting.entry(client).or_default().push_back((job, held));
    }

    /// Puts a call back that was taken from the queue and cannot be sent now.
    fn wait_again(&self, client: ClientId, waiting: (Job, Held)) {
        self.inner.lock().waiting.entry(client).or_default().push_front(waiting);
    }

    /// Returns whether calls to a client wait.
    fn has_waiting(&self, client: ClientId) -> bool {
        self.inner.lock().waiting.contains_key(&client)
    }

    /// Takes the call to a client that has waited longest.
    fn take_waiting(&self, client: ClientId) -> Option<(Job, Held)> {
        match self.inner.lock().waiting.entry(client) {
            Entry::Occupied(mut queue) => {
                let first = queue.get_mut().pop_front();
                if queue.get().is_empty() {
                    queue.remove();
                }
                first
            }
            Entry::Vacant(_) => None,
        }
    }

    fn take_pending(&self, id: u64) -> Option<Pending> {
        self.inner.lock().take(u32::try_from(id).ok()?)
    }

    /// Returns the number of calls without a reply.
    pub(super) fn len(&self) -> usize {
        self.inner.lock().pending.len()
    }
}

/// A reply to a callback.
enum Answered {
    /// The status of the results.
    Status(u32),
    /// It was refused, or cannot be decoded.
    Failed,
}

impl SharedState {
    /// Takes the calls to send.
    pub(crate) fn take_callbacks(&self) -> Vec<Callback> {
        std::mem::take(&mut self.callbacks.inner.lock().ready)
    }

    /// Sets the function to call when there are calls to send. Any thread calls it, with locks held.
    pub(crate) fn on_callbacks(&self, notify: Notify) {
        *self.callbacks.notify.write() = Some(notify);
    }

    /// Recalls a delegation, unless the client was notified or is being notified.
    pub(super) fn call_recall(&self, context: &Context<'_>, entry: &Arc<StateEntry>) {
        if entry.as_delegation().is_some_and(Delegation::begin_notify) {
            self.call(context, &entry.client, Job::Recall(Arc::clone(entry)));
        }
    }

    /// Notifies a client that a lock it waits for may be free. NFSv4.0 clients have to poll.
    pub(super) fn notify_lock(&self, context: &Context<'_>, file: FileId, owner: &Arc<LockOwner>) {
        let client = self.clients.confirmed(owner.client());
        if let Some(client) = client.filter(|client| client.version == ClientProtocol::Sessions)
            && self.can_be_called(&client)
        {
            let job = Job::NotifyLock { handle: context.store.handle(file), owner: Arc::clone(owner) };
            self.call(context, &client, job);
        }
    }

    /// Tests whether an NFSv4.0 client can be called, unless that was tested. If it could not be called, tests that again once in
    /// a while.
    pub(super) fn probe(&self, context: &Context<'_>, client: &Arc<Client>) {
        let begins = {
            let mut held = client.inner.lock();
            let begins = match held.path {
                CallbackPath::Unknown => held.path_rest.has_paused(context.now),
                CallbackPath::Down => held.path_rest.is_over(context.now),
                CallbackPath::Probing | CallbackPath::Up => false,
            };
            if begins {
                held.path = CallbackPath::Probing;
                held.path_rest.probed = context.now;
            }
            begins
        };
        if begins {
            self.call(context, client, Job::Probe);
        }
    }

    /// Tells a client that a copy has ended.
    pub(super) fn call_offload(&self, context: &Context<'_>, copy: &Arc<CopyJob>) {
        self.call(context, &copy.client, Job::Offload(Arc::clone(copy)));
    }

    fn call(&self, context: &Context<'_>, client: &Arc<Client>, job: Job) {
        let bytes = job.bytes() as u64;
        let Some(held) = Held::within_share(&client.holder, Resource::CallBytes, bytes) else {
            return self.had_no_room(context, client, &job);
        };
        Counters::up(&self.counters.callbacks_sent);
        match client.version {
            ClientProtocol::V40 => self.call_v40(context, client, job, held),
            // `hosts.rs` makes its calls.
            ClientProtocol::Nlm => {}
            ClientProtocol::Sessions => self.call_session(context, client, job, held),
        }
    }

    /// Notes that the server had no room for a call, which is not the client's fault. The call is repeated later; clients ask for
    /// their locks by themselves. The client has a lease to return a delegation from when it is told, at most four leases after the
    /// recall, unless what is in the way are unanswered calls to its own origin: an origin must not gain time by not answering.
    fn had_no_room(&self, context: &Context<'_>, client: &Client, job: &Job) {
        match job {
            Job::Probe => client.inner.lock().path = CallbackPath::Unknown,
            Job::Recall(entry) if client.holder.held_by_origin(Resource::CallBytes) == 0 => {
                self.recalls.put_off_untold(entry, context.now, self.config.lease);
            }
            Job::Recall(_) | Job::NotifyLock { .. } | Job::Offload(_) | Job::Nlm(_) => {}
        }
        self.repeat(context, job);
    }

    /// Has a later tick repeat a call, if that matters.
    fn repeat(&self, context: &Context<'_>, job: &Job) {
        match job {
            Job::Recall(entry) => {
                entry.as_delegation().into_iter().for_each(Delegation::notify_failed);
                self.recalls.tell_again(entry, context.now);
            }
            Job::Offload(copy) => copy.notify_failed(),
            Job::Probe | Job::NotifyLock { .. } | Job::Nlm(_) => {}
        }
    }

    fn call_v40(&self, context: &Context<'_>, client: &Arc<Client>, job: Job, held: Held) {
        let mut state = client.inner.lock();
        let callback = state.callback.clone();
        let address = callback.as_ref().and_then(|(_, to)| callback_address(&to.netid, &to.address));
        let (Some((confirmed, callback)), Some(address)) = (callback, address) else {
            set_path(&mut state, CallbackPath::Down, context.now);
            drop(state);
            return self.repeat(context, &job);
        };
        drop(state);
        let call = Call {
            program: callback.program,
            ident: callback.ident,
            security: crate::state::record::CallbackSecurity::None,
            sequence: None,
        };
        let to = Destination::Address(address);
        let body = self.body(context, &job);
        let due = self.given_up(context, to);
        let (client, confirmed, held) = (client.id, Some(confirmed), Some(held));
        let pending = Pending { client, slot: None, confirmed, to, job, due, held };
        self.callbacks.send(pending, |xid| call.encode(xid, &body));
    }

    /// Sends a call in a slot of a session, or queues it. While others wait, there is no slot to look for.
    fn call_session(&self, context: &Context<'_>, client: &Arc<Client>, job: Job, held: Held) {
        let slot = if self.callbacks.has_waiting(client.id) { None } else { self.free_back_slot(client) };
        match (slot, job) {
            (Some(slot), job) => self.call_in_slot(context, client, slot, (job, held)),
            (None, Job::Offload(copy)) => copy.notify_failed(),
            (None, job) => self.callbacks.wait(client.id, job, held),
        }
    }

    fn call_in_slot(
        &self,
        context: &Context<'_>,
        client: &Client,
        (session, slot, to): BackSlotTaken,
        (job, held): (Job, Held),
    ) {
        let back = session.inner.lock();
        let last = back.slots.get(slot).map_or(0, |slot| slot.last);
        let sequence = message::Sequence {
            minor: client.minor,
            session: session.id,
            sequence: last.wrapping_add(1),
            slot: u32::try_from(slot).unwrap_or(0),
            highest: u32::try_from(back.slots.len().saturating_sub(1)).unwrap_or(0),
        };
        let call =
            Call { program: back.program, ident: 0, security: back.security, sequence: Some(sequence) };
        drop(back);
        let body = self.body(context, &job);
        let slot = Some((session.id, slot));
        let due = self.given_up(context, to);
        let (client, held) = (client.id, Some(held));
        let pending = Pending { client, slot, confirmed: None, to, job, due, held };
        self.callbacks.send(pending, |xid| call.encode(xid, &body));
    }

    /// Reserves a slot of a session with a bound connection.
    fn free_back_slot(&self, client: &Client) -> Option<BackSlotTaken> {
        let sessions = client.inner.lock().sessions.clone();
        sessions.iter().filter_map(|id| self.session(*id).ok()).find_map(|session| {
            #[cfg(test)]
            self.callbacks.looked_at.fetch_add(1, Ordering::Relaxed);
            let mut back = session.inner.lock();
            let connection = *back.connections.last()?;
            let index = back.slots.iter().position(|slot| !slot.taken)?;
            if session.back_fault.load(Ordering::Relaxed) {
                return None;
            }
            back.slots.get_mut(index)?.taken = true;
            drop(back);
            Some((session, index, Destination::Connection(connection)))
        })
    }

    fn body(&self, context: &Context<'_>, job: &Job) -> Body {
        match job {
            Job::Probe => Body::Null,
            Job::Recall(entry) => {
                Body::Recall { stateid: entry.stateid(), handle: context.store.handle(entry.file) }
            }
            Job::NotifyLock { handle, owner } => Body::NotifyLock {
                handle: handle.clone(),
                client: owner.client(),
                owner: owner.name().into(),
            },
            Job::Offload(copy) => Body::Offload {
                stateid: copy.stateid(),
                handle: context.store.handle(copy.file),
                progress: copy.progress(),
            },
            // Encoded by `hosts.rs`.
            Job::Nlm(_) => Body::Null,
        }
    }

    /// Sends a call of NLM or NSM. A grant is put off like an unanswered one if its host has its share of calls.
    pub(super) fn call_host(&self, context: &Context<'_>, mut message: Message) {
        let call = message.call(context.store);
        let held = match message.grant().map(|grant| Arc::clone(&grant.open.client.holder)) {
            Some(holder) => {
                let Some(held) = Held::within_share(&holder, Resource::CallBytes, call.bytes()) else {
                    message.was_not_sent(context.now, self.config.lease);
                    return self.nlm_failed(context, message);
                };
                Some(held)
            }
            None => None,
        };
        Counters::up(&self.counters.callbacks_sent);
        let (to, client) = (message.destination(), ClientId(0));
        let job = Job::Nlm(Box::new(message));
        let due = self.given_up(context, to);
        let pending = Pending { client, slot: None, confirmed: None, to, job, due, held };
        self.callbacks.send(pending, |xid| call.encode(xid));
    }

    /// Has [`SharedState::tick`] called soon.
    pub(super) fn wake_driver(&self) {
        if let Some(notify) = &*self.callbacks.notify.read() {
            notify();
        }
    }

    /// Sends calls that waited for a backchannel, as many as there are free slots.
    pub(super) fn send_waiting(&self, context: &Context<'_>, client: &Client) {
        while let Some(first) = self.callbacks.take_waiting(client.id) {
            let Some(slot) = self.free_back_slot(client) else {
                return self.callbacks.wait_again(client.id, first);
            };
            self.call_in_slot(context, client, slot, first);
        }
    }

    /// Handles a reply that came over a connection of a client. It counts only if its call went there.
    pub(crate) fn reply(&self, context: &Context<'_>, record: &[u8], connection: ConnectionId) {
        let Ok(xid) = Decoder::new(record).u32() else { return };
        let mut inner = self.callbacks.inner.lock();
        let went_there = |pending: &Pending| pending.to == Destination::Connection(connection);
        let pending = if inner.pending.get(&xid).is_some_and(went_there) { inner.take(xid) } else { None };
        drop(inner);
        if let Some(pending) = pending {
            self.answered(context, pending, &answer(record));
        }
    }

    /// Handles what a host answered to call `id` over a connection of the server's own. Only the reply to that call is an
    /// answer: whatever else the host sends must not count for a call to another one.
    pub(crate) fn callback_answered(&self, context: &Context<'_>, id: u64, record: &[u8]) {
        let Some(pending) = self.callbacks.take_pending(id) else { return };
        let xid = Decoder::new(record).u32();
        match pending.job {
            _ if xid.map_or(true, |xid| u64::from(xid) != id) => self.call_failed(context, pending),
            Job::Nlm(message) => self.nlm_answered(context, *message, record),
            _ => self.answered(context, pending, &answer(record)),
        }
    }

    fn answered(&self, context: &Context<'_>, pending: Pending, answer: &Answered) {
        let Some(client) = self.clients.confirmed(pending.client) else { return };
        let is_refused = matches!(answer, Answered::Failed);
        let status = match answer {
            Answered::Status(status) => *status,
            Answered::Failed => {
                Counters::up(&self.counters.callbacks_failed);
                u32::MAX
            }
        };
        match pending.slot {
            None => {
                let path = if status == u32::MAX { CallbackPath::Down } else { CallbackPath::Up };
                note_path(context, &client, &pending, path);
            }
            Some((id, slot)) => {
                if let Ok(session) = self.session(id) {
                    if BACK_FAULTS.contains(&status) {
                        session.back_fault.store(true, Ordering::Relaxed);
                    }
                    let mut back = session.inner.lock();
                    if let Some(slot) = back.slots.get_mut(slot) {
                        slot.taken = false;
                        // A call that was refused has not reached the slot.
                        slot.last = slot.last.wrapping_add(u32::from(!is_refused));
                    }
                }
                self.send_waiting(context, &client);
            }
        }
        match &pending.job {
            // The recall may overtake the reply to the OPEN, so that the client does not know the delegation yet.
            job @ Job::Recall(_) if status != 0 => self.repeat(context, job),
            job @ Job::Offload(_) if BACK_FAULTS.contains(&status) || AGAIN.contains(&status) => {
                self.repeat(context, job);
            }
            // With any other status, the client does not wait for it.
            Job::Offload(copy) => self.forget_notified_copy(context, copy),
            Job::Recall(_) | Job::Probe | Job::NotifyLock { .. } | Job::Nlm(_) => {}
        }
    }

    /// Handles a call that did not reach the client, or whose connection was lost before the reply.
    pub(crate) fn callback_failed(&self, context: &Context<'_>, id: u64) {
        if let Some(pending) = self.callbacks.take_pending(id) {
            self.call_failed(context, pending);
        }
    }

    /// Handles a call that the server had no room to send, which says nothing about the client. It is repeated later.
    pub(crate) fn callback_not_sent(&self, context: &Context<'_>, id: u64) {
        let Some(mut pending) = self.callbacks.take_pending(id) else { return };
        let client = self.clients.confirmed(pending.client);
        match (&mut pending.job, client) {
            (Job::Nlm(message), _) => {
                drop(pending.held.take());
                message.was_not_sent(context.now, self.config.lease);
            }
            (job, Some(client)) if client.version == ClientProtocol::V40 => {
                drop(pending.held);
                return self.had_no_room(context, &client, job);
            }
            _ => {}
        }
        self.call_failed(context, pending);
    }

    fn call_failed(&self, context: &Context<'_>, pending: Pending) {
        Counters::up(&self.counters.callbacks_failed);
        if let Job::Nlm(message) = pending.job {
            self.nlm_failed(context, *message);
            return;
        }
        let Some(client) = self.clients.confirmed(pending.client) else { return };
        match (pending.slot, pending.to) {
            (Some((id, slot)), Destination::Connection(connection)) => {
                if let Ok(session) = self.session(id) {
                    // The client may or may not have seen it: the same sequence is used again.
                    if let Some(slot) = session.inner.lock().slots.get_mut(slot) {
                        slot.taken = false;
                    }
                    self.unbind(&session, connection);
                }
                drop(pending.held);
                self.call(context, &client, pending.job);
                self.send_waiting(context, &client);
            }
            _ => {
                note_path(context, &client, &pending, CallbackPath::Down);
                self.repeat(context, &pending.job);
            }
        }
    }

    /// Makes the calls of a closed connection time out at the next tick.
    pub(super) fn callbacks_lost(&self, connection: ConnectionId) {
        let mut inner = self.callbacks.inner.lock();
        let lost = Destination::Connection(connection);
        let Inner { pending, late, .. } = &mut *inner;
        for (xid, pending) in pending.iter_mut().filter(|(_, pending)| pending.to == lost) {
            late.remove(&(pending.due, *xid));
            pending.due = Time::EPOCH;
            late.insert((pending.due, *xid));
        }
    }

    /// Sends the calls of an ended session over another one.
    pub(super) fn requeue_calls(&self, context: &Context<'_>, session: &Session) {
        let mut inner = self.callbacks.inner.lock();
        let of_session = |pending: &Pending| pending.slot.is_some_and(|(id, _)| id == session.id);
        let xids: Vec<u32> =
            inner.pending.iter().filter(|(_, pending)| of_session(pending)).map(|(xid, _)| *xid).collect();
        let lost: Vec<Pending> = xids.iter().filter_map(|xid| inner.take(*xid)).collect();
        drop(inner);
        for pending in lost {
            drop(pending.held);
            self.call(context, &session.client, pending.job);
        }
    }

    /// Returns when a call that is sent now is given up.
    fn given_up(&self, context: &Context<'_>, to: Destination) -> Time {
        context.now.plus(match to {
            Destination::Connection(_) => self.config.callback,
            Destination::Address(_) | Destination::Program { .. } => self.config.outbound,
        })
    }

    /// Gives up late calls, and checks every second whether waiting ones can be sent.
    pub(super) fn tick_callbacks(&self, context: &Context<'_>) {
        let mut inner = self.callbacks.inner.lock();
        let lost: Vec<Pending> = std::iter::from_fn(|| inner.take_late(context.now)).collect();
        let looks = context.now.since(inner.looked) >= LOOK;
        let clients: Vec<ClientId> = inner.waiting.keys().filter(|_| looks).copied().collect();
        inner.looked = if looks { context.now } else { inner.looked };
        drop(inner);
        for pending in lost {
            self.call_failed(context, pending);
        }
        for id in clients {
            match self.clients.confirmed(id) {
                Some(client) if self.can_be_called(&client) => self.send_waiting(context, &client),
                Some(_) => {}
                None => drop(self.callbacks.inner.lock().waiting.remove(&id)),
            }
        }
    }
}

/// Notes how a call to an NFSv4.0 client ended, unless the client has confirmed an address since: a call that went to it before it
/// was cut off, or before it restarted, says nothing about it now.
fn note_path(context: &Context<'_>, client: &Client, pending: &Pending, path: CallbackPath) {
    let mut held = client.inner.lock();
    if matches!(pending.job, Job::Probe) {
        held.path_rest = held.path_rest.after_probe(context.now);
    }
    if held.callback.as_ref().map(|(confirmed, _)| *confirmed) == pending.confirmed {
        set_path(&mut held, path, context.now);
    } else if matches!(pending.job, Job::Probe) && held.path == CallbackPath::Probing {
        held.path = CallbackPath::Unknown;
    }
}

fn set_path(state: &mut ClientState, path: CallbackPath, now: Time) {
    state.path_rest = match (state.path, path) {
        (_, CallbackPath::Up) => PathRest { until: Time::EPOCH, next: PATH_REST_MIN, ..state.path_rest },
        // Many calls fail together.
        (CallbackPath::Down, _) => state.path_rest,
        (_, CallbackPath::Down) => state.path_rest.after_failure(now),
        (_, CallbackPath::Unknown | CallbackPath::Probing) => state.path_rest,
    };
    state.path = path;
}

/// Returns where an NFSv4.0 client is called; none if that is impossible.
fn callback_address(netid: &[u8], address: &[u8]) -> Option<SocketAddr> {
    let address = matches!(netid, b"tcp" | b"tcp6").then(|| parse_universal_address(address))??;
    (address.port() != 0 && !address.ip().is_unspecified()).then_some(address)
}

/// Decodes a reply: the status of the first operation of CB_COMPOUND, which is that of the whole if there are no
/// results.
fn answer(record: &[u8]) -> Answered {
    let mut input = Decoder::new(record);
    match ReplyHeader::decode(&mut input).map(|header| header.body) {
        Ok(ReplyBody::Accepted { stat: AcceptStat::Success, .. }) => {}
        _ => return Answered::Failed,
    }
    // CB_NULL has no result.
    Answered::Status(input.u32().unwrap_or(0))
}
