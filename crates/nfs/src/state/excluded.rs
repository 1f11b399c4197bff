//! State that clients hold in volumes that the exports have closed to them.
//!
//! When the exports change, clients keep what they hold for a lease, so that a mistake corrected soon costs nothing. After that it is
//! freed: its holder can neither use nor release it, and others wait for it. Nothing else would free it: a client admitted to
//! other volumes keeps renewing its lease, and a host that locks by NLM has none. Where a holder may now only read, its opens that write
//! or deny something to others are freed too, and so are all locks that an owner has in a file if one of them is exclusive.
//!
//! A delegation is revoked, and its client learns of it as of any other. Of opens and locks it learns by NFS4ERR_BAD_STATEID, once it is
//! admitted again.

use std::cell::RefCell;
use std::collections::{HashMap, VecDeque};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use volume::ids::VolumeId;
use volume::time::Time;

use crate::exports::HostAccess;
use crate::state::clients::client::Client;
use crate::state::clients::removal::{PART, Work};
use crate::state::ids::ClientId;
use crate::state::locks::ranges::LockKind;
use crate::state::stateids::entry::{Liveness, StateEntry, StateKind};
use crate::state::{Context, SharedState, StateError};

/// Who may use what he holds no longer, and entries to free.
#[derive(Debug, Default)]
pub(in crate::state) struct Excluded(Mutex<Inner>);

#[derive(Debug, Default)]
struct Inner {
    /// When the exports changed, if clients were not compared with them since.
    changed: Option<Time>,
    restricted: HashMap<(ClientId, VolumeId), Restricted>,
    /// When to search for entries that are to be freed.
    due: Option<Time>,
    found: VecDeque<Found>,
}

/// Since when a client that holds something in a volume may not write there.
#[derive(Clone, Copy, Debug)]
struct Restricted {
    since: Time,
    /// Since when it may not even read.
    excluded: Option<Time>,
}

impl Restricted {
    /// Returns how a client is restricted now that was so `before`.
    fn of(access: HostAccess, before: Option<&Restricted>, now: Time) -> Option<Restricted> {
        if access == HostAccess::Write {
            return None;
        }
        let since = before.map_or(now, |before| before.since);
        let excluded = before.and_then(|before| before.excluded).unwrap_or(now);
        Some(Restricted { since, excluded: (access == HostAccess::None).then_some(excluded) })
    }

    /// Returns the most that the client has been able to do for a lease.
    fn lasting(self, now: Time, lease: Duration) -> HostAccess {
        let lasts = |since: Time| now >= since.plus(lease);
        match (self.excluded.is_some_and(lasts), lasts(self.since)) {
            (true, _) => HostAccess::None,
            (false, true) => HostAccess::Read,
            (false, false) => HostAccess::Write,
        }
    }

    /// Returns when that changes next.
    fn next(self, now: Time, lease: Duration) -> Option<Time> {
        let ends = [Some(self.since), self.excluded].into_iter().flatten().map(|since| since.plus(lease));
        ends.filter(|end| *end > now).min()
    }
}

#[derive(Debug)]
struct Found {
    entry: Arc<StateEntry>,
    /// What its client has been able to do.
    lasting: HostAccess,
    /// Whether a part of it is freed: then the rest is, too.
    has_begun: bool,
}

impl SharedState {
    /// Notes that the exports have changed, or that the state of an earlier start was restored.
    pub(crate) fn exports_changed(&self, now: Time) {
        self.excluded.0.lock().changed = Some(now);
    }

    /// Frees a part of what was found. Returns whether to call again soon.
    pub(in crate::state) fn tick_excluded(&self, context: &Context<'_>) -> bool {
        self.search(context);
        let mut is_refused = false;
        let found = self.excluded.0.lock().found.len();
        for _ in 0..found.min(PART) {
            let Some(mut found) = self.excluded.0.lock().found.pop_front() else { break };
            let mut work = Work::part();
            // If its journal does not take it, the next tick tries again, after the others.
            is_refused |= self.free_excluded(context, &mut found, &mut work).is_err();
            if self.is_excluded(context, &found) {
                self.excluded.0.lock().found.push_back(found);
            }
            if work.is_done() {
                break;
            }
        }
        !is_refused && !self.excluded.0.lock().found.is_empty()
    }

    /// Compares what clients hold with the exports when these have changed, and again a lease later: calls that began before the
    /// change may have opened or locked something since. Finds what has been useless to its holder for a lease.
    fn search(&self, context: &Context<'_>) {
        let lease = self.config.lease;
        let (changed, is_due) = {
            let mut excluded = self.excluded.0.lock();
            let is_due = excluded.found.is_empty() && excluded.due.is_some_and(|due| context.now >= due);
            (excluded.changed.take(), is_due)
        };
        let Some(at) = changed.or(is_due.then_some(context.now)) else { return };
        let restricted = self.restricted(context, at);
        if is_due {
            self.find_excluded(context.now, &restricted);
        }
        let next = restricted.values().filter_map(|restricted| restricted.next(context.now, lease)).min();
        let mut excluded = self.excluded.0.lock();
        excluded.due = next.or(changed.map(|changed| changed.plus(lease)));
        excluded.restricted = restricted;
    }

    /// Returns who may not write to volumes in which he holds something, since `at` or before.
    fn restricted(&self, context: &Context<'_>, at: Time) -> HashMap<(ClientId, VolumeId), Restricted> {
        let held: RefCell<HashMap<(ClientId, VolumeId), Arc<Client>>> = RefCell::default();
        self.stateids.select(|entry| {
            if is_held(entry) {
                let key = (entry.client.id, entry.file.volume);
                held.borrow_mut().entry(key).or_insert_with(|| Arc::clone(&entry.client));
            }
            false
        });
        let before = std::mem::take(&mut self.excluded.0.lock().restricted);
        let restricted = held.into_inner().into_iter().filter_map(|(key, client)| {
            let access = access(context, &client, key.1);
            Some((key, Restricted::of(access, before.get(&key), at)?))
        });
        restricted.collect()
    }

    fn find_excluded(&self, now: Time, restricted: &HashMap<(ClientId, VolumeId), Restricted>) {
        let lasting = |entry: &StateEntry| {
            let of = restricted.get(&(entry.client.id, entry.file.volume));
            of.map_or(HostAccess::Write, |of| of.lasting(now, self.config.lease))
        };
        let found = self.stateids.select(|entry| is_held(entry) && may_be_useless(lasting(entry), entry));
        let found =
            found.into_iter().map(|entry| Found { lasting: lasting(&entry), entry, has_begun: false });
        self.excluded.0.lock().found = found.collect();
    }

    /// Frees an entry, or a part of its ranges, unless that was done meanwhile or the exports have changed back.
    fn free_excluded(
        &self,
        context: &Context<'_>,
        found: &mut Found,
        work: &mut Work,
    ) -> Result<(), StateError> {
        if !self.is_excluded(context, found) {
            return Ok(());
        }
        found.has_begun = true;
        match found.entry.kind {
            StateKind::Delegation(_) => self.revoke_without_distrust(context, &found.entry),
            StateKind::Open(_) | StateKind::Locks(_) => self.free_entry(context, &found.entry, work),
        }
    }

    fn is_excluded(&self, context: &Context<'_>, found: &Found) -> bool {
        let entry = &found.entry;
        let is_there =
            self.stateids.read(&entry.other).get(&entry.other).is_some_and(|known| Arc::ptr_eq(known, entry));
        is_there
            && is_held(entry)
            && match access(context, &entry.client, entry.file.volume).max(found.lasting) {
                HostAccess::None => true,
                HostAccess::Read => found.has_begun || self.needs_writing(entry),
                HostAccess::Write => false,
            }
    }

    /// Whether an entry is of use only to somebody who may write.
    fn needs_writing(&self, entry: &StateEntry) -> bool {
        let Some(locks) = entry.as_locks() else { return needs_writing_by_mode(entry) };
        let files = self.files.read(&entry.file);
        let mut held = files.get(&entry.file).into_iter().flat_map(|file| file.locks.of(&locks.owner));
        held.any(|lock| lock.kind == LockKind::Write)
    }
}

/// Returns what a client may do in a volume, from whichever of its addresses.
fn access(context: &Context<'_>, client: &Client, volume: VolumeId) -> HostAccess {
    let of = |address: &IpAddr| context.store.access(*address, client.is_privileged(), volume);
    client.addresses().iter().map(of).max().unwrap_or(HostAccess::None)
}

/// Whether an entry is in force. What clients hold that are gone is freed by their removal.
fn is_held(entry: &StateEntry) -> bool {
    entry.liveness() == Liveness::Live && !entry.client.is_gone()
}

/// Whether this access may leave an entry without use. What an owner has locked is known only under the lock of its file.
fn may_be_useless(access: HostAccess, entry: &StateEntry) -> bool {
    match access {
        HostAccess::None => true,
        HostAccess::Read => entry.as_locks().is_some() || needs_writing_by_mode(entry),
        HostAccess::Write => false,
    }
}

fn needs_writing_by_mode(entry: &StateEntry) -> bool {
    entry.mode().is_some_and(|mode| mode.writes() || mode.denies())
}
