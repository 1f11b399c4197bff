//! Files that protocols hold open. If the last name of one is removed, the file stays as an *orphan*: without a name,
//! reached by its handle, until its last holder releases it.
//!
//! Holders are kept in memory only. An orphan has a record, so a restart finds it, and the protocol declares its
//! holders again.

use crate::api::ids::Ino;
use crate::api::request::{Access, Durability, Error, Failure, Promised};
use crate::api::time::Time;
use crate::background::Progress;
use crate::encoding::key;
use crate::encoding::key::Table;
use crate::pool::Pool;
use crate::transaction::attempt::Stop;
use crate::volume::Volume;

impl Volume {
    /// Keeps a file when its last name is removed, until [`Volume::release`] has been called as often. Call this
    /// before looking the file up: a file found after this call stays.
    ///
    /// Costs some 50 bytes of memory for each held file; the caller bounds their number.
    pub fn hold(&self, ino: Ino) {
        self.orphans.hold(self.object(ino));
    }

    /// Undoes one [`Volume::hold`]. A file without names and holders is removed soon after, see
    /// [`Pool::step_orphans`].
    pub fn release(&self, ino: Ino) {
        self.orphans.release(self.object(ino));
    }

    /// Returns the files without a name, by number.
    pub fn orphans(&self) -> Vec<Ino> {
        self.orphans.list(self.number())
    }

    /// Releases all orphans without holders: call it after a start, when the holders have declared what they hold. Where
    /// records of holders are lost, it is unknown what they hold, and the orphans stay.
    pub fn reap_orphans(&self) {
        let (from, to) = key::table_range(self.number(), Table::State);
        if self.view().index.lost().meets(&from, &to) {
            tracing::warn!("files without a name are kept, because records of opens are lost");
            return;
        }
        self.orphans.release_unheld(self.number());
    }
}

impl Pool {
    /// Removes one orphan without holders. May read media.
    pub fn step_orphans(&self, _now: Time) -> Progress {
        let Some(id) = self.orphans.next_to_remove() else { return Progress::Idle };
        match self.run(Access::Blocking, |attempt| {
            let mut state = match attempt.lock(id) {
                Ok(state) => Some(state),
                // A row without a file, which `check` reports.
                Err(Stop::Failed(Failure { error: Error::Stale, .. })) => None,
                Err(stop) => return Err(stop),
            };
            // It may have gained a holder before it was locked.
            if self.orphans.is_held(id) {
                return Ok(Promised { value: (), after: Durability::NOW });
            }
            let mut change = self.begin_freeing(id.volume)?;
            change.forget(key::orphan(id));
            if let Some(state) = state.as_deref_mut().filter(|state| state.record().links == 0) {
                self.remove_object(&mut change, state);
                let seq = change.commit();
                self.set_unlinked(state, None);
                state.seq = seq;
            } else {
                change.commit();
            }
            self.orphans.remove(id);
            Ok(Promised { value: (), after: Durability::NOW })
        }) {
            Ok(_) => Progress::Worked,
            Err(Failure { error: Error::Busy | Error::ObjectBusy | Error::ReadOnly, .. }) => Progress::Idle,
            Err(_) => {
                // The file cannot be read, which was logged. The next start tries again.
                self.orphans.give_up(id);
                Progress::Worked
            }
        }
    }
}
