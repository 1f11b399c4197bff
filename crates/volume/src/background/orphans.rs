//! Files that protocols hold open. Where the last name of one is removed, the file stays as an *orphan*: without a name,
//! reached by its handle, until nobody holds it any more.
//!
//! Who holds what is in memory only. That a file is an orphan is a record, so that it is found again after a restart, when
//! the protocol says anew what it holds.

use crate::api::ids::Ino;
use crate::api::request::{Access, Durability, Error, Failure, Promised};
use crate::api::time::Time;
use crate::background::Progress;
use crate::encoding::key;
use crate::transaction::attempt::Stop;
use crate::volume::Volume;

impl Volume {
    /// Keeps a file from going with its last name, until [`Volume::release`] was called as often. Held first, then looked
    /// at: a file that an operation finds after this call stays.
    ///
    /// Costs some 50 bytes of memory for each file that is held; the caller bounds how many are.
    pub fn hold(&self, ino: Ino) {
        self.orphans.hold(ino);
    }

    /// Undoes one [`Volume::hold`]. A file that has no name and is held no more goes soon after, see
    /// [`Volume::step_orphans`].
    pub fn release(&self, ino: Ino) {
        self.orphans.release(ino);
    }

    /// Files without a name, by number.
    pub fn orphans(&self) -> Vec<Ino> {
        self.orphans.list()
    }

    /// Lets all orphans go that nobody holds: for after a start, when the holders have said what they hold.
    pub fn reap_orphans(&self) {
        self.orphans.release_unheld();
    }

    /// Removes one orphan that nobody holds any more. May read media.
    pub fn step_orphans(&self, _now: Time) -> Progress {
        let Some(ino) = self.orphans.next_to_remove() else { return Progress::Idle };
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
                self.orphans.give_up(ino);
                Progress::Worked
            }
        }
    }
}
