//! Locks that waiters of NLM were granted, while their owners may not know, and for a while after.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use volume::time::Time;

use crate::state::clients::client::LockOwner;
use crate::state::config::WAITER_BYTES;
use crate::state::ids::FileId;
use crate::state::locks::Waiter;
use crate::state::locks::ranges::Range;
use crate::state::shares::{Held, Resource};
use crate::state::stateids::entry::StateEntry;

/// A lock that was granted to a waiter.
///
/// ```text
///   Given ──answered: granted, or locked again──▶ Known ──a lease, or no room──▶ (forgotten)
///     └────answered: denied; silent for a lease──▶ (freed)
/// ```
///
/// It is remembered for a lease because the owner may have meant to cancel when it answered.
#[derive(Debug)]
pub(super) struct Grant {
    pub(super) owner: Arc<LockOwner>,
    /// The open that the lock depends on.
    pub(super) open: Arc<StateEntry>,
    pub(super) range: Range,
    pub(super) since: Time,
    knowledge: Mutex<Knowledge>,
}

/// Whether the owner of a lock knows that it was granted. What is held counts as long as the grant is remembered.
#[derive(Debug)]
enum Knowledge {
    /// It may not: the lock keeps the place in the queue.
    Unsure { _place: Arc<Held> },
    /// It does. None if there is no room to remember more than that.
    Sure(Option<Held>),
}

impl Grant {
    /// Creates the grant of what a waiter waited for.
    pub(super) fn new(waiter: &Waiter, open: &Arc<StateEntry>, now: Time) -> Grant {
        let (owner, open, range) = (Arc::clone(&waiter.owner), Arc::clone(open), waiter.range);
        let knowledge = Mutex::new(Knowledge::Unsure { _place: Arc::clone(&waiter.place) });
        Grant { owner, open, range, since: now, knowledge }
    }

    /// Returns whether the owner knows, or need not be told any more.
    pub(super) fn is_known(&self) -> bool {
        matches!(*self.knowledge.lock(), Knowledge::Sure(_))
    }

    /// Notes that the owner knows, or need not be told any more.
    pub(super) fn mark_known(&self) {
        let mut knowledge = self.knowledge.lock();
        if let Knowledge::Unsure { .. } = *knowledge {
            let holder = &self.open.client.holder;
            *knowledge = Knowledge::Sure(Held::within_share(holder, Resource::StateBytes, WAITER_BYTES));
        }
    }

    /// Returns whether it is still remembered.
    fn is_remembered(&self, now: Time, lease: Duration) -> bool {
        match *self.knowledge.lock() {
            Knowledge::Unsure { .. } => true,
            Knowledge::Sure(None) => false,
            Knowledge::Sure(Some(_)) => now.since(self.since) <= lease,
        }
    }
}

/// Recent grants by file.
#[derive(Debug, Default)]
pub(in crate::state) struct Grants(Mutex<HashMap<FileId, Vec<Arc<Grant>>>>);

impl Grants {
    pub(super) fn add(&self, grant: &Arc<Grant>) {
        self.0.lock().entry(grant.open.file).or_default().push(Arc::clone(grant));
    }

    pub(super) fn remove(&self, grant: &Grant) {
        if let Some(of_file) = self.0.lock().get_mut(&grant.open.file) {
            of_file.retain(|other| !std::ptr::eq(Arc::as_ptr(other), grant));
        }
    }

    /// Takes the recent grant of a range.
    pub(super) fn take(&self, owner: &LockOwner, file: FileId, range: Range) -> Option<Arc<Grant>> {
        let mut grants = self.0.lock();
        let of_file = grants.get_mut(&file)?;
        let index = of_file.iter().position(|grant| *grant.owner == *owner && grant.range == range)?;
        Some(of_file.swap_remove(index))
    }

    /// Forgets an owner's grants in a range that it unlocks. It need not be told any more.
    pub(super) fn forget(&self, owner: &LockOwner, file: FileId, range: Range) {
        let mut grants = self.0.lock();
        let Some(of_file) = grants.get_mut(&file) else { return };
        let unlocked = |grant: &mut Arc<Grant>| *grant.owner == *owner && grant.range.overlaps(range);
        of_file.extract_if(.., unlocked).for_each(|grant| grant.mark_known());
    }

    /// Notes that an owner knows of its grants.
    pub(super) fn mark_known(&self, owner: &LockOwner, file: FileId) {
        let grants = self.0.lock();
        let own = grants.get(&file).into_iter().flatten().filter(|grant| *grant.owner == *owner);
        own.for_each(|grant| grant.mark_known());
    }

    /// Forgets grants whose owners have known of them for long enough.
    pub(super) fn forget_old(&self, now: Time, lease: Duration) {
        self.0.lock().retain(|_, of_file| {
            of_file.retain(|grant| grant.is_remembered(now, lease));
            !of_file.is_empty()
        });
    }

    /// Returns the number of grants that are remembered.
    #[cfg(test)]
    pub(in crate::state) fn len(&self) -> usize {
        self.0.lock().values().map(Vec::len).sum()
    }
}
