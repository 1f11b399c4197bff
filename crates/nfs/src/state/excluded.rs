//! What clients hold in volumes to which no export admits them any more.
//!
//! When exports change, clients keep what they hold for a lease, so that a mistake that is mended soon costs them nothing. After that it
//! is freed: its holder can neither use nor release it, while others wait for it. A client that is admitted to other volumes keeps its
//! lease, and a host that locks by NLM has none, so neither would lose it otherwise. The same holds for opens to write, and those that
//! deny something to others, where their holder may only read.

use std::cell::RefCell;
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;

use parking_lot::Mutex;
use volume::ids::VolumeId;
use volume::time::Time;

use crate::state::clients::client::Client;
use crate::state::clients::removal::Work;
use crate::state::ids::ClientId;
use crate::state::stateids::entry::StateEntry;
use crate::state::{Context, HostAccess, SharedState};

/// What is to be freed, and when to look for it.
#[derive(Debug, Default)]
pub(in crate::state) struct Excluded(Mutex<Inner>);

#[derive(Debug, Default)]
struct Inner {
    /// A lease after exports have changed.
    due: Option<Time>,
    /// Whether they have changed since.
    again: bool,
    found: Vec<Arc<StateEntry>>,
}

impl SharedState {
    /// Notes that the exports have changed, or that the state of an earlier start was restored.
    pub(crate) fn exports_changed(&self, now: Time) {
        let mut excluded = self.excluded.0.lock();
        excluded.again = excluded.due.is_some();
        excluded.due.get_or_insert(now.plus(self.config.lease));
    }

    /// Frees a part of what is to be freed. Returns whether more is.
    pub(in crate::state) fn tick_excluded(&self, context: &Context<'_>) -> bool {
        if self.is_look_due(context.now) {
            let found = self.find_excluded(context);
            self.excluded.0.lock().found.extend(found);
        }
        let mut work = Work::part();
        while !work.is_done() {
            let Some(entry) = self.excluded.0.lock().found.pop() else { return false };
            // The exports may have changed back, and what clients hold that are gone is freed anyway.
            if entry.client.is_gone()
                || !is_excluded(&entry, access(context, &entry.client, entry.file.volume))
            {
                continue;
            }
            let is_full = self.free_entry(context, &entry, &mut work).is_err();
            if self.stateids.read(&entry.other).contains_key(&entry.other) {
                self.excluded.0.lock().found.push(entry);
            }
            if is_full {
                // The next tick tries again.
                return false;
            }
        }
        true
    }

    fn is_look_due(&self, now: Time) -> bool {
        let mut excluded = self.excluded.0.lock();
        let is_due = excluded.due.is_some_and(|due| now >= due);
        if is_due {
            let again = std::mem::take(&mut excluded.again);
            excluded.due = again.then(|| now.plus(self.config.lease));
        }
        is_due
    }

    fn find_excluded(&self, context: &Context<'_>) -> Vec<Arc<StateEntry>> {
        let known: RefCell<HashMap<(ClientId, VolumeId), HostAccess>> = RefCell::default();
        self.stateids.select(|entry| {
            let volume = entry.file.volume;
            let mut known = known.borrow_mut();
            let of = known
                .entry((entry.client.id, volume))
                .or_insert_with(|| access(context, &entry.client, volume));
            is_excluded(entry, *of)
        })
    }
}

/// Returns what a client may do in a volume, from whichever of its addresses.
fn access(context: &Context<'_>, client: &Client, volume: VolumeId) -> HostAccess {
    let of = |address: &IpAddr| context.store.access(*address, volume);
    client.addresses().iter().map(of).max().unwrap_or(HostAccess::None)
}

fn is_excluded(entry: &StateEntry, access: HostAccess) -> bool {
    match access {
        HostAccess::None => true,
        HostAccess::Read => entry.mode().is_some_and(|mode| mode.writes() || mode.denies()),
        HostAccess::Write => false,
    }
}
