//! Scans of an index that lacks records.

use std::ops::ControlFlow;

use super::{Found, Lost, View};
use crate::encoding::key::Key;
use crate::tables::index::IndexError;

impl View {
    /// Visits the readable records of the index with `from <= key < to`, in order, and in between each place where
    /// records may be missing, until `visit` breaks.
    pub(crate) fn each_in_index(
        &self,
        from: &[u8],
        to: &[u8],
        visit: &mut dyn FnMut(Found<'_>) -> ControlFlow<()>,
    ) -> Result<(), IndexError> {
        let mut at = Key::from(from);
        for lost in self.lost_between(from, to) {
            if self.scan(&at, &lost.from, visit)?.is_break() {
                return Ok(());
            }
            let begin = at.max(lost.from.clone());
            let end: &[u8] = to.min(&lost.to);
            let flow = match lost.is_recorded {
                true => self.scan_with_gaps(&begin, end, lost, visit)?,
                false => visit(Found::Lost(lost)),
            };
            if flow.is_break() {
                return Ok(());
            }
            at = lost.to.clone();
        }
        self.scan(&at, to, visit).map(drop)
    }

    /// Visits records between ranges that cannot be read.
    fn scan(
        &self,
        from: &[u8],
        to: &[u8],
        visit: &mut dyn FnMut(Found<'_>) -> ControlFlow<()>,
    ) -> Result<ControlFlow<()>, IndexError> {
        let mut flow = ControlFlow::Continue(());
        let scanned = self.index.scan(from, to, &mut |key, value| {
            flow = visit(Found::Record(key, value));
            flow
        });
        match scanned {
            // The scan may fail on the page after the range, when all records of the range have been visited.
            Err(IndexError::Corrupt(_)) if self.is_unreadable(to) => Ok(flow),
            scanned => scanned.map(|()| flow),
        }
    }

    /// Visits the records that were put into a range since others there were lost, and the gaps between them.
    fn scan_with_gaps(
        &self,
        from: &[u8],
        to: &[u8],
        lost: &Lost,
        visit: &mut dyn FnMut(Found<'_>) -> ControlFlow<()>,
    ) -> Result<ControlFlow<()>, IndexError> {
        // All keys before this one were told.
        let mut told = Key::from(from);
        let flow = self.scan(from, to, &mut |found| {
            if let Found::Record(key, _) = found {
                if *told < *key && visit(Found::Lost(lost)).is_break() {
                    return ControlFlow::Break(());
                }
                told = Key::from(key).successor();
            }
            visit(found)
        })?;
        let has_gap = flow.is_continue() && *told < *to;
        Ok(if has_gap { visit(Found::Lost(lost)) } else { flow })
    }
}
