//! Keeps the caches of names in step with transactions.

use std::ops::ControlFlow;

use crate::api::ids::ObjectId;
use crate::cache::negative_lookups::NameChange;
use crate::encoding::entry::Slot;
use crate::encoding::key;
use crate::encoding::key::{Key, Table};
use crate::encoding::record::NameRecord;
use crate::file::inodes::Presence;
use crate::pool::Pool;

impl Pool {
    /// Applies a transaction's names to the name cache, and returns the changes that the filter needs once the
    /// transaction is in the memtable. The directories are locked.
    pub(super) fn follow_names(&self, records: &[(Key, Slot)]) -> Vec<NameChange> {
        let change = |(key, slot): &(Key, Slot)| match (key::parse(key)?, slot) {
            ((_, Table::Inode, _), None) => Some(NameChange::Gone(key::object(key)?)),
            ((_, Table::Name, fields), slot) => {
                let (directory, name) = (key::object(key)?, fields.get(8..)?);
                match slot.as_deref().map(NameRecord::decode) {
                    Some(Ok(record)) => self.name_cache.put(directory, name, &record),
                    _ => self.name_cache.remove(directory, name),
                }
                let hash = self.negative_lookups.hash(name);
                Some(match slot {
                    Some(_) => NameChange::Added(directory, hash),
                    None => NameChange::Removed(directory, hash),
                })
            }
            _ => None,
        };
        records.iter().filter_map(change).collect()
    }

    /// After a failed lookup of a name, reads the names of its directory into the filter, if that is worthwhile.
    /// Reads media, so no lock may be held.
    pub(crate) fn fill_filter_around(&self, key: &Key) {
        let Some((_, Table::Name, _)) = key::parse(key) else { return };
        let Some(directory) = key::object(key) else { return };
        let cell = self.inodes.get(directory, self.committer.durable(), self.flushed_generation());
        let entries = match &cell.lock().presence {
            Presence::Present(record) => record.entries,
            _ => return,
        };
        if let Some(reading) = self.negative_lookups.note_miss(directory, entries) {
            let hashes = self.hashes_of(directory);
            self.negative_lookups.fill(directory, reading, hashes.as_deref());
        }
    }

    /// Returns the hashes of all names in a directory, and of some removed ones; `None` if they cannot be read.
    fn hashes_of(&self, directory: ObjectId) -> Option<Vec<u64>> {
        let view = self.view();
        let (from, to) = (key::name(directory, b""), key::name(directory.next(), b""));
        let mut hashes = Vec::new();
        let mut take = |key: &[u8]| {
            hashes.push(self.negative_lookups.hash(key.get(from.len()..).unwrap_or_default()));
            ControlFlow::Continue(())
        };
        for memtable in [Some(&view.active), view.frozen.as_ref()].into_iter().flatten() {
            memtable.scan_in_parts(&from, &to, &mut |key, slot| match slot {
                Some(_) => take(key),
                None => ControlFlow::Continue(()),
            });
        }
        view.index.scan(&from, &to, &mut |key, _| take(key)).ok()?;
        Some(hashes)
    }
}
