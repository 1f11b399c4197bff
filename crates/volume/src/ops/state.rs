//! Records that protocols keep with a volume: their clients, opens and locks. The engine journals and returns them
//! without interpreting them.
//!
//! They survive restarts like every other record. They are not part of the tree: snapshots will not hold them, and
//! quotas do not count them.

use std::sync::atomic::Ordering;

use crate::api::request::{Durability, Error, RequestKey};
use crate::api::state::StateChange;
use crate::encoding::key;
use crate::encoding::key::{FIRST, Table};
use crate::limits::STATE_BYTES_PER_ENTRY_MAX;
use crate::tables::index::IndexError;
use crate::volume::{Subject, Volume};

impl Volume {
    /// Changes protocol state records, in order. Up to [`STATE_BYTES_PER_ENTRY_MAX`] go into one journal entry, so
    /// that a crash leaves all of them or none; of more it may leave the first.
    ///
    /// The caller ensures that no two threads change one record at once. The engine does not lock them: the journal
    /// could end up with one order and memory with the other.
    ///
    /// Returns what a reply that reveals the change waits for.
    ///
    /// # Errors
    /// `Invalid` if a key or a value is too long; `NoSpace` if something is put and there is no room to checkpoint
    /// it; `ReadOnly` if the volume refuses changes; `Busy` if the journal or the memtables are full at the moment.
    /// Then nothing, or the first entries of a long list, were changed: repeat all of it.
    pub fn change_state(&self, changes: &[StateChange]) -> Result<Durability, Error> {
        if !changes.iter().all(StateChange::fits) {
            return Err(Error::Invalid);
        }
        if self.deferred_state.cancel(changes) {
            return Ok(Durability::NOW);
        }
        let mut after = Durability::NOW;
        let mut rest = changes;
        while !rest.is_empty() {
            let mut bytes = 0;
            let fitting = rest.iter().take_while(|change| {
                bytes += change.bytes();
                bytes <= STATE_BYTES_PER_ENTRY_MAX
            });
            let (now, later) = rest.split_at(fitting.count().max(1));
            let puts = now.iter().any(|change| change.value.is_some());
            let mut change = if puts { self.begin()? } else { self.begin_freeing()? };
            change.put_state(now);
            after = Durability { seq: change.commit(), flush_generation: 0 };
            rest = later;
        }
        Ok(after)
    }

    /// Puts a protocol state record whose key is new, and for whose durability no reply waits. It is journaled before the
    /// volume's next change, or by [`Volume::journal_deferred_state`], unless [`Volume::change_state`] deletes it first.
    ///
    /// # Errors
    /// Those of [`Volume::change_state`]; the record was not put.
    pub fn defer_state(&self, put: &StateChange) -> Result<(), Error> {
        let value = put.value.as_ref().filter(|_| put.fits()).ok_or(Error::Invalid)?;
        let change = self.begin()?;
        // Others may take the room that was made.
        while !self.deferred_state.add(&put.key, value) {
            change.journal_deferred_state();
        }
        Ok(())
    }

    /// Journals the records that were deferred. Call it about once a second, so that a crash takes back no more than the
    /// latest of them.
    pub fn journal_deferred_state(&self) {
        if let Ok(change) = self.begin_background() {
            change.journal_deferred_state();
        }
    }

    /// Visits all protocol state records, in key order. May read media. Meant for the start of a server, as it reads
    /// the whole table.
    ///
    /// # Errors
    /// `Io` if the index cannot be read, or if records are lost, after all others were visited; `Busy` if the index is
    /// being opened again.
    pub fn scan_state(&self, visit: &mut dyn FnMut(&[u8], &[u8])) -> Result<(), Error> {
        let view = self.view();
        let scanned = view.each_of(FIRST, Table::State, &mut |key, value| {
            visit(key::parse(key).map_or(&[][..], |(_, _, fields)| fields), value);
        });
        let (from, to) = key::table_range(FIRST, Table::State);
        let complete = scanned.and_then(|()| match view.index.lost().meets(&from, &to) {
            true => Err(IndexError::lost()),
            false => Ok(()),
        });
        complete.map_err(|error| self.index_failed(Subject::Volume, &error))
    }

    /// Notes that whoever keeps the protocol state has dropped all that may depend on a record that was lost, in changes
    /// made before. From the next checkpoint on, [`Volume::scan_state`] succeeds again, unless more is lost by then.
    pub fn settle_state(&self) {
        self.is_state_settled.store(true, Ordering::Release);
    }

    /// Visits the keys of all cached requests, in no order. `visit` must not call the volume.
    pub fn remembered_keys(&self, visit: &mut dyn FnMut(&RequestKey)) {
        self.duplicate_requests.each_key(visit);
    }
}
