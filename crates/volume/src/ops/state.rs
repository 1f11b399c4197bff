//! Records that protocols keep with a volume: their clients, opens and locks. The engine journals and returns them
//! without interpreting them.
//!
//! They survive restarts like every other record. They are not part of the tree: snapshots will not hold them, and
//! quotas do not count them.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::api::request::{Durability, Error, RequestKey};
use crate::api::state::{DeferredValue, StateChange, StateKey};
use crate::encoding::key;
use crate::encoding::key::{POOL, Table};
use crate::limits::{STATE_BYTES_PER_ENTRY_MAX, STATE_VALUE_BYTES_MAX};
use crate::pool::{Pool, Subject};
use crate::tables::index::IndexError;
use crate::volume::Volume;

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
    /// `Invalid` if a value is too long; `NoSpace` if something is put and there is no room
    /// even for that; `ReadOnly` if the volume refuses changes; `Busy` if the journal or the memtables are full at the moment.
    /// Then nothing, or the first entries of a long list, were changed: repeat all of it.
    pub fn change_state(&self, changes: &[StateChange]) -> Result<Durability, Error> {
        if !changes.iter().all(StateChange::fits) {
            return Err(Error::Invalid);
        }
        if self.deferred_state.cancel(self.number(), changes) {
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
            let mut change = if puts { self.begin_state()? } else { self.begin_freeing()? };
            change.put_state(now);
            after = Durability::of(change.commit());
            rest = later;
        }
        Ok(after)
    }

    /// Puts a protocol state record whose key is new, and for whose durability no reply waits. It is journaled before the
    /// volume's next change, or by [`Pool::journal_deferred_state`], unless [`Volume::change_state`] deletes it first.
    ///
    /// # Errors
    /// Those of [`Volume::change_state`]; the record was not put.
    pub fn defer_state(&self, key: StateKey, value: Arc<dyn DeferredValue>) -> Result<(), Error> {
        if value.bytes_max() > STATE_VALUE_BYTES_MAX {
            return Err(Error::Invalid);
        }
        let view = self.may_keep_state()?;
        let Err(mut record) = self.deferred_state.add((self.number(), key, value)) else { return Ok(()) };
        drop(view);
        let change = self.begin_state()?;
        // Others may take the room that was made.
        while let Err(again) = self.deferred_state.add(record) {
            change.journal_deferred_state();
            record = again;
        }
        Ok(())
    }

    /// Visits all protocol state records, in key order. May read media. Meant for the start of a server, as it reads
    /// the whole table.
    ///
    /// # Errors
    /// `Io` if the index cannot be read, or if records are lost, after all others were visited; `Busy` if the index is
    /// being opened again.
    pub fn scan_state(&self, visit: &mut dyn FnMut(&[u8], &[u8])) -> Result<(), Error> {
        let view = self.view();
        let scanned = view.each_of(self.number(), Table::State, &mut |key, value| {
            visit(key::parse(key).map_or(&[][..], |(_, _, fields)| fields), value);
        });
        let (from, to) = key::table_range(self.number(), Table::State);
        let complete = scanned.and_then(|()| match view.index.lost().meets(&from, &to) {
            true => Err(IndexError::lost()),
            false => Ok(()),
        });
        complete.map_err(|error| self.index_failed(Subject::Pool, &error))
    }

    /// Notes that whoever keeps the protocol state has dropped all that may depend on a record that was lost, in changes
    /// made before. From the next checkpoint on, [`Volume::scan_state`] succeeds again, unless more is lost by then.
    pub fn settle_state(&self) {
        self.own.is_state_settled.store(true, Ordering::Release);
    }

    /// Visits the keys of all its cached requests, in no order. `visit` must not call the volume.
    pub fn remembered_keys(&self, visit: &mut dyn FnMut(&RequestKey)) {
        self.duplicate_requests.each_key(self.number(), visit);
    }
}

impl Pool {
    /// Journals the records that were deferred. Call it about once a second, so that a crash takes back no more than the
    /// latest of them.
    pub fn journal_deferred_state(&self) {
        if let Ok(change) = self.begin_background(POOL) {
            change.journal_deferred_state();
        }
    }
}
