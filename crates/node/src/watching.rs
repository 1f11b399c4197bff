//! Watches the lease of a group, in a thread of its own: a store that does not answer about one group holds up no other.

use std::io;
use std::sync::{Arc, Condvar, Mutex, Weak};
use std::thread;

use cluster::{Action, Answer, ERROR_PAUSE, Event, Identity, Lease, Name, POLL, Phase, Sight, Time, Version};
use store::boot_time;

use crate::group::lock;
use crate::handover::Watched;
use crate::records::GroupRecords;

/// A lease that is watched. The watching ends when this is dropped, or when the store next answers.
pub(crate) struct Watching {
    state: Arc<Inner>,
}

struct Inner {
    lease: Mutex<Lease>,
    stirred: Condvar,
}

impl Watching {
    /// Begins to watch on behalf of `node`.
    pub(crate) fn start(node: &Name, group: &str, records: Arc<dyn GroupRecords>) -> io::Result<Watching> {
        let inner = Arc::new(Inner { lease: Mutex::new(new_lease(node)), stirred: Condvar::new() });
        let (watched, node) = (Arc::downgrade(&inner), node.clone());
        let thread = thread::Builder::new().name(format!("lease {group}"));
        thread.spawn(move || watch(&watched, &node, &*records))?;
        Ok(Watching { state: inner })
    }

    /// Returns what is seen; none if the group was never served, or nothing is known yet.
    pub(crate) fn sight(&self, now: Time) -> Option<Sight> {
        let lease = lock(&self.state.lease);
        let (record, unchanged) = lease.seen(now)?;
        Some(Sight { owner: record.owner.node().clone(), state: record.state.clone(), unchanged })
    }

    /// Returns what a server of this machine goes on with.
    pub(crate) fn watched(&self) -> Option<Watched> {
        let watched = lock(&self.state.lease).watched()?;
        Some(Watched {
            version: watched.version.0,
            since: watched.since.as_nanos(),
            confirmed: watched.confirmed.as_nanos(),
        })
    }

    /// Has the lease read at once.
    pub(crate) fn stir(&self) {
        lock(&self.state.lease).on_event(now(), Event::Notified);
        self.state.stirred.notify_all();
    }
}

/// Returns a machine that watches, and takes nothing.
fn new_lease(node: &Name) -> Lease {
    let identity = Identity::new(node.clone(), 0, "").expect("no addresses are short");
    Lease::new(identity, now())
}

pub(crate) fn now() -> Time {
    Time::from_nanos(boot_time())
}

fn watch(inner: &Weak<Inner>, node: &Name, records: &dyn GroupRecords) {
    while let Some(inner) = inner.upgrade() {
        let action = lock(&inner.lease).poll(now());
        let pause = match action {
            Some(Action::Read { call }) => {
                // The group may be dropped while the store does not answer.
                let weak = Arc::downgrade(&inner);
                drop(inner);
                let answer = read(records);
                let Some(inner) = weak.upgrade() else { return };
                let mut lease = lock(&inner.lease);
                lease.on_event(now(), Event::Answer { call, answer });
                if let Phase::Ended(_) = lease.phase() {
                    // There is none yet.
                    *lease = new_lease(node);
                    drop(lease);
                    drop(inner);
                    thread::sleep(POLL);
                }
                continue;
            }
            // It has no candidacy, and asks for nothing else.
            Some(_) => continue,
            None => lock(&inner.lease).wake().map_or(POLL, |wake| wake.since(now())),
        };
        let lease = lock(&inner.lease);
        drop(inner.stirred.wait_timeout(lease, pause.min(POLL)));
    }
}

fn read(records: &dyn GroupRecords) -> Answer {
    match records.lease() {
        Ok(Some((bytes, version))) => Answer::Read { version: Version(version), bytes },
        Ok(None) => Answer::Missing,
        Err(_) => {
            thread::sleep(ERROR_PAUSE);
            Answer::Failed
        }
    }
}
