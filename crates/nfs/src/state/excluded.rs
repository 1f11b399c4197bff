//! State that clients hold in volumes that the exports have closed to them.
//!
//! When the exports change, clients keep what they hold for a lease or two, so that a mistake corrected soon costs nothing. After that
//! it is freed: its holder can neither use nor release it, and others wait for it. Nothing else would free it: a client admitted to
//! other volumes keeps renewing its lease, and a host that locks by NLM has none. Where a holder may now only read, its opens that write
//! or deny something to others are freed too, and so are all locks that an owner has in a file if one of them is exclusive.
//!
//! A delegation is revoked, and its client learns of it as of any other. Of opens and locks it learns by NFS4ERR_BAD_STATEID, once it is
//! admitted again.

use std::cell::RefCell;
use std::collections::{HashMap, VecDeque};
use std::net::IpAddr;
use std::sync::Arc;

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

/// Entries to free, and when to search for more.
#[derive(Debug, Default)]
pub(in crate::state) struct Excluded(Mutex<Inner>);

#[derive(Debug, Default)]
struct Inner {
    /// When to search: a lease after the exports changed.
    due: Option<Time>,
    /// Whether they have changed again since that was set.
    again: bool,
    found: VecDeque<Found>,
}

#[derive(Debug)]
struct Found {
    entry: Arc<StateEntry>,
    /// Whether a part of it is freed: then the rest is, too.
    has_begun: bool,
}

impl SharedState {
    /// Notes that the exports have changed, or that the state of an earlier start was restored.
    pub(crate) fn exports_changed(&self, now: Time) {
        let mut excluded = self.excluded.0.lock();
        excluded.again = excluded.due.is_some();
        excluded.due.get_or_insert(now.plus(self.config.lease));
    }

    /// Frees a part of what was found. Returns whether to call again soon.
    pub(in crate::state) fn tick_excluded(&self, context: &Context<'_>) -> bool {
        if self.take_due_search(context.now) {
            let found = self.find_excluded(context);
            self.excluded.0.lock().found = found;
        }
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

    fn take_due_search(&self, now: Time) -> bool {
        let mut excluded = self.excluded.0.lock();
        let is_due = excluded.due.is_some_and(|due| now >= due);
        if is_due {
            let again = std::mem::take(&mut excluded.again);
            excluded.due = again.then(|| now.plus(self.config.lease));
        }
        is_due
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
            && match access(context, &entry.client, entry.file.volume) {
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

    fn find_excluded(&self, context: &Context<'_>) -> VecDeque<Found> {
        let known: RefCell<HashMap<(ClientId, VolumeId), HostAccess>> = RefCell::default();
        let found = self.stateids.select(|entry| {
            let volume = entry.file.volume;
            let mut known = known.borrow_mut();
            let of = known
                .entry((entry.client.id, volume))
                .or_insert_with(|| access(context, &entry.client, volume));
            is_held(entry) && may_be_useless(*of, entry)
        });
        found.into_iter().map(|entry| Found { entry, has_begun: false }).collect()
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
