//! Recalls: begun on a conflict, repeated until the delegations are returned, and revoked after a lease.
//!
//! Thousands of clients may hold delegations of one file, and one client very many. So they are recalled and revoked in parts,
//! between which others are served: some with the conflict, the others by [`SharedState::tick`], which touches only what is due.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::IpAddr;
use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use parking_lot::Mutex;
use volume::ids::VolumeId;
use volume::time::Time;

use crate::state::clients::client::Client;
use crate::state::config::{Counters, UNTOLD_LEASES_MAX};
use crate::state::delegations::ConflictKind;
use crate::state::delegations::of_file::{Place, place};
use crate::state::ids::{ClientId, FileId, Other};
use crate::state::stateids::entry::{Liveness, Recall, StateEntry};
use crate::state::{Context, SharedState};

/// How many delegations one part looks at, recalls, or revokes.
pub(in crate::state) const PART: usize = 256;

/// How soon a client that could not be told, or did not understand, is told again.
const AGAIN: Duration = Duration::from_secs(1);

/// How many leases a client has at most to return a delegation while rate limits hold its requests. A reader has nothing to write
/// back, but opens, and locks that it granted itself, to tell of.
const HELD_LEASES_MAX: u32 = 5;
const HELD_LEASES_OF_READER_MAX: u32 = 2;

/// What is recalled.
#[derive(Debug, Default)]
pub(in crate::state) struct Recalls {
    /// Delegations that were recalled and not returned yet, by that time.
    begun: Mutex<BTreeMap<(Time, Other), Arc<StateEntry>>>,
    /// Those whose clients are to be told again.
    again: Mutex<Again>,
    /// Files with more read delegations than one part recalls, the client that they are recalled for, and how far that is.
    files: Mutex<VecDeque<(FileId, Option<ClientId>, Place)>>,
    /// Clients whose delegations are being recalled, all of them or those of one volume, with the stateid to continue from.
    clients: Mutex<VecDeque<(Arc<Client>, Option<VolumeId>, Bound<Other>)>>,
    /// How many of those that were recalled were looked at by ticks.
    #[cfg(test)]
    pub(in crate::state) looked_at: std::sync::atomic::AtomicUsize,
}

/// Why a delegation is recalled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reason {
    /// Somebody waits for its file.
    Conflict,
    /// Others waited too long for those of its origin, or of its volume.
    Distrust,
}

/// Clients that are to be told again of recalls.
#[derive(Debug, Default)]
struct Again {
    /// All of `by_client`, by when they are due.
    due: BTreeSet<(Time, ClientId)>,
    by_client: BTreeMap<ClientId, Untold>,
}

/// What a client is to be told again.
#[derive(Debug)]
struct Untold {
    client: Arc<Client>,
    due: Time,
    entries: BTreeMap<Other, Arc<StateEntry>>,
}

impl Recalls {
    /// Notes that a recall begins. Returns false if it has begun before.
    fn begin(&self, entry: &Arc<StateEntry>, why: Reason, now: Time) -> bool {
        let Some(delegation) = entry.as_delegation() else { return false };
        let mut begun = self.begun.lock();
        let begins = delegation.begin_recall(now);
        if begins {
            begun.insert((now, entry.other), Arc::clone(entry));
            if why == Reason::Conflict {
                entry.client.holder.begin_recall(now, entry.other);
            }
        }
        drop(begun);
        if begins && entry.liveness() != Liveness::Live {
            // It was returned meanwhile.
            self.end(entry);
        }
        begins
    }

    /// Restarts the time limit for the return of a delegation because there was no room to tell its client of the recall, but not
    /// for ever, as others wait for the file.
    pub(in crate::state) fn put_off_untold(&self, entry: &Arc<StateEntry>, now: Time, lease: Duration) {
        let waited = entry.as_delegation().map(|delegation| delegation.recalled_for(now));
        if waited.is_some_and(|waited| waited < UNTOLD_LEASES_MAX * lease) {
            self.put_off(entry, now);
        }
    }

    /// Restarts the time limit for the return of a delegation.
    fn put_off(&self, entry: &Arc<StateEntry>, now: Time) {
        let Some(delegation) = entry.as_delegation() else { return };
        let mut begun = self.begun.lock();
        let Recall::Recalled(since) = delegation.recall() else { return };
        if begun.remove(&(since, entry.other)).is_some() {
            delegation.put_recall_off(now);
            begun.insert((now, entry.other), Arc::clone(entry));
            if entry.client.holder.end_recall(since, entry.other) {
                entry.client.holder.begin_recall(now, entry.other);
            }
        }
    }

    /// Gives a client more time to return a delegation if rate limits have held its requests since the recall: it may still be
    /// writing back. Returns whether it gets some, but not for ever, as others wait for the file.
    fn extend(&self, entry: &Arc<StateEntry>, now: Time, lease: Duration) -> bool {
        let Some(delegation) = entry.as_delegation() else { return false };
        let Recall::Recalled(since) = delegation.recall() else { return false };
        let leases = if delegation.write { HELD_LEASES_MAX } else { HELD_LEASES_OF_READER_MAX };
        let is_extended = entry.client.was_held_since(since) && delegation.recalled_for(now) < leases * lease;
        if is_extended {
            self.put_off(entry, now);
        }
        is_extended
    }

    /// Forgets a delegation that has ended.
    pub(in crate::state) fn end(&self, entry: &StateEntry) {
        let mut begun = self.begun.lock();
        let Some(Recall::Recalled(since)) = entry.as_delegation().map(|delegation| delegation.recall())
        else {
            return;
        };
        begun.remove(&(since, entry.other));
        entry.client.holder.end_recall(since, entry.other);
        drop(begun);
        self.again.lock().remove(entry);
    }

    /// Has the client told again of a recall.
    pub(in crate::state) fn tell_again(&self, entry: &Arc<StateEntry>, now: Time) {
        let mut again = self.again.lock();
        if entry.liveness() == Liveness::Live {
            again.add(entry, now);
        }
    }

    /// Returns the first delegation that was recalled more than `lease` ago.
    fn overdue(&self, now: Time, lease: Duration) -> Option<Arc<StateEntry>> {
        let begun = self.begun.lock();
        let ((since, _), entry) = begun.first_key_value()?;
        #[cfg(test)]
        self.looked_at.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        (now.since(*since) > lease).then(|| Arc::clone(entry))
    }
}

impl Again {
    /// Adds a delegation. If its client is due now, postpones the rest of its recalls too, which would fail for the same reason.
    fn add(&mut self, entry: &Arc<StateEntry>, now: Time) {
        let (client, id) = (&entry.client, entry.client.id);
        let untold = self.by_client.entry(id).or_insert_with(|| Untold {
            client: Arc::clone(client),
            due: now,
            entries: BTreeMap::new(),
        });
        untold.entries.insert(entry.other, Arc::clone(entry));
        if untold.due <= now {
            self.put_off(id, now);
        }
    }

    /// Forgets a delegation that has ended.
    fn remove(&mut self, entry: &StateEntry) {
        if let Some(untold) = self.by_client.get_mut(&entry.client.id) {
            untold.entries.remove(&entry.other);
            self.forget_if_told(entry.client.id);
        }
    }

    fn forget_if_told(&mut self, id: ClientId) {
        if let Some(untold) = self.by_client.get(&id)
            && untold.entries.is_empty()
        {
            self.due.remove(&(untold.due, id));
            self.by_client.remove(&id);
        }
    }

    /// Returns a client that is to be told again now.
    fn next_client(&self, now: Time) -> Option<Arc<Client>> {
        let (_, id) = self.due.first().filter(|(due, _)| *due <= now)?;
        self.by_client.get(id).map(|untold| Arc::clone(&untold.client))
    }

    /// Takes at most `max` delegations of a client.
    fn take(&mut self, id: ClientId, max: usize) -> Vec<Arc<StateEntry>> {
        let Some(untold) = self.by_client.get_mut(&id) else { return Vec::new() };
        let taken: Vec<_> = std::iter::from_fn(|| untold.entries.pop_first()).take(max).collect();
        self.forget_if_told(id);
        taken.into_iter().map(|(_, entry)| entry).collect()
    }

    /// Notes that a client cannot be told now.
    fn put_off(&mut self, id: ClientId, now: Time) {
        if let Some(untold) = self.by_client.get_mut(&id) {
            self.due.remove(&(untold.due, id));
            untold.due = now.plus(AGAIN);
            self.due.insert((untold.due, id));
        }
    }
}

impl SharedState {
    /// Recalls a delegation once.
    fn recall(&self, context: &Context<'_>, entry: &Arc<StateEntry>, why: Reason) {
        if self.recalls.begin(entry, why, context.now) {
            Counters::up(&self.counters.delegations_recalled);
            self.call_recall(context, entry);
        }
    }

    /// Recalls conflicting delegations of a file: the given first ones, or those from the next place on.
    pub(super) fn recall_all_of_file(
        &self,
        context: &Context<'_>,
        (file, own): (FileId, Option<ClientId>),
        next: &[Arc<StateEntry>],
    ) {
        let held = next.iter().filter(|entry| is_held(entry));
        let recalled = held.map(|entry| self.recall(context, entry, Reason::Conflict)).count();
        if let Some(last) = next.last().filter(|_| next.len() == PART && recalled > 0) {
            let mut files = self.recalls.files.lock();
            if !files.iter().any(|queued| (queued.0, queued.1) == (file, own)) {
                files.push_back((file, own, place(last)));
                self.wake_driver();
            }
        }
    }

    /// Recalls the delegations of all clients of an origin.
    pub(super) fn recall_all_of_origin(&self, context: &Context<'_>, origin: IpAddr) {
        let mut of_origin = self.clients.all();
        of_origin.retain(|client| client.holder.origin() == origin);
        self.recall_all_of_clients(context, of_origin, None);
    }

    /// Recalls the delegations of all files of a volume.
    pub(super) fn recall_all_of_volume(&self, context: &Context<'_>, volume: VolumeId) {
        let mut holders = self.clients.all();
        holders.retain(|client| client.delegations.load(Ordering::Relaxed) > 0);
        self.recall_all_of_clients(context, holders, Some(volume));
    }

    fn recall_all_of_clients(
        &self,
        context: &Context<'_>,
        clients: Vec<Arc<Client>>,
        volume: Option<VolumeId>,
    ) {
        let queued = clients.into_iter().map(|client| (client, volume, Bound::Unbounded));
        self.recalls.clients.lock().extend(queued);
        if self.recall_of_clients(context) {
            self.wake_driver();
        }
    }

    /// Recalls, and revokes, what is due. Returns whether more is.
    pub(in crate::state) fn tick_recalls(&self, context: &Context<'_>) -> bool {
        let of_files = self.recall_of_files(context);
        self.recall_of_clients(context);
        // May put recalls off.
        let tells = self.tell_clients_again(context);
        // May have clients queued.
        let is_overdue = self.revoke_overdue(context);
        is_overdue || tells || of_files || !self.recalls.clients.lock().is_empty()
    }

    /// Recalls delegations of a file that is queued for that. Returns whether more are to be recalled.
    fn recall_of_files(&self, context: &Context<'_>) -> bool {
        let Some((file, own, after)) = self.recalls.files.lock().pop_front() else { return false };
        let next: Vec<_> = {
            let files = self.files.read(&file);
            let delegations = files.get(&file).map(|state| &state.delegations);
            let others = delegations
                .into_iter()
                .flat_map(|all| all.conflicting(own, ConflictKind::Modify, Some(after)));
            others.take(PART).cloned().collect()
        };
        self.recall_all_of_file(context, (file, own), &next);
        !self.recalls.files.lock().is_empty()
    }

    /// Recalls delegations of clients that are queued for that. Returns whether more are to be recalled.
    fn recall_of_clients(&self, context: &Context<'_>) -> bool {
        let mut left = PART;
        while left > 0 {
            let Some((client, volume, from)) = self.recalls.clients.lock().pop_front() else { return false };
            let range = (from, Bound::Unbounded);
            let others: Vec<Other> = client.inner.lock().entries.range(range).take(left).copied().collect();
            for other in &others {
                let entry = self.stateids.read(other).get(other).cloned();
                let is_meant = |entry: &StateEntry| volume.is_none_or(|volume| volume == entry.file.volume);
                let held = entry.iter().filter(|entry| is_held(entry) && is_meant(entry));
                held.for_each(|entry| self.recall(context, entry, Reason::Distrust));
            }
            if let Some(last) = others.last().filter(|_| others.len() == left) {
                self.recalls.clients.lock().push_front((client, volume, Bound::Excluded(*last)));
            }
            left -= others.len().max(1);
        }
        !self.recalls.clients.lock().is_empty()
    }

    /// Repeats recalls that did not reach their clients. Returns whether more are to be repeated.
    fn tell_clients_again(&self, context: &Context<'_>) -> bool {
        let mut left = PART;
        while left > 0 {
            let next = self.recalls.again.lock().next_client(context.now);
            let Some(client) = next else { return false };
            if !self.can_be_called(&client) {
                self.recalls.again.lock().put_off(client.id, context.now);
                left -= 1;
                continue;
            }
            let taken = self.recalls.again.lock().take(client.id, left);
            taken.iter().for_each(|entry| self.call_recall(context, entry));
            left -= taken.len().max(1).min(left);
        }
        true
    }

    /// Revokes delegations that were recalled a lease ago. Returns whether more are to be revoked.
    fn revoke_overdue(&self, context: &Context<'_>) -> bool {
        for _ in 0..PART {
            let Some(entry) = self.recalls.overdue(context.now, self.config.lease) else { return false };
            if self.recalls.extend(&entry, context.now, self.config.lease) {
                continue;
            }
            if self.revoke(context, &entry).is_err() {
                // The journal is full. The next tick tries again.
                return false;
            }
        }
        true
    }
}

/// Returns whether a delegation is held and was not recalled.
fn is_held(entry: &StateEntry) -> bool {
    let held = entry.as_delegation().is_some_and(|delegation| delegation.recall() == Recall::Held);
    held && entry.liveness() == Liveness::Live
}
