//! Files that protocols hold open. Where the last name of one is removed, the file stays as an *orphan*: without a name,
//! reached by its handle, until nobody holds it any more.
//!
//! Who holds what is in memory only. That a file is an orphan is a record, so that it is found again after a restart, when
//! the protocol says anew what it holds.

use std::collections::BTreeSet;

use foldhash::HashMap;
use parking_lot::Mutex;

use crate::api::ids::Ino;
use crate::api::request::{Access, Durability, Error, Failure, Promised};
use crate::api::time::Time;
use crate::encoding::key;
use crate::transaction::attempt::Stop;
use crate::volume::{Progress, Volume};

/// Who is held, and who has no name.
#[derive(Debug, Default)]
pub struct Orphans {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// How often each file is held.
    held: HashMap<Ino, u64>,
    /// Files without a name.
    orphans: BTreeSet<Ino>,
    /// Those of them that are to go.
    leaving: BTreeSet<Ino>,
}

impl Orphans {
    /// The orphans of a volume that is opened: they stay until [`Volume::reap_orphans`] is called.
    pub fn new(orphans: BTreeSet<Ino>) -> Orphans {
        Orphans { state: Mutex::new(State { orphans, ..State::default() }) }
    }

    /// Whether anybody holds a file.
    pub fn is_held(&self, ino: Ino) -> bool {
        self.state.lock().held.contains_key(&ino)
    }

    /// Notes that a file which is held lost its last name. Its holder may have let go of it just now.
    pub fn add(&self, ino: Ino) {
        let mut state = self.state.lock();
        state.orphans.insert(ino);
        if !state.held.contains_key(&ino) {
            state.leaving.insert(ino);
        }
    }

    /// Notes that an orphan is gone.
    fn remove(&self, ino: Ino) {
        let mut state = self.state.lock();
        state.orphans.remove(&ino);
        state.leaving.remove(&ino);
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.state.lock().orphans.len()
    }
}

impl Volume {
    /// Keeps a file from going with its last name, until [`Volume::release`] was called as often. Held first, then looked
    /// at: a file that an operation finds after this call stays.
    ///
    /// Costs some 50 bytes of memory for each file that is held; the caller bounds how many are.
    pub fn hold(&self, ino: Ino) {
        let mut state = self.orphans.state.lock();
        *state.held.entry(ino).or_default() += 1;
        state.leaving.remove(&ino);
    }

    /// Undoes one [`Volume::hold`]. A file that has no name and is held no more goes soon after, see
    /// [`Volume::step_orphans`].
    pub fn release(&self, ino: Ino) {
        let mut state = self.orphans.state.lock();
        let Some(times) = state.held.get_mut(&ino) else { return };
        *times -= 1;
        if *times == 0 {
            state.held.remove(&ino);
            if state.orphans.contains(&ino) {
                state.leaving.insert(ino);
            }
        }
    }

    /// Files without a name, by number.
    pub fn orphans(&self) -> Vec<Ino> {
        self.orphans.state.lock().orphans.iter().copied().collect()
    }

    /// Lets all orphans go that nobody holds: for after a start, when the holders have said what they hold.
    pub fn reap_orphans(&self) {
        let mut state = self.orphans.state.lock();
        let State { held, orphans, leaving } = &mut *state;
        leaving.extend(orphans.iter().filter(|ino| !held.contains_key(ino)));
    }

    /// Removes one orphan that nobody holds any more. May read media.
    pub fn step_orphans(&self, _now: Time) -> Progress {
        let Some(ino) = self.orphans.state.lock().leaving.first().copied() else { return Progress::Idle };
        match self.run(Access::Blocking, |attempt| {
            let mut state = match attempt.lock(ino) {
                Ok(state) => Some(state),
                // A row without a file, which `check` reports.
                Err(Stop::Failed(Failure { error: Error::Stale, .. })) => None,
                Err(stop) => return Err(stop),
            };
            // Somebody may hold it again, before it was locked.
            if self.orphans.is_held(ino) {
                return Ok(Promised { value: (), after: Durability::NOW });
            }
            let mut change = self.begin_freeing()?;
            change.forget(key::orphan(ino));
            if let Some(state) = state.as_deref_mut().filter(|state| state.record().links == 0) {
                self.remove_object(&mut change, state);
                let seq = change.commit();
                self.set_unlinked(state, None);
                state.seq = seq;
            } else {
                change.commit();
            }
            self.orphans.remove(ino);
            Ok(Promised { value: (), after: Durability::NOW })
        }) {
            Ok(_) => Progress::Worked,
            Err(Failure { error: Error::Busy | Error::ReadOnly, .. }) => Progress::Idle,
            Err(_) => {
                // It cannot be read, which was reported. The next start tries again.
                self.orphans.state.lock().leaving.remove(&ino);
                Progress::Worked
            }
        }
    }
}
