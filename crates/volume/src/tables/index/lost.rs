//! Ranges of keys whose records were lost with unreadable blocks of the index.
//!
//! A record that is absent is either known to be absent, or lost: then nothing may be concluded from its absence.
//! Records that were put into a lost range later are as good as any.

use std::ops::ControlFlow;

use super::{IndexError, Visit};

/// Keys `from <= key < to` whose records are lost, unless they are present.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LostRange {
    /// The least key.
    pub from: Vec<u8>,
    /// The bound.
    pub to: Vec<u8>,
}

/// All lost ranges of an index: sorted, disjoint and not adjacent. There are none in a healthy one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LostRanges(Vec<LostRange>);

/// What a scan around lost ranges finds, in the order of keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found<'a> {
    /// A key and its value.
    Record(&'a [u8], &'a [u8]),
    /// Records may be missing here.
    Lost,
}

/// Receives what is found; breaks to end the scan.
pub type VisitFound<'a> = &'a mut dyn FnMut(Found<'_>) -> ControlFlow<()>;

impl LostRanges {
    /// Whether nothing is lost.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the ranges in order.
    pub fn iter(&self) -> impl Iterator<Item = &LostRange> {
        self.0.iter()
    }

    /// Whether the record of this key is lost, if it is absent.
    pub fn covers(&self, key: &[u8]) -> bool {
        let next = self.0.partition_point(|range| *range.to <= *key);
        self.0.get(next).is_some_and(|range| *range.from <= *key)
    }

    /// Whether a key with `from <= key < to` may be lost.
    pub fn meets(&self, from: &[u8], to: &[u8]) -> bool {
        let next = self.0.partition_point(|range| *range.to <= *from);
        from < to && self.0.get(next).is_some_and(|range| *range.from < *to)
    }

    /// Adds a range.
    pub fn add(&mut self, from: &[u8], to: &[u8]) {
        if from >= to {
            return;
        }
        let first = self.0.partition_point(|range| *range.to < *from);
        let last = self.0.partition_point(|range| *range.from <= *to);
        let touching = &self.0[first..last];
        let from = touching.first().map_or(from, |range| from.min(&range.from)).to_vec();
        let to = touching.last().map_or(to, |range| to.max(&range.to)).to_vec();
        self.0.splice(first..last, [LostRange { from, to }]);
    }

    /// Removes what lies in a range: no record with such a key was lost.
    pub fn remove(&mut self, from: &[u8], to: &[u8]) {
        if !self.meets(from, to) {
            return;
        }
        let whole = std::mem::take(&mut self.0);
        for range in whole {
            for (from, to) in [(&*range.from, from.min(&range.to)), (to.max(&range.from), &*range.to)] {
                if from < to {
                    self.0.push(LostRange { from: from.to_vec(), to: to.to_vec() });
                }
            }
        }
    }

    /// Returns what a lookup found, unless it found nothing and the record may be lost.
    pub(super) fn check<T>(&self, key: &[u8], found: Option<T>) -> Result<Option<T>, IndexError> {
        if found.is_none() && self.covers(key) { Err(IndexError::lost()) } else { Ok(found) }
    }

    /// Returns what a search for the last record in `from <= key < bound` found, unless a later one may be lost.
    pub(super) fn check_last(
        &self,
        (from, bound): (&[u8], &[u8]),
        found: Option<super::Record>,
    ) -> Result<Option<super::Record>, IndexError> {
        let after = found.as_ref().map(|(key, _)| successor(key));
        if self.meets(after.as_deref().unwrap_or(from), bound) {
            return Err(IndexError::lost());
        }
        Ok(found)
    }

    /// Performs a scan of `from <= key < to` that fails where it would pass over a lost range.
    pub(super) fn scan(
        &self,
        (from, to): (&[u8], &[u8]),
        scan: impl FnOnce(Visit<'_>) -> Result<(), IndexError>,
        visit: Visit<'_>,
    ) -> Result<(), IndexError> {
        if !self.meets(from, to) {
            return scan(visit);
        }
        let mut lost = false;
        self.scan_around((from, to), scan, &mut |found| match found {
            Found::Record(key, value) => visit(key, value),
            Found::Lost => {
                lost = true;
                ControlFlow::Break(())
            }
        })?;
        if lost { Err(IndexError::lost()) } else { Ok(()) }
    }

    /// Performs a scan of `from <= key < to` that says where records may be missing.
    pub(super) fn scan_around(
        &self,
        (from, to): (&[u8], &[u8]),
        scan: impl FnOnce(Visit<'_>) -> Result<(), IndexError>,
        visit: VisitFound<'_>,
    ) -> Result<(), IndexError> {
        if !self.meets(from, to) {
            return scan(&mut |key, value| visit(Found::Record(key, value)));
        }
        // What lies before this key was told.
        let mut told = from.to_vec();
        let mut ended = false;
        scan(&mut |key, value| {
            let before = if self.meets(&told, key) { visit(Found::Lost) } else { ControlFlow::Continue(()) };
            let flow = if before.is_break() { before } else { visit(Found::Record(key, value)) };
            told.clear();
            told.extend_from_slice(key);
            told.push(0);
            ended = flow.is_break();
            flow
        })?;
        if !ended && self.meets(&told, to) {
            let _ = visit(Found::Lost);
        }
        Ok(())
    }
}

/// Returns the least key after `key`.
pub(super) fn successor(key: &[u8]) -> Vec<u8> {
    [key, &[0]].concat()
}

#[cfg(test)]
mod tests;
