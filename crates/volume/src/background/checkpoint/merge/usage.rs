//! Usage counters of the index.

use super::Merge;
use crate::encoding::anchor::Anchor;
use crate::encoding::key;
use crate::encoding::record::{MetaRecord, UsageRecord};
use crate::tables::index::IndexError;
use crate::tables::usage;
use crate::tables::usage::{Counter, UsageChange};

impl Merge<'_> {
    /// Adds changes to the usage counters of volumes that there are; a counter at zero has no record.
    pub(super) fn apply_usage(
        &mut self,
        changes: &[(Counter, UsageChange)],
        anchor: &Anchor,
    ) -> Result<(), IndexError> {
        // A checkpoint that fails after its transaction is made again, and the index has the changes already.
        let has_them = self.covers(anchor)?;
        for of_volume in changes.chunk_by(|((volume, ..), _), ((next, ..), _)| volume == next) {
            let ((volume, ..), _) = of_volume[0];
            // Those of a deleted volume go with its other records.
            if self.volume(volume)?.is_none_or(|record| record.is_deleted) {
                continue;
            }
            for (counter, change) in of_volume {
                if has_them && matches!(change, UsageChange::By(..)) {
                    continue;
                }
                let key = usage::key_of(*counter);
                // One that does not decode was counted anew when the pool was opened.
                let stored = self.index.get(&key)?.and_then(|value| UsageRecord::decode(&value).ok());
                let record = change.of(stored.unwrap_or_default());
                if record == UsageRecord::default() {
                    self.index.delete(&key)?;
                } else {
                    self.index.put(&key, &record.encode())?;
                }
            }
        }
        Ok(())
    }

    /// Whether the index has everything up to a position in the journal.
    fn covers(&self, anchor: &Anchor) -> Result<bool, IndexError> {
        let meta = self.index.get(&key::meta())?.and_then(|value| MetaRecord::decode(&value).ok());
        Ok(meta.is_some_and(|meta| meta.anchor.journal == anchor.journal && meta.anchor.seq >= anchor.seq))
    }
}
