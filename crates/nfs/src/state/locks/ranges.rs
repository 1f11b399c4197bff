//! The locked byte ranges of a file, with the semantics of POSIX: an owner's locks never conflict with each other. A
//! new lock replaces what it covers, splits a lock that surrounds it, and joins neighbours of the same kind.
//!
//! This is independent of protocols: an owner is any type with a number, so NFSv4 and NLM share a table.

use std::collections::BTreeMap;
use std::net::IpAddr;

use foldhash::HashMap;

use intervals::Intervals;

mod intervals;

/// Bytes from `first` to `last`, inclusive; `last` is [`u64::MAX`] for a lock to the end of the file, wherever that
/// moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Range {
    pub(crate) first: u64,
    pub(crate) last: u64,
}

impl Range {
    /// All bytes that a file can have.
    pub(crate) const ALL: Range = Range { first: 0, last: u64::MAX };

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

    /// Returns the smallest range that covers those given; none if neither is.
    pub(crate) fn cover(one: Option<Range>, other: Option<Range>) -> Option<Range> {
        match (one, other) {
            (Some(one), Some(other)) => Some(one.join(other)),
            (one, other) => one.or(other),
        }
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
    /// Returns a range that covers what was locked before; none if nothing was.
    pub(crate) fn removed_range(&self) -> Option<Range> {
        self.removed.iter().fold(None, |covered, lock| Range::cover(covered, Some(lock.range)))
    }

    /// Returns how many locks the change adds.
    pub(crate) fn growth(&self) -> usize {
        self.added.len().saturating_sub(self.removed.len())
    }
}

/// The owner of a lock.
pub(crate) trait Owner: Clone {
    /// Returns a number that no other owner has.
    fn number(&self) -> u64;

    /// Returns the origin of its client.
    fn origin(&self) -> IpAddr;
}

/// Locks of a file that are looked through one by one. Most files that have any have fewer, and tables would take a
/// kilobyte.
const FEW_MAX: usize = 8;
/// With so few, tables become a list again.
const FEW_AGAIN: usize = 6;

/// The locks of a file. A search takes time that grows with the logarithm of their number. A change takes as
/// much for each lock that it removes or adds.
///
/// Most files have none, so this is boxed.
#[derive(Clone, Debug)]
pub(crate) struct Ranges<O>(Option<Box<Locks<O>>>);

#[derive(Clone, Debug)]
enum Locks<O> {
    /// At most [`FEW_MAX`], by their first byte.
    Few(Vec<Lock<O>>),
    /// More than [`FEW_AGAIN`].
    Many(Box<Tables<O>>),
}

#[derive(Clone, Debug)]
struct Tables<O> {
    /// By the number of the owner, and by first byte: the last byte and the kind. Locks of one owner do not overlap.
    by_owner: HashMap<u64, BTreeMap<u64, (u64, LockKind)>>,
    exclusive: Intervals<O>,
    /// Only these overlap those of other owners.
    shared: Intervals<O>,
    /// How many each origin has.
    by_origin: HashMap<IpAddr, usize>,
    /// The number of all.
    locks: usize,
}

impl<O> Default for Ranges<O> {
    fn default() -> Self {
        Ranges(None)
    }
}

impl<O> Default for Tables<O> {
    fn default() -> Self {
        Tables {
            by_owner: HashMap::default(),
            exclusive: Intervals::default(),
            shared: Intervals::default(),
            by_origin: HashMap::default(),
            locks: 0,
        }
    }
}

impl<O: Owner> Ranges<O> {
    /// Returns the number of locks.
    pub(crate) fn len(&self) -> usize {
        let (few, many) = self.parts();
        few.len() + many.map_or(0, Tables::len)
    }

    /// Returns the number of locks that clients of an origin have.
    pub(crate) fn of_origin(&self, origin: IpAddr) -> usize {
        let (few, many) = self.parts();
        let listed = few.iter().filter(|lock| lock.owner.origin() == origin).count();
        listed + many.and_then(|tables| tables.by_origin.get(&origin)).copied().unwrap_or(0)
    }

    /// Returns the locks as a list or as tables.
    fn parts(&self) -> (&[Lock<O>], Option<&Tables<O>>) {
        match self.0.as_deref() {
            None => (&[], None),
            Some(Locks::Few(few)) => (few, None),
            Some(Locks::Many(tables)) => (&[], Some(tables)),
        }
    }

    /// Returns whether there are no locks.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// Iterates over an owner's locks, by their first byte.
    pub(crate) fn of<'a>(&'a self, owner: &'a O) -> impl Iterator<Item = Lock<O>> + 'a {
        let (few, many) = self.parts();
        let own = many.and_then(|tables| tables.by_owner.get(&owner.number()));
        let own = own.into_iter().flatten().map(|(first, held)| lock_of(owner, *first, *held));
        listed_of(few, owner).chain(own)
    }

    /// Returns a lock that keeps `owner` from locking `range` in this kind; nobody's own locks do if it is none.
    pub(crate) fn conflict(&self, owner: Option<&O>, range: Range, kind: LockKind) -> Option<Lock<O>> {
        self.conflicts(owner, range, kind).next()
    }

    /// Iterates over all such locks.
    pub(crate) fn conflicts<'a>(
        &'a self,
        owner: Option<&'a O>,
        range: Range,
        kind: LockKind,
    ) -> impl Iterator<Item = Lock<O>> + 'a {
        let own = owner.map(O::number);
        let among = move |locks: &'a Intervals<O>, kind| {
            let found = locks.overlapping(range, own);
            found.map(move |(range, holder)| Lock { range, kind, owner: holder.clone() })
        };
        let (few, many) = self.parts();
        let listed = few.iter().filter(move |lock| {
            let conflicts = lock.kind.conflicts(kind) && lock.range.overlaps(range);
            conflicts && own != Some(lock.owner.number())
        });
        let tabled = many.into_iter().flat_map(move |tables| {
            let shared = LockKind::Read.conflicts(kind).then(|| among(&tables.shared, LockKind::Read));
            among(&tables.exclusive, LockKind::Write).chain(shared.into_iter().flatten())
        });
        listed.cloned().chain(tabled)
    }

    /// Returns whether an owner has a lock that overlaps a range.
    pub(crate) fn has_any(&self, owner: &O, range: Range) -> bool {
        self.near(owner, range).any(|lock| lock.range.overlaps(range))
    }

    /// Returns the lock of an owner that covers a whole range.
    pub(crate) fn covering(&self, owner: &O, range: Range) -> Option<Lock<O>> {
        let start = Range { last: range.first, ..range };
        self.near(owner, start).find(|lock| lock.range.first <= range.first && range.last <= lock.range.last)
    }

    /// Returns the smallest range that covers all locks of an owner; none if it has none.
    pub(crate) fn extent(&self, owner: &O) -> Option<Range> {
        let (few, many) = self.parts();
        let own = many.and_then(|tables| tables.by_owner.get(&owner.number()));
        let ends = own.and_then(|own| Some((own.first_key_value()?, own.last_key_value()?)));
        let tabled = ends.map(|((first, _), (_, (last, _)))| Range { first: *first, last: *last });
        listed_of(few, owner).fold(tabled, |extent, lock| Range::cover(extent, Some(lock.range)))
    }

    /// Returns the change that gives `owner` a lock of `kind` on `range`, or frees the range if `kind` is none.
    pub(crate) fn plan(&self, owner: &O, range: Range, kind: Option<LockKind>) -> Change<O> {
        let (mut removed, mut added) = (Vec::new(), Vec::new());
        let mut whole = range;
        for lock in self.near(owner, range) {
            let same = kind == Some(lock.kind);
            if same && lock.range.touches(range) {
                whole = whole.join(lock.range);
            } else if lock.range.overlaps(range) {
                added.extend(rests(&lock, range));
            } else {
                continue;
            }
            removed.push(lock);
        }
        if let Some(kind) = kind {
            added.push(Lock { range: whole, kind, owner: owner.clone() });
        }
        let is_change = removed.len() != added.len()
            || removed
                .iter()
                .zip(&added)
                .any(|(one, other)| one.range != other.range || one.kind != other.kind);
        if is_change { Change { removed, added } } else { Change { removed: Vec::new(), added: Vec::new() } }
    }

    /// Returns the first part of a range, with `max` locks of an owner; none if the range has no more than these.
    pub(crate) fn part(&self, owner: &O, range: Range, max: usize) -> Option<Range> {
        let overlapping = self.near(owner, range).filter(|lock| lock.range.overlaps(range));
        let mut from_last = overlapping.skip(max.saturating_sub(1));
        let last = from_last.next()?.range.last;
        from_last.next().map(|_| Range { first: range.first, last })
    }

    /// Iterates over an owner's locks that may overlap a range or adjoin it, by their first byte.
    fn near<'a>(&'a self, owner: &'a O, range: Range) -> impl Iterator<Item = Lock<O>> + 'a {
        let (few, many) = self.parts();
        let own = many.and_then(|tables| tables.by_owner.get(&owner.number()));
        let tabled = own.into_iter().flat_map(move |own| {
            // Locks of one owner do not overlap, so only the last of those that begin before can reach the range.
            let from = own.range(..range.first).next_back().map_or(range.first, |(first, _)| *first);
            let found = own.range(from..=range.last.saturating_add(1));
            found.map(|(first, held)| lock_of(owner, *first, *held))
        });
        listed_of(few, owner).chain(tabled)
    }

    /// Applies a change of [`Ranges::plan`]. Nothing may change in between.
    pub(crate) fn apply(&mut self, change: &Change<O>) {
        let locks = self.0.get_or_insert_with(|| Box::new(Locks::Few(Vec::new())));
        change.removed.iter().for_each(|lock| locks.remove(lock));
        for lock in &change.added {
            if let Locks::Few(few) = locks.as_ref()
                && few.len() == FEW_MAX
            {
                **locks = Locks::Many(Box::new(Tables::of(few)));
            }
            locks.insert(lock);
        }
        if let Locks::Many(tables) = locks.as_ref()
            && tables.len() <= FEW_AGAIN
        {
            **locks = Locks::Few(tables.to_list());
        }
        let left = self.len();
        if left == 0 {
            self.0 = None;
        }
    }
}

impl<O: Owner> Locks<O> {
    fn remove(&mut self, lock: &Lock<O>) {
        match self {
            Locks::Few(few) => {
                few.retain(|other| other.range != lock.range || other.owner.number() != lock.owner.number());
            }
            Locks::Many(tables) => tables.remove(lock),
        }
    }

    fn insert(&mut self, lock: &Lock<O>) {
        match self {
            Locks::Few(few) => {
                let place = few.partition_point(|other| other.range.first < lock.range.first);
                few.insert(place, lock.clone());
            }
            Locks::Many(tables) => tables.insert(lock),
        }
    }
}

impl<O: Owner> Tables<O> {
    fn len(&self) -> usize {
        self.locks
    }

    fn of(few: &[Lock<O>]) -> Tables<O> {
        let mut tables = Tables::default();
        few.iter().for_each(|lock| tables.insert(lock));
        tables
    }

    /// Returns the locks by their first byte.
    fn to_list(&self) -> Vec<Lock<O>> {
        let among = |locks: &Intervals<O>, kind| -> Vec<Lock<O>> {
            let found = locks.overlapping(Range::ALL, None);
            found.map(|(range, owner)| Lock { range, kind, owner: owner.clone() }).collect()
        };
        let mut list = among(&self.exclusive, LockKind::Write);
        list.append(&mut among(&self.shared, LockKind::Read));
        list.sort_by_key(|lock| lock.range.first);
        list
    }

    fn remove(&mut self, lock: &Lock<O>) {
        let number = lock.owner.number();
        let Some(own) = self.by_owner.get_mut(&number) else { return };
        let is_known = own.remove(&lock.range.first).is_some();
        if own.is_empty() {
            self.by_owner.remove(&number);
        }
        if is_known {
            self.locks -= 1;
            self.count_of(lock.owner.origin(), |count| *count -= 1);
        }
        self.of_kind(lock.kind).remove(lock.range.first, number);
    }

    fn insert(&mut self, lock: &Lock<O>) {
        let number = lock.owner.number();
        let own = self.by_owner.entry(number).or_default();
        if own.insert(lock.range.first, (lock.range.last, lock.kind)).is_none() {
            self.locks += 1;
            self.count_of(lock.owner.origin(), |count| *count += 1);
        }
        self.of_kind(lock.kind).insert(lock.range, number, lock.owner.clone());
    }

    fn count_of(&mut self, origin: IpAddr, change: impl FnOnce(&mut usize)) {
        let count = self.by_origin.entry(origin).or_default();
        change(count);
        if *count == 0 {
            self.by_origin.remove(&origin);
        }
    }

    fn of_kind(&mut self, kind: LockKind) -> &mut Intervals<O> {
        match kind {
            LockKind::Read => &mut self.shared,
            LockKind::Write => &mut self.exclusive,
        }
    }
}

/// Iterates over an owner's locks in a list.
fn listed_of<'a, O: Owner>(few: &'a [Lock<O>], owner: &'a O) -> impl Iterator<Item = Lock<O>> + 'a {
    few.iter().filter(|lock| lock.owner.number() == owner.number()).cloned()
}

fn lock_of<O: Owner>(owner: &O, first: u64, (last, kind): (u64, LockKind)) -> Lock<O> {
    Lock { range: Range { first, last }, kind, owner: owner.clone() }
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
