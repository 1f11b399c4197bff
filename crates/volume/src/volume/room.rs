//! The size of a volume: a limit on the bytes that its files use.
//!
//! Data that fills holes counts when it is accepted, so that writing it back never exceeds the size. What is reserved for
//! unstable data may be more than it fills; before a caller is refused for that, a flush finds out.

use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

use crate::api::ids::VolumeNumber;
use crate::api::request::Error;
use crate::pool::Pool;
use crate::volume::Volume;

/// The part of a volume's size that stands for one object. Names, symbolic links and attributes use no bytes of the size, but
/// space of the pool: for the longest ones about as much as this.
const SIZE_PER_OBJECT: u64 = 4096;

/// The least number of objects that a volume with a size may hold.
const OBJECTS_MIN: u64 = 1024;

/// The size of a volume without a limit.
const UNLIMITED: u64 = u64::MAX;

/// Returns a size as it is stored: zero is none, and so is the largest number.
pub(crate) fn limit(size: Option<u64>) -> Option<u64> {
    size.filter(|size| !matches!(*size, 0 | UNLIMITED))
}

/// The size of a volume, and what is reserved of it.
#[derive(Debug)]
pub(crate) struct Room {
    size: AtomicU64,
    account: Mutex<Account>,
}

#[derive(Debug, Default)]
struct Account {
    /// Bytes that unstable data, and transactions being made, may add to the usage.
    reserved: u64,
    /// The flush after which all unstable data is reserved for: what was accepted while there was no limit is not.
    complete_after: u64,
    /// Set while callers do not fit with what is reserved.
    short: Option<Short>,
}

impl Account {
    /// Notes that a caller that needs this many bytes is refused.
    fn refuse(&mut self, bytes: u64) -> Shortage {
        self.short.iter_mut().for_each(|short| short.is_answered |= bytes >= short.bytes);
        Shortage::Full
    }
}

/// What callers that do not fit with what is reserved wait for.
#[derive(Clone, Copy, Debug)]
struct Short {
    /// The most bytes that one of them needs. Until that one is answered or fits, smaller reservations that succeed do not end
    /// this: they would have it wait for ever.
    bytes: u64,
    /// The flush after which they are refused.
    flush: u64,
    /// Whether less was reserved since, so that only a caller who needs the most is refused without another flush.
    is_stale: bool,
    /// Whether a caller who needs the most was refused.
    is_answered: bool,
}

/// Why nothing was reserved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shortage {
    /// The files use the room.
    Full,
    /// A flush may leave less reserved.
    Unflushed,
}

impl Room {
    pub(super) fn new(size: Option<u64>) -> Room {
        Room { size: AtomicU64::new(size.unwrap_or(UNLIMITED)), account: Mutex::default() }
    }

    /// Returns the size, if there is a limit.
    pub(crate) fn size(&self) -> Option<u64> {
        Some(self.size.load(Ordering::Acquire)).filter(|size| *size != UNLIMITED)
    }

    /// Sets the size. `flush` is one that writes back everything accepted so far.
    pub(crate) fn resize(&self, size: Option<u64>, flush: u64) {
        let mut account = self.account.lock();
        if self.size().is_none() {
            account.complete_after = flush;
        }
        account.short = None;
        self.size.store(size.unwrap_or(UNLIMITED), Ordering::Release);
    }

    /// Returns the bytes reserved.
    pub(crate) fn reserved(&self) -> u64 {
        self.account.lock().reserved
    }

    /// Reserves bytes, if they fit with what is `used`; `flushed` is the last flush done.
    fn reserve(&self, bytes: u64, flushed: u64, used: impl FnOnce() -> u64) -> Result<(), Shortage> {
        let mut account = self.account.lock();
        // Read under the lock: what a transaction adds to the usage stays reserved until it has.
        let (used, size) = (used(), self.size.load(Ordering::Acquire));
        if size != UNLIMITED && used.saturating_add(bytes) > size {
            return Err(account.refuse(bytes));
        }
        if flushed < account.complete_after {
            return Err(Shortage::Unflushed);
        }
        let taken = used.saturating_add(account.reserved);
        if taken.saturating_add(bytes) <= size {
            account.reserved += bytes;
            let left = size - taken - bytes;
            account.short = account.short.filter(|short| short.bytes > left && !short.is_answered);
            account.short.iter_mut().for_each(|short| short.is_stale = true);
            return Ok(());
        }
        let has_waited = |short: Short| flushed >= short.flush && (!short.is_stale || bytes >= short.bytes);
        Err(if account.short.is_some_and(has_waited) { account.refuse(bytes) } else { Shortage::Unflushed })
    }

    /// Notes that a caller that needs this many bytes waits for the flush that `request` requests, or for the one that others
    /// wait for; `flushed` is the last flush done.
    fn wait_for(&self, bytes: u64, flushed: u64, request: impl FnOnce() -> u64) {
        let mut account = self.account.lock();
        let before = account.short.filter(|short| !short.is_answered);
        let bytes = before.map_or(bytes, |short| short.bytes.max(bytes));
        account.short = Some(match before.filter(|short| flushed < short.flush) {
            Some(short) => Short { bytes, ..short },
            None => Short { bytes, flush: request(), is_stale: false, is_answered: false },
        });
    }

    fn release(&self, bytes: u64) {
        let mut account = self.account.lock();
        account.reserved = account.reserved.saturating_sub(bytes);
    }
}

/// Bytes reserved for growth, until they are kept.
#[derive(Debug)]
pub(crate) struct Growth<'v> {
    room: &'v Room,
    bytes: u64,
}

impl Growth<'_> {
    /// Returns the bytes, which whoever keeps them releases by [`Pool::release_growth`].
    pub(crate) fn keep(mut self) -> u64 {
        std::mem::take(&mut self.bytes)
    }
}

impl Drop for Growth<'_> {
    fn drop(&mut self) {
        if self.bytes > 0 {
            self.room.release(self.bytes);
        }
    }
}

impl Volume {
    /// Returns the limit on the bytes that its files use, if there is one.
    pub fn size(&self) -> Option<u64> {
        self.own.room.size()
    }

    /// Reserves room for bytes that fill holes.
    ///
    /// # Errors
    /// `NoSpace` if they exceed the size of the volume; `ObjectBusy` if that is known only after a flush, which was requested, or
    /// once removed files are freed. A caller that waits for the size of one volume delays no caller in another.
    pub(crate) fn reserve_growth(&self, bytes: u64) -> Result<Growth<'_>, Error> {
        self.try_reserve_growth(bytes).map_err(|shortage| match shortage {
            Shortage::Full => self.full(),
            Shortage::Unflushed => {
                self.own.room.wait_for(bytes, self.flushed_generation(), || self.write_back.pace());
                Error::ObjectBusy
            }
        })
    }

    /// Checks that one more object may be made: a volume with a size holds as many as its size has pieces of [`SIZE_PER_OBJECT`],
    /// and at least [`OBJECTS_MIN`]. Calls under way at the same time may exceed that by what they make.
    ///
    /// # Errors
    /// `NoSpace` if none may be made; `ObjectBusy` if that may change once removed files are freed.
    pub(crate) fn check_room_for_object(&self) -> Result<(), Error> {
        let is_room = self.objects_max().is_none_or(|most| self.usage.of(self.number()).inodes < most);
        if is_room { Ok(()) } else { Err(self.full()) }
    }

    /// Returns what to answer while the size is used up: a file that was removed while it was open counts until a background step
    /// has freed it.
    fn full(&self) -> Error {
        if self.orphans.are_leaving(self.number()) { Error::ObjectBusy } else { Error::NoSpace }
    }

    /// Returns the most objects that the volume may hold, if it has a size.
    pub(crate) fn objects_max(&self) -> Option<u64> {
        self.size().map(|size| (size / SIZE_PER_OBJECT).max(OBJECTS_MIN))
    }

    /// Like [`Volume::reserve_growth`], but requests nothing.
    pub(crate) fn try_reserve_growth(&self, bytes: u64) -> Result<Growth<'_>, Shortage> {
        let room = &self.own.room;
        if bytes == 0 || room.size().is_none() {
            return Ok(Growth { room, bytes: 0 });
        }
        let used = || self.usage.of(self.number()).bytes;
        room.reserve(bytes, self.flushed_generation(), used).map(|()| Growth { room, bytes })
    }
}

impl Pool {
    /// Releases bytes reserved for the growth of a volume: they are counted as used, or will not be.
    pub(crate) fn release_growth(&self, volume: VolumeNumber, bytes: u64) {
        if bytes > 0
            && let Some(own) = self.volumes.read().get(&volume)
        {
            own.room.release(bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_size_is_kept_by_what_is_used_and_reserved() {
        let room = Room::new(Some(100));
        assert_eq!(room.reserve(60, 0, || 40), Ok(()));
        assert_eq!(room.reserve(1, 0, || 100), Err(Shortage::Full), "used up without what is reserved");
        assert_eq!(
            room.reserve(1, 0, || 40),
            Err(Shortage::Unflushed),
            "less may be filled than is reserved"
        );
        room.wait_for(1, 0, || 3);
        room.wait_for(1, 2, || unreachable!("callers wait for a flush already"));
        assert_eq!(room.reserve(1, 2, || 40), Err(Shortage::Unflushed));
        assert_eq!(room.reserve(1, 4, || 40), Err(Shortage::Full));
        room.release(61);
        assert_eq!(room.reserve(59, 4, || 40), Ok(()));
        assert_eq!(room.reserve(2, 4, || 40), Err(Shortage::Unflushed), "callers wait anew");
    }

    #[test]
    fn a_caller_is_refused_in_time_though_others_need_less() {
        let room = Room::new(Some(100));
        assert_eq!(room.reserve(60, 0, || 0), Ok(()));
        assert_eq!(room.reserve(50, 0, || 0), Err(Shortage::Unflushed));
        room.wait_for(50, 0, || 3);
        for flushed in 0..3 {
            assert_eq!(room.reserve(1, flushed, || 0), Ok(()));
            assert_eq!(room.reserve(50, flushed, || 0), Err(Shortage::Unflushed));
            room.wait_for(50, flushed, || unreachable!("it waits for a flush already"));
        }
        assert_eq!(room.reserve(1, 3, || 0), Ok(()));
        assert_eq!(room.reserve(50, 3, || 0), Err(Shortage::Full));
        assert_eq!(room.reserve(50, 3, || 0), Err(Shortage::Full), "nothing has changed");
        // Later ones have a flush of their own.
        assert_eq!(room.reserve(1, 3, || 0), Ok(()));
        assert_eq!(room.reserve(50, 3, || 0), Err(Shortage::Unflushed));
        room.wait_for(50, 3, || 5);
        assert_eq!(room.reserve(1, 5, || 0), Ok(()));
        assert_eq!(room.reserve(40, 5, || 0), Err(Shortage::Unflushed), "it has not waited");
        assert_eq!(room.reserve(50, 5, || 0), Err(Shortage::Full));
    }

    #[test]
    fn a_new_limit_waits_for_what_was_accepted_without_one() {
        let room = Room::new(None);
        room.resize(Some(100), 3);
        assert_eq!(room.reserve(1, 2, || 0), Err(Shortage::Unflushed));
        assert_eq!(room.reserve(101, 2, || 0), Err(Shortage::Full));
        assert_eq!(room.reserve(100, 4, || 0), Ok(()));
        // A limit that changes needs no flush.
        room.resize(Some(101), 7);
        assert_eq!(room.reserve(1, 4, || 0), Ok(()));
        assert_eq!((room.size(), room.reserved()), (Some(101), 101));
    }
}
