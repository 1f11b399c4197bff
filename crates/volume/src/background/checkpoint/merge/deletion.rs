//! Removal of deleted volumes from the index.

use std::ops::ControlFlow;

use super::{CheckpointError, Merge, PAGE};
use crate::api::ids::VolumeNumber;
use crate::encoding::key;
use crate::encoding::key::{Key, Table};
use crate::encoding::record::ExtentMapping;

impl Merge<'_> {
    /// Removes records of deleted volumes, and then those about the volumes.
    pub(super) fn delete_volumes(&mut self, volumes: &[VolumeNumber]) -> Result<(), CheckpointError> {
        for volume in volumes {
            // Otherwise a later checkpoint contains the deletion.
            if !self.volume(*volume)?.is_some_and(|record| record.is_deleted) {
                continue;
            }
            if !self.delete_some(*volume)? {
                self.outcome.more_to_reap = true;
                return Ok(());
            }
            self.index.delete(&key::volume(*volume))?;
            self.outcome.deleted.push(*volume);
        }
        Ok(())
    }

    /// Removes records of a deleted volume, as many as the budget allows. Returns whether those were the last.
    fn delete_some(&mut self, volume: VolumeNumber) -> Result<bool, CheckpointError> {
        let (from, to) = key::volume_range(volume);
        while self.budget > 0 {
            let mut page: Vec<(Key, Option<(u64, ExtentMapping)>)> = Vec::with_capacity(PAGE);
            self.index.scan(&from, &to, &mut |key, value| {
                let end = match key::parse(key) {
                    Some((_, Table::Map, fields)) => key::second_number(fields),
                    _ => None,
                };
                page.push((key.into(), end.zip(ExtentMapping::decode(value).ok())));
                if page.len() == PAGE { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
            })?;
            for (key, mapping) in &page {
                if let Some((end, mapping)) = mapping {
                    self.count(volume, (mapping, *end), -1);
                }
                self.index.delete(key)?;
            }
            self.budget = self.budget.saturating_sub(page.len());
            if page.len() < PAGE {
                return Ok(true);
            }
        }
        Ok(false)
    }
}
