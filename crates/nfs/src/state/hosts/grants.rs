//! Locks that waiters of NLM were granted, while their owners may not know, and for a while after.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use volume::time::Time;

use crate::state::clients::client::LockOwner;
use crate::state::config::WAITER_BYTES;
use crate::state::ids::FileId;
use crate::state::locks::ranges::{LockKind, Owner as _, Range};
use crate::state::locks::waiters::Waiter;
use crate::state::shards::Shards;
use crate::state::shares::{Held, Resource};
use crate::state::stateids::entry::StateEntry;

/// How many grants that an owner knows of are remembered in one file. Only an owner that waits for very many ranges needs more.
const KNOWN_MAX: usize = 64;

/// How many grants are forgotten in one go.
const PART: usize = 256;

/// A lock that was granted to a waiter.
///
/// ```text
///   Given ──answered: granted, or locked again──▶ Known ──a lease, or no room──▶ (forgotten)
///     └────answered: denied; silent for a lease──▶ (freed)
/// ```
///
/// It is remembered for a lease from the answer on, because the owner may have meant to cancel when it answered.
#[derive(Debug)]
pub(in crate::state) struct Grant {
    pub(super) owner: Arc<LockOwner>,
    /// The open that the lock depends on.
    pub(in crate::state) open: Arc<StateEntry>,
    pub(super) range: Range,
    pub(super) kind: LockKind,
    pub(super) since: Time,
    knowledge: Mutex<Knowledge>,
}

/// Whether the owner of a lock knows that it was granted. What is held counts as long as the grant is remembered.
#[derive(Debug)]
enum Knowledge {
    /// It may not: the lock keeps the place in the queue.
    Unsure { _place: Arc<Held> },
    /// It does. None if there is no room to remember more than that.
    Sure(Option<Remembered>),
}

/// A grant that its owner knows.
#[derive(Debug)]
struct Remembered {
    /// Its place among all of them: when the owner learned of it, and a number that no other has.
    place: (Time, u64),
    _held: Held,
}

impl Grant {
    /// Creates the grant of what a waiter waited for.
    pub(super) fn new(waiter: &Waiter, open: &Arc<StateEntry>, now: Time) -> Grant {
        let (owner, open) = (Arc::clone(&waiter.owner), Arc::clone(open));
        let knowledge = Mutex::new(Knowledge::Unsure { _place: Arc::clone(&waiter.place) });
        Grant { owner, open, range: waiter.range, kind: waiter.kind, since: now, knowledge }
    }

    /// Returns what identifies it in NLM_GRANTED and the answer.
    pub(super) fn cookie(&self) -> &[u8] {
        &self.open.other.0
    }

    /// Returns whether the owner knows, or need not be told any more.
    pub(super) fn is_known(&self) -> bool {
        matches!(*self.knowledge.lock(), Knowledge::Sure(_))
    }
}

/// The grants of an owner in a file.
type OfOwner = Vec<Arc<Grant>>;

/// Recent grants, by file, and there by the number of the owner.
#[derive(Debug, Default)]
pub(in crate::state) struct Grants {
    by_file: Shards<FileId, HashMap<u64, OfOwner>>,
    /// Those that their owners know, the one known longest first.
    known: Mutex<BTreeMap<(Time, u64), Arc<Grant>>>,
    /// The number of the next one that becomes known.
    next: AtomicU64,
}

impl Grants {
    pub(super) fn add(&self, grant: &Arc<Grant>) {
        let mut files = self.by_file.write(&grant.open.file);
        let of_owner = files.entry(grant.open.file).or_default().entry(grant.owner.number()).or_default();
        of_owner.push(Arc::clone(grant));
    }

    /// Forgets a grant.
    pub(super) fn remove(&self, grant: &Grant) {
        let is_this = |other: &Grant| std::ptr::eq(other, grant);
        self.extract(&grant.owner, grant.open.file, is_this);
    }

    /// Returns the recent grant of a range.
    pub(super) fn of_range(&self, owner: &Arc<LockOwner>, file: FileId, range: Range) -> Option<Arc<Grant>> {
        self.of(owner, file).into_iter().find(|grant| grant.range == range)
    }

    /// Forgets an owner's grants in a range that it unlocks. It need not be told any more.
    pub(super) fn forget(&self, owner: &Arc<LockOwner>, file: FileId, range: Range) {
        for grant in self.extract(owner, file, |grant| grant.range.overlaps(range)) {
            *grant.knowledge.lock() = Knowledge::Sure(None);
        }
    }

    /// Notes that an owner knows of its grants in a file.
    pub(super) fn mark_known(&self, owner: &Arc<LockOwner>, file: FileId, now: Time) {
        let own = self.of(owner, file);
        own.iter().for_each(|grant| self.mark(grant, now));
    }

    /// Notes that the owner knows of a grant. It is remembered if there is room, in place of the oldest one of many.
    pub(super) fn mark(&self, grant: &Arc<Grant>, now: Time) {
        if grant.is_known() {
            return;
        }
        self.make_room(grant);
        let mut knowledge = grant.knowledge.lock();
        if let Knowledge::Sure(_) = *knowledge {
            return;
        }
        let held = Held::within_share(&grant.open.client.holder, Resource::StateBytes, WAITER_BYTES);
        let place = (now, self.next.fetch_add(1, Ordering::Relaxed));
        let is_remembered = held.is_some();
        *knowledge = Knowledge::Sure(held.map(|_held| Remembered { place, _held }));
        drop(knowledge);
        if is_remembered {
            self.known.lock().insert(place, Arc::clone(grant));
        } else {
            self.remove(grant);
        }
    }

    /// Forgets the oldest grant that the owner of `grant` knows of in its file, if there are [`KNOWN_MAX`] of them.
    fn make_room(&self, grant: &Grant) {
        let own = self.of(&grant.owner, grant.open.file);
        let mut known = own.iter().filter(|other| other.is_known());
        if let Some(oldest) = known.next()
            && known.count() + 1 >= KNOWN_MAX
        {
            self.remove(oldest);
        }
    }

    /// Forgets some of the grants that their owners have known about for a lease. Returns whether there may be more.
    pub(in crate::state) fn forget_old(&self, now: Time, lease: Duration) -> bool {
        for _ in 0..PART {
            let mut known = self.known.lock();
            let Some(oldest) = known.first_entry().filter(|oldest| now.since(oldest.key().0) > lease) else {
                return false;
            };
            let grant = oldest.remove();
            drop(known);
            self.remove(&grant);
        }
        true
    }

    fn of(&self, owner: &Arc<LockOwner>, file: FileId) -> OfOwner {
        let files = self.by_file.read(&file);
        files.get(&file).and_then(|owners| owners.get(&owner.number())).cloned().unwrap_or_default()
    }

    /// Forgets some of an owner's grants in a file, and returns them.
    fn extract(&self, owner: &Arc<LockOwner>, file: FileId, goes: impl Fn(&Grant) -> bool) -> OfOwner {
        let mut files = self.by_file.write(&file);
        let Some(owners) = files.get_mut(&file) else { return Vec::new() };
        let Some(of_owner) = owners.get_mut(&owner.number()) else { return Vec::new() };
        let gone: OfOwner = of_owner.extract_if(.., |grant| goes(grant)).collect();
        if of_owner.is_empty() {
            owners.remove(&owner.number());
        }
        if owners.is_empty() {
            files.remove(&file);
        }
        drop(files);
        for grant in &gone {
            if let Knowledge::Sure(Some(remembered)) = &*grant.knowledge.lock() {
                self.known.lock().remove(&remembered.place);
            }
        }
        gone
    }

    /// Returns the number of grants that are remembered.
    #[cfg(test)]
    pub(in crate::state) fn len(&self) -> usize {
        let of_file = |owners: &HashMap<u64, OfOwner>| owners.values().map(Vec::len).sum::<usize>();
        self.by_file.sum(of_file)
    }
}
