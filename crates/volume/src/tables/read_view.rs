//! The view that lookups read through: active memtable, frozen memtable, index.

use std::collections::{BTreeMap, HashSet, VecDeque};
use std::ops::ControlFlow;
use std::sync::Arc;

use crate::api::ids::{Layer, ObjectId, VolumeNumber};
use crate::bytes::Value;
use crate::encoding::entry::Slot;
use crate::encoding::key;
use crate::encoding::key::{Key, Table};
use crate::encoding::record::UsageRecord;
use crate::limits::RECENT_VERSIONS_INODES_MAX;
use crate::tables::index::{Found, IndexError, Snapshot};
use crate::tables::memtable::Memtable;
use crate::tables::usage::Counter;

/// Checkpoints whose changed inodes are remembered, so that cached maps of all others stay valid.
const RECENT_VERSIONS_MAX: usize = 16;

/// A consistent stack of layers. Replaced as a whole when a memtable is frozen and when a checkpoint is done.
#[derive(Clone, Debug)]
pub struct ReadView {
    /// Receives changes.
    pub active: Arc<Memtable>,
    /// Being checkpointed.
    pub frozen: Option<Arc<Memtable>>,
    /// Everything older.
    pub index: Arc<Snapshot>,
    /// Version of the index: what was read from another version may be stale.
    pub version: u64,
    /// For recent versions, newest last: the inodes whose maps in the index changed with it.
    pub recent_versions: VecDeque<(u64, Arc<HashSet<ObjectId>>)>,
}

impl ReadView {
    /// Returns what the memtables hold for a key; `None` if only the index may.
    pub fn recent(&self, key: &Key) -> Option<Slot> {
        self.active.get(key).or_else(|| self.frozen.as_ref()?.get(key))
    }

    /// Returns the number of the oldest memtable.
    pub fn oldest_in_memory(&self) -> Layer {
        self.frozen.as_ref().unwrap_or(&self.active).layer
    }

    /// Looks a record up in all layers; may read media.
    pub fn get(&self, key: &Key) -> Result<Slot, IndexError> {
        match self.recent(key) {
            Some(slot) => Ok(slot),
            None => Ok(self.index.get(key)?.map(Value::from)),
        }
    }

    /// Returns the value of a usage counter that the index has as `stored`.
    pub fn usage(&self, counter: Counter, stored: UsageRecord) -> UsageRecord {
        let layers = self.frozen.iter().chain([&self.active]);
        layers.filter_map(|layer| layer.usage.of(counter)).fold(stored, |used, change| change.of(used))
    }

    /// Whether mappings of `id` read from the index at `version` are still current.
    pub fn is_map_current(&self, id: ObjectId, version: u64) -> bool {
        let Some(note_miss) = self.version.checked_sub(version) else { return false };
        let known = self.recent_versions.iter().filter(|(switch, _)| *switch > version);
        note_miss == 0
            || (known.clone().count() as u64 == note_miss
                && known.into_iter().all(|(_, inos)| !inos.contains(&id)))
    }

    /// Returns the view after a checkpoint of the frozen memtable.
    pub fn with_index(&self, index: Arc<Snapshot>, changed: HashSet<ObjectId>) -> ReadView {
        let mut recent_versions = self.recent_versions.clone();
        recent_versions.push_back((self.version + 1, Arc::new(changed)));
        let mut inodes: usize = recent_versions.iter().map(|(_, inos)| inos.len()).sum();
        while recent_versions.len() > RECENT_VERSIONS_MAX || inodes > RECENT_VERSIONS_INODES_MAX {
            let Some((_, oldest)) = recent_versions.pop_front() else { break };
            inodes -= oldest.len();
        }
        ReadView {
            active: Arc::clone(&self.active),
            frozen: None,
            index,
            version: self.version + 1,
            recent_versions,
        }
    }

    /// Returns the first `max` records with `from <= key < to`, both within one inode of one table; may read media.
    pub fn scan(&self, from: &Key, to: &Key, max: usize) -> Result<Vec<(Key, Value)>, IndexError> {
        Ok(self.scan_some(from, to, max, usize::MAX)?.0)
    }

    /// The same, but stops after about `removed_max` records that were removed or replaced. Also returns where the rest
    /// begins, if it stopped so.
    pub fn scan_some(
        &self,
        from: &Key,
        to: &Key,
        max: usize,
        removed_max: usize,
    ) -> Result<(Vec<(Key, Value)>, Option<Key>), IndexError> {
        let mut from = from.clone();
        let mut examined = 0;
        let mut found: Vec<(Key, Value)> = Vec::new();
        let mut page = max;
        while found.len() < max {
            let mut merged: Vec<(Key, Slot)> = Vec::with_capacity(page);
            let bounds = [
                self.page_of_index(&from, to, page, &mut merged)?,
                self.frozen.as_ref().and_then(|frozen| page_of(frozen, &from, to, page, &mut merged)),
                page_of(&self.active, &from, to, page, &mut merged),
            ];
            // Of equal keys the last is from the newest layer. Each layer's records are sorted, so this merges.
            merged.sort_by(|(a, _), (b, _)| a.cmp(b));
            examined += merged.len();
            // Beyond the least of these, some layer has more to read.
            let complete_to: Option<Key> = bounds.into_iter().flatten().min();
            let mut merged = merged.into_iter().peekable();
            while let Some((key, slot)) = merged.next() {
                if complete_to.as_ref().is_some_and(|bound| key > *bound) || found.len() == max {
                    break;
                }
                let is_newest = merged.peek().is_none_or(|(next, _)| *next != key);
                if let Some(value) = slot.filter(|_| is_newest) {
                    found.push((key, value));
                }
            }
            let Some(bound) = complete_to else { break };
            from = bound.successor();
            if found.len() < max && examined - found.len() >= removed_max {
                return Ok((found, Some(from)));
            }
            // Tombstones hide other records, so a page of each layer may yield fewer than wanted.
            page = max - found.len() + 64;
        }
        Ok((found, None))
    }

    /// Visits all records of a table in key order, across inodes; passes over lost ones. Reads media, and holds the
    /// memtables' records of that table in memory.
    pub fn each_of(
        &self,
        volume: VolumeNumber,
        table: Table,
        visit: &mut dyn FnMut(&[u8], &[u8]),
    ) -> Result<(), IndexError> {
        let mut recent: BTreeMap<Key, Slot> = BTreeMap::new();
        for memtable in self.frozen.iter().chain([&self.active]) {
            memtable.each_of(volume, table, &mut |key, slot| {
                recent.insert(key.clone(), slot.clone());
            });
        }
        let (from, to) = key::table_range(volume, table);
        let mut newer = recent.into_iter().peekable();
        self.index.scan_around(&from, &to, &mut |found| {
            let Found::Record(key, value) = found else { return ControlFlow::Continue(()) };
            while let Some((key, slot)) = newer.next_if(|(newer, _)| **newer < *key) {
                slot.inspect(|value| visit(&key, value));
            }
            match newer.next_if(|(newer, _)| **newer == *key) {
                Some((key, slot)) => drop(slot.inspect(|value| visit(&key, value))),
                None => visit(key, value),
            }
            ControlFlow::Continue(())
        })?;
        for (key, slot) in newer {
            slot.inspect(|value| visit(&key, value));
        }
        Ok(())
    }

    /// Adds a page of the index; returns its last key if more may follow.
    fn page_of_index(
        &self,
        from: &[u8],
        to: &[u8],
        max: usize,
        into: &mut Vec<(Key, Slot)>,
    ) -> Result<Option<Key>, IndexError> {
        let (mut count, mut last) = (0, None);
        self.index.scan(from, to, &mut |key, value| {
            into.push((key.into(), Some(value.into())));
            count += 1;
            if count == max {
                last = Some(Key::from(key));
                return ControlFlow::Break(());
            }
            ControlFlow::Continue(())
        })?;
        Ok(last)
    }
}

fn page_of(
    memtable: &Memtable,
    from: &Key,
    to: &Key,
    max: usize,
    into: &mut Vec<(Key, Slot)>,
) -> Option<Key> {
    let (mut count, mut last) = (0, None);
    memtable.scan(from, to, &mut |key, slot| {
        into.push((key.clone(), slot.clone()));
        count += 1;
        if count == max {
            last = Some(key.clone());
            return ControlFlow::Break(());
        }
        ControlFlow::Continue(())
    });
    last
}

#[cfg(test)]
mod tests;
