//! Owners that hold nothing and have been unused for a lease are forgotten. There may be very many, so one tick looks at a bounded
//! number of them, and a client's lock is given up again and again.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use parking_lot::Mutex;
use volume::time::Time;

use crate::state::SharedState;
use crate::state::clients::client::{Client, ClientProtocol, LockOwner, OpenOwner};
use crate::state::clients::removal::PART;

/// Owners, and clients without any, that one tick looks at. Takes about a millisecond.
pub(in crate::state) const OWNERS_PER_TICK: usize = 4 * PART;

/// The clients whose owners are still to be looked at. One sweep begins after the other has ended.
#[derive(Debug, Default)]
pub(in crate::state) struct OwnerSweep(Mutex<Sweep>);

#[derive(Debug, Default)]
struct Sweep {
    /// The last one is next.
    clients: Vec<Arc<Client>>,
    place: Place,
}

/// How far a sweep came with the owners of a client.
#[derive(Debug)]
enum Place {
    OpenOwners(Bound<Box<[u8]>>),
    LockOwners(Bound<Box<[u8]>>),
}

impl Default for Place {
    fn default() -> Place {
        Place::OpenOwners(Bound::Unbounded)
    }
}

impl OwnerSweep {
    /// Begins with these clients, unless the last sweep has not ended.
    pub(super) fn begin(&self, clients: Vec<Arc<Client>>) {
        let mut sweep = self.0.lock();
        if sweep.clients.is_empty() {
            sweep.clients = clients;
        }
    }
}

impl SharedState {
    /// Goes on with the sweep. Returns whether more is to be done.
    pub(super) fn tick_owners(&self, now: Time) -> bool {
        let mut sweep = self.owner_sweep.0.lock();
        let mut left = OWNERS_PER_TICK;
        while left > 0 {
            let Some(client) = sweep.clients.last().map(Arc::clone) else { return false };
            let (looked_at, next) = self.forget_some_owners(&client, std::mem::take(&mut sweep.place), now);
            left = left.saturating_sub(looked_at.max(1));
            match next {
                Some(place) => sweep.place = place,
                None => drop(sweep.clients.pop()),
            }
        }
        true
    }

    /// Forgets unused ones among the next owners of a client. Returns how many it looked at, and the place after them; none
    /// after the last.
    fn forget_some_owners(&self, client: &Client, place: Place, now: Time) -> (usize, Option<Place>) {
        let lease = self.config.lease;
        let unused = |last: Time| client.version != ClientProtocol::V40 || now.since(last) > lease;
        match place {
            Place::OpenOwners(from) => {
                let is_unused = |owner: &OpenOwner| unused(owner.sequence.used());
                let taken = take_unused(&mut client.inner.lock().open_owners, from, is_unused);
                let closed = taken.unused.iter().filter_map(|owner| owner.sequence.closed());
                closed.for_each(|other| self.forget(client, other));
                let after = taken.last.map(|last| Place::OpenOwners(Bound::Excluded(last)));
                (taken.looked_at, Some(after.unwrap_or(Place::LockOwners(Bound::Unbounded))))
            }
            Place::LockOwners(from) => {
                let is_unused = |owner: &LockOwner| unused(owner.sequence.used());
                let taken = take_unused(&mut client.inner.lock().lock_owners, from, is_unused);
                (taken.looked_at, taken.last.map(|last| Place::LockOwners(Bound::Excluded(last))))
            }
        }
    }
}

/// Owners that were taken out of a table.
struct Taken<T> {
    unused: Vec<Arc<T>>,
    looked_at: usize,
    /// The name of the last that was looked at; none if there are no others.
    last: Option<Box<[u8]>>,
}

/// Takes the unused ones among the first owners from this name on.
fn take_unused<T>(
    owners: &mut BTreeMap<Box<[u8]>, Arc<T>>,
    from: Bound<Box<[u8]>>,
    unused: impl Fn(&T) -> bool,
) -> Taken<T> {
    let (mut names, mut last, mut looked_at) = (Vec::new(), None, 0);
    for (name, owner) in owners.range((from, Bound::Unbounded)).take(PART) {
        // One reference is the map's; every open, lock state and place in a queue has another.
        if Arc::strong_count(owner) == 1 && unused(owner) {
            names.push(name.clone());
        }
        (last, looked_at) = (Some(name), looked_at + 1);
    }
    let last = last.filter(|_| looked_at == PART).cloned();
    Taken { unused: names.iter().filter_map(|name| owners.remove(name)).collect(), looked_at, last }
}
