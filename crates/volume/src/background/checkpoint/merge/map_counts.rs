//! How many mappings the index has of each volume: what a volume's size limits besides bytes and objects.

use std::sync::atomic::Ordering;

use super::Merge;
use crate::api::ids::VolumeNumber;
use crate::encoding::key;
use crate::encoding::record::MapCountRecord;
use crate::pool::Pool;
use crate::tables::index::IndexError;

impl Merge<'_> {
    /// Writes the numbers that changed, of volumes that there are, and returns them. A number of zero has no record.
    pub(super) fn apply_map_counts(&mut self) -> Result<Vec<(VolumeNumber, u64)>, IndexError> {
        let mut counts = Vec::new();
        for (volume, change) in std::mem::take(&mut self.map_counts) {
            // That of a deleted volume goes with its other records.
            if change == 0 || self.volume(volume)?.is_none_or(|record| record.is_deleted) {
                continue;
            }
            let key = key::map_count(volume);
            let stored = self.index.get(&key)?.and_then(|value| MapCountRecord::decode(&value).ok());
            let mappings = stored.unwrap_or_default().mappings.saturating_add_signed(change);
            if mappings == 0 {
                self.index.delete(&key)?;
            } else {
                self.index.put(&key, &MapCountRecord { mappings }.encode())?;
            }
            counts.push((volume, mappings));
        }
        Ok(counts)
    }
}

impl Pool {
    /// Shows volumes how many mappings the index has of them now.
    pub(super) fn note_map_counts(&self, counts: &[(VolumeNumber, u64)]) {
        let volumes = self.volumes.read();
        for (number, mappings) in counts {
            if let Some(own) = volumes.get(number) {
                own.mappings.store(*mappings, Ordering::Relaxed);
            }
        }
    }
}
