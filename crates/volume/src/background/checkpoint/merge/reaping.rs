//! Frees the maps of removed files, and what truncations hid, in bounded portions.
//!
//! Every mapping that is looked at counts, whether it is freed or stays. A file that is not done goes on where it stopped, and
//! files take turns, so that none waits for a huge one.

use std::ops::ControlFlow;

use super::{Merge, PAGE, clip_mapping, decode_inode};
use crate::api::ids::{Ino, ObjectId, VolumeNumber};
use crate::background::checkpoint::CheckpointError;
use crate::encoding::entry::Slot;
use crate::encoding::key;
use crate::encoding::key::{Key, POOL, Table};
use crate::encoding::record::{InodeRecord, ReapRecord};
use crate::limits::REAPED_MAPPINGS_MAX;
use crate::tables::index::IndexError;

/// Mappings of a file that are looked at when its truncation comes to the index; most files have fewer.
const FIRST_SHARE: usize = 4 * PAGE;

impl Merge<'_> {
    /// Frees what truncations hid; a record loses its pending truncations once they are done.
    pub(super) fn clear_truncated(&mut self, records: &[(Key, Slot)]) -> Result<(), CheckpointError> {
        for (key, slot) in records {
            let (Some((_, Table::Inode, _)), Some(value)) = (key::parse(key), slot) else { continue };
            let Some(id) = key::object(key) else { continue };
            let record = decode_inode(value)?;
            if !record.pending_truncations.is_empty() {
                self.clear_truncated_of(id, record, FIRST_SHARE)?;
            }
        }
        Ok(())
    }

    /// Frees what truncations of one file hid, after looking at no more than about `share` mappings. Returns whether that was
    /// all.
    fn clear_truncated_of(
        &mut self,
        id: ObjectId,
        mut record: InodeRecord,
        share: usize,
    ) -> Result<bool, CheckpointError> {
        let row = self.index.get(&key::reap(id))?;
        let reached = row.as_ref().and_then(|value| ReapRecord::decode(value).ok()).unwrap_or_default();
        let mut from = reached.resume(&record);
        let mut left = share.min(self.budget);
        self.outcome.maps.insert(id);
        loop {
            if left == 0 {
                let reached = ReapRecord { offset: from, truncations: record.truncations };
                self.index.put(&key::reap(id), &reached.encode())?;
                return Ok(false);
            }
            let page = self.page(id, from, u64::MAX)?;
            for (end, mapping) in &page {
                let visible = record.visible_end(mapping.birth);
                if visible >= *end {
                    continue;
                }
                self.drop_mapping(id, *end, mapping)?;
                if visible > mapping.start {
                    self.put_mapping(id, visible, &clip_mapping(mapping, mapping.start, visible))?;
                }
            }
            left = left.saturating_sub(self.spend(page.len()));
            match page.last() {
                Some((last, _)) if page.len() == PAGE => from = *last,
                _ => break,
            }
        }
        self.outcome.cleared.push((id, record.truncations));
        record.pending_truncations.clear();
        self.index.put(&key::inode(id), &record.encode())?;
        if row.is_some() {
            self.index.delete(&key::reap(id))?;
        }
        Ok(true)
    }

    /// Takes what was looked at out of the budget, and returns it: one at least.
    fn spend(&mut self, mappings: usize) -> usize {
        let spent = mappings.max(1);
        self.budget = self.budget.saturating_sub(spent);
        spent
    }

    /// Frees the maps of removed files, and continues with truncations that were too large for an earlier checkpoint: first
    /// those after `last`, where the checkpoint before stopped. If the record of an inode is lost, its map stays, as nobody
    /// knows whether the file was removed.
    pub(super) fn reap(&mut self, last: Option<ObjectId>) -> Result<(), CheckpointError> {
        let (mut waiting, are_all) = self.waiting_to_be_reaped(last)?;
        while self.budget > 0 && !waiting.is_empty() {
            let share = (self.budget / waiting.len()).max(PAGE);
            let mut unfinished = Vec::new();
            for id in waiting {
                if self.budget == 0 {
                    unfinished.push(id);
                    continue;
                }
                self.outcome.last_reaped = Some(id);
                if !self.reap_some(id, share)? {
                    unfinished.push(id);
                }
            }
            waiting = unfinished;
        }
        self.outcome.more_to_reap |= !waiting.is_empty() || !are_all;
        Ok(())
    }

    /// Goes on with one file, and returns whether nothing more can be done for it.
    fn reap_some(&mut self, id: ObjectId, share: usize) -> Result<bool, CheckpointError> {
        self.outcome.maps.insert(id);
        if let Some(value) = self.index.get(&key::inode(id))? {
            return self.clear_truncated_of(id, decode_inode(&value)?, share);
        }
        if self.index.is_lost(&key::inode(id)) {
            self.spend(1);
            return Ok(true);
        }
        let mut left = share.min(self.budget);
        while left > 0 {
            let page = self.page(id, 0, u64::MAX)?;
            for (end, mapping) in &page {
                self.drop_mapping(id, *end, mapping)?;
            }
            left = left.saturating_sub(self.spend(page.len()));
            if page.len() < PAGE {
                self.reap_xattrs(id)?;
                self.index.delete(&key::reap(id))?;
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Deletes the extended attributes of a removed object: few, as their bytes are bounded.
    fn reap_xattrs(&mut self, id: ObjectId) -> Result<(), IndexError> {
        let mut keys: Vec<Key> = Vec::new();
        let (from, to) = (key::xattr(id, b""), key::xattr(id.next(), b""));
        self.index.scan(&from, &to, &mut |key, _| {
            keys.push(key.into());
            ControlFlow::Continue(())
        })?;
        self.budget = self.budget.saturating_sub(keys.len());
        keys.iter().try_for_each(|key| self.index.delete(key))
    }

    /// Returns files of the reap table, as many as the budget could serve, in their order from the one after `last` on, and
    /// whether these are all.
    fn waiting_to_be_reaped(&self, last: Option<ObjectId>) -> Result<(Vec<ObjectId>, bool), CheckpointError> {
        let mut waiting = Vec::new();
        let (first, end) = key::table_range(POOL, Table::Reap);
        let turn = last.map_or(VolumeNumber(0).object(Ino(0)), ObjectId::next);
        for (from, to) in [(&key::reap(turn), &end), (&first, &key::reap(turn))] {
            self.index.scan(from, to, &mut |key, _| {
                if waiting.len() > REAPED_MAPPINGS_MAX {
                    return ControlFlow::Break(());
                }
                waiting.extend(key::parse(key).and_then(|(_, _, fields)| key::reaped(fields)));
                ControlFlow::Continue(())
            })?;
        }
        let are_all = waiting.len() <= REAPED_MAPPINGS_MAX;
        waiting.truncate(REAPED_MAPPINGS_MAX);
        Ok((waiting, are_all))
    }
}
