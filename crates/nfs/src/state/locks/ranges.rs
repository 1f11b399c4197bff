//! The locked byte ranges of a file, with the semantics of POSIX: an owner's locks never conflict with each other. A
//! new lock replaces what it covers, splits a lock that surrounds it, and joins neighbours of the same kind.
//!
//! This is independent of protocols: an owner is any type with equality, so NFSv4 and NLM share a table.

/// Bytes from `first` to `last`, inclusive; `last` is [`u64::MAX`] for a lock to the end of the file, wherever that
/// moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Range {
    pub(crate) first: u64,
    pub(crate) last: u64,
}

impl Range {
    /// Returns the range of an offset and a length, where all ones means "to the end" (RFC 7530 section 16.10.4). None
    /// for a length of zero, and for a range beyond 64 bits.
    pub(crate) fn new(offset: u64, length: u64) -> Option<Range> {
        let last = match length {
            0 => return None,
            u64::MAX => u64::MAX,
            length => offset.checked_add(length - 1)?,
        };
        Some(Range { first: offset, last })
    }

    /// Returns the length; all ones for a range to the end.
    pub(crate) fn length(self) -> u64 {
        match self.last {
            u64::MAX => u64::MAX,
            last => last - self.first + 1,
        }
    }

    /// Returns whether the ranges have a byte in common.
    pub(crate) fn overlaps(self, other: Range) -> bool {
        self.first <= other.last && other.first <= self.last
    }

    /// Returns whether the ranges overlap or adjoin.
    fn touches(self, other: Range) -> bool {
        self.first <= other.last.saturating_add(1) && other.first <= self.last.saturating_add(1)
    }

    /// Returns the smallest range that covers both.
    fn join(self, other: Range) -> Range {
        Range { first: self.first.min(other.first), last: self.last.max(other.last) }
    }
}

/// Whether a lock can be shared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum LockKind {
    /// Shared with other readers.
    Read,
    /// Exclusive.
    Write,
}

impl LockKind {
    /// Returns whether two owners cannot have these locks on the same byte.
    pub(crate) fn conflicts(self, other: LockKind) -> bool {
        self == LockKind::Write || other == LockKind::Write
    }
}

/// A lock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Lock<O> {
    pub(crate) range: Range,
    pub(crate) kind: LockKind,
    pub(crate) owner: O,
}

/// The effect of locking or unlocking a range.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Change<O> {
    /// Locks that go, by their first byte.
    pub(crate) removed: Vec<Lock<O>>,
    /// Locks that are new.
    pub(crate) added: Vec<Lock<O>>,
}

impl<O> Change<O> {
    /// Returns how many locks the change adds.
    pub(crate) fn growth(&self) -> usize {
        self.added.len().saturating_sub(self.removed.len())
    }
}

/// The locks of a file.
#[derive(Clone, Debug)]
pub(crate) struct Ranges<O> {
    /// Sorted by first byte. Locks of one owner do not overlap; those of different owners only if all are shared.
    locks: Vec<Lock<O>>,
}

impl<O> Default for Ranges<O> {
    fn default() -> Self {
        Ranges { locks: Vec::new() }
    }
}

impl<O: Clone + PartialEq> Ranges<O> {
    /// Returns the number of locks.
    pub(crate) fn len(&self) -> usize {
        self.locks.len()
    }

    /// Returns whether there are no locks.
    pub(crate) fn is_empty(&self) -> bool {
        self.locks.is_empty()
    }

    /// Iterates over all locks, by their first byte.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Lock<O>> {
        self.locks.iter()
    }

    /// Iterates over an owner's locks, by their first byte.
    pub(crate) fn of<'a>(&'a self, owner: &'a O) -> impl Iterator<Item = &'a Lock<O>> {
        self.locks.iter().filter(move |lock| lock.owner == *owner)
    }

    /// Returns the first lock that keeps `owner` from locking `range` in this kind.
    pub(crate) fn conflict(&self, owner: &O, range: Range, kind: LockKind) -> Option<&Lock<O>> {
        self.overlapping(range).find(|lock| lock.kind.conflicts(kind) && lock.owner != *owner)
    }

    fn overlapping(&self, range: Range) -> impl Iterator<Item = &Lock<O>> {
        self.locks
            .iter()
            .take_while(move |lock| lock.range.first <= range.last)
            .filter(move |lock| lock.range.overlaps(range))
    }

    /// Returns the change that gives `owner` a lock of `kind` on `range`, or frees the range if `kind` is none.
    pub(crate) fn plan(&self, owner: &O, range: Range, kind: Option<LockKind>) -> Change<O> {
        let (mut removed, mut added) = (Vec::new(), Vec::new());
        let mut whole = range;
        for lock in self.of(owner) {
            let same = kind == Some(lock.kind);
            if same && lock.range.touches(range) {
                whole = whole.join(lock.range);
            } else if lock.range.overlaps(range) {
                added.extend(rests(lock, range));
            } else {
                continue;
            }
            removed.push(lock.clone());
        }
        if let Some(kind) = kind {
            added.push(Lock { range: whole, kind, owner: owner.clone() });
        }
        if removed == added {
            return Change { removed: Vec::new(), added: Vec::new() };
        }
        Change { removed, added }
    }

    /// Applies a change of [`Ranges::plan`]. Nothing may change in between.
    pub(crate) fn apply(&mut self, change: &Change<O>) {
        // Removed locks are in the order of the table.
        let mut removed = change.removed.iter().peekable();
        self.locks.retain(|lock| removed.next_if(|gone| *gone == lock).is_none());
        for lock in &change.added {
            let at = self.locks.partition_point(|other| other.range.first <= lock.range.first);
            self.locks.insert(at, lock.clone());
        }
    }
}

/// Returns the parts of `lock` on both sides of `range`.
fn rests<O: Clone>(lock: &Lock<O>, range: Range) -> impl Iterator<Item = Lock<O>> {
    let left = range.first.checked_sub(1).filter(|last| lock.range.first <= *last);
    let left = left.map(|last| Range { first: lock.range.first, last });
    let right = range.last.checked_add(1).filter(|first| *first <= lock.range.last);
    let right = right.map(|first| Range { first, last: lock.range.last });
    let (kind, owner) = (lock.kind, lock.owner.clone());
    left.into_iter().chain(right).map(move |range| Lock { range, kind, owner: owner.clone() })
}

#[cfg(test)]
mod tests;
