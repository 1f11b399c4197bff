//! Hot files and directories: the objects that most calls and data of a loop are about. Counted, as activities are, only while
//! somebody asks.
//!
//! What a loop has no room for, it does not count: a [`Sketch`] keeps the heaviest objects. A loop collects the calls of a
//! turn, and adds them when the turn ends. It never waits for a reader; while one reads, it goes on collecting.

use nfs::summary::{CallSummary, Class, OperationId};
use parking_lot::Mutex;
use volume::ids::{Ino, VolumeId};
use volume::time::Time;

use crate::counters::phases::nanos_between;
use crate::counters::sketch::Sketch;
use crate::limits::{OBJECTS_COUNTED_MAX, OBJECTS_HALF_LIFE};

/// Bytes of data that weigh as much as a call.
const WEIGHED_BYTES: u64 = 16 << 10;

/// Calls that are collected while somebody reads. Those beyond it are not counted.
const COLLECTED_MAX: usize = 4096;

/// A file, a directory or another object of a volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Object {
    pub(crate) volume: VolumeId,
    pub(crate) ino: Ino,
}

/// What a call does with its object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// It reads data.
    Read,
    /// It writes data, or commits it.
    Write,
    /// It is about names in a directory.
    Name,
    /// It is about attributes, locks or anything else.
    Other,
}

impl Kind {
    pub(crate) const COUNT: usize = 4;

    fn of(operation: OperationId) -> Kind {
        match operation.class() {
            Class::Read => Kind::Read,
            Class::Write | Class::Commit => Kind::Write,
            Class::Lookup | Class::Open | Class::Create | Class::Remove | Class::Rename | Class::Readdir => {
                Kind::Name
            }
            Class::Getattr | Class::Lock | Class::Other => Kind::Other,
        }
    }
}

/// Sums over the calls about an object, since it entered the sketch.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ObjectCounters {
    pub(crate) since: Time,
    /// By the number of the [`Kind`].
    pub(crate) calls: [u64; Kind::COUNT],
    /// Bytes of file data.
    pub(crate) read: u64,
    pub(crate) written: u64,
}

impl ObjectCounters {
    /// Adds what another loop has counted.
    pub(crate) fn add(&mut self, other: &ObjectCounters) {
        self.since = self.since.min(other.since);
        self.calls.iter_mut().zip(other.calls).for_each(|(sum, calls)| *sum += calls);
        self.read += other.read;
        self.written += other.written;
    }
}

/// The objects of a loop, for readers.
#[derive(Debug)]
pub(crate) struct HotObjects(Mutex<Counted>);

#[derive(Debug)]
struct Counted {
    sketch: Sketch<Object, ObjectCounters>,
    /// When weights were halved last.
    aged: Time,
}

impl Default for Counted {
    fn default() -> Counted {
        Counted { sketch: Sketch::new(OBJECTS_COUNTED_MAX), aged: Time::from_nanos(0) }
    }
}

impl Counted {
    /// Halves the weights as often as the time that has passed demands.
    fn age(&mut self, now: Time) {
        let half_life = u64::try_from(OBJECTS_HALF_LIFE.as_nanos()).unwrap_or(u64::MAX);
        // After as many halvings as a weight has bits, none remains.
        let halvings = (nanos_between(self.aged, now) / half_life).min(64);
        if halvings > 0 {
            (0..halvings).for_each(|_| self.sketch.age());
            self.aged = now;
        }
    }
}

impl HotObjects {
    pub(crate) fn new() -> HotObjects {
        HotObjects(Mutex::default())
    }

    /// Forgets all.
    pub(crate) fn clear(&self) {
        *self.0.lock() = Counted::default();
    }

    /// Returns the objects with their weights: calls and data of the last [`OBJECTS_HALF_LIFE`] weigh most.
    pub(crate) fn entries(&self, now: Time) -> Vec<(Object, u64, ObjectCounters)> {
        let mut counted = self.0.lock();
        counted.age(now);
        counted.sketch.entries().map(|(object, weight, counters)| (object, weight, *counters)).collect()
    }
}

/// A call about an object.
#[derive(Clone, Copy, Debug)]
struct Noted {
    object: Object,
    kind: Kind,
    read: u32,
    written: u32,
}

/// The calls that a loop has collected.
#[derive(Debug, Default)]
pub(crate) struct ObjectTally {
    collected: Vec<Noted>,
}

impl ObjectTally {
    /// Collects a call, if it is about an object.
    pub(crate) fn note(&mut self, summary: &CallSummary) {
        if let (Some(volume), true) = (summary.volume, summary.ino != Ino(0))
            && self.collected.len() < COLLECTED_MAX
        {
            let (object, kind) = (Object { volume, ino: summary.ino }, Kind::of(summary.main));
            let transferred = summary.transferred;
            self.collected.push(Noted { object, kind, read: transferred.read, written: transferred.written });
        }
    }

    /// Adds what was collected to what readers see, unless somebody is reading.
    #[inline]
    pub(crate) fn end_turn(&mut self, hot: &HotObjects, now: Time) {
        if !self.collected.is_empty() {
            self.add_to(hot, now);
        }
    }

    #[inline(never)]
    fn add_to(&mut self, hot: &HotObjects, now: Time) {
        let Some(mut counted) = hot.0.try_lock() else { return };
        counted.age(now);
        for Noted { object, kind, read, written } in self.collected.drain(..) {
            let (read, written) = (u64::from(read), u64::from(written));
            let new = || ObjectCounters { since: now, calls: [0; Kind::COUNT], read: 0, written: 0 };
            let counters = counted.sketch.note(object, 1 + (read + written) / WEIGHED_BYTES, new);
            counters.calls[kind as usize] += 1;
            counters.read += read;
            counters.written += written;
        }
    }

    /// Forgets what was collected.
    pub(crate) fn clear(&mut self) {
        self.collected = Vec::new();
    }
}

#[cfg(test)]
mod tests {
    use nfs::summary::{Protocol, Status};

    use super::*;

    fn call(name: &str, ino: u64, read: u32, written: u32) -> CallSummary {
        let named = |id: &OperationId| id.protocol() == Protocol::Nfs4 && id.name() == name;
        let mut summary = CallSummary::of_one(OperationId::all().find(named).unwrap(), Status::OK);
        (summary.volume, summary.ino) = (Some(VolumeId(9)), Ino(ino));
        (summary.transferred.read, summary.transferred.written) = (read, written);
        summary
    }

    fn counted(hot: &HotObjects, now: Time) -> Vec<(u64, u64, ObjectCounters)> {
        let entries = hot.entries(now).into_iter();
        let mut entries: Vec<_> =
            entries.map(|(object, weight, counters)| (object.ino.0, weight, counters)).collect();
        entries.sort_by_key(|(ino, ..)| *ino);
        entries
    }

    #[test]
    fn calls_are_counted_by_object_and_kind() {
        let (hot, mut tally) = (HotObjects::new(), ObjectTally::default());
        let now = Time::from_nanos(1_000_000_000_000);
        let mut no_object = call("RENEW", 0, 0, 0);
        tally.note(&no_object);
        no_object.ino = Ino(5);
        no_object.volume = None;
        tally.note(&no_object);
        for (name, read, written) in
            [("READ", 32 << 10, 0), ("WRITE", 0, 100), ("COMMIT", 0, 0), ("GETATTR", 0, 0)]
        {
            tally.note(&call(name, 7, read, written));
        }
        ["LOOKUP", "OPEN", "READDIR"].iter().for_each(|name| tally.note(&call(name, 2, 0, 0)));
        let reading = hot.0.lock();
        tally.end_turn(&hot, now);
        drop(reading);
        assert!(counted(&hot, now).is_empty(), "a loop does not wait for readers");
        tally.end_turn(&hot, now);
        let [(2, 3, directory), (7, 6, file)] = counted(&hot, now)[..] else {
            panic!("{:?}", hot.entries(now))
        };
        assert_eq!((directory.calls, directory.since), ([0, 0, 3, 0], now));
        assert_eq!((file.calls, file.read, file.written), ([1, 2, 0, 1], 32 << 10, 100));
        let later = now.plus(OBJECTS_HALF_LIFE);
        assert_eq!(counted(&hot, later).iter().map(|(_, weight, _)| *weight).collect::<Vec<_>>(), [1, 3]);
        hot.clear();
        assert!(counted(&hot, later).is_empty());
    }

    #[test]
    fn no_more_is_collected_than_there_is_room_for() {
        let (hot, mut tally) = (HotObjects::new(), ObjectTally::default());
        (0..2 * COLLECTED_MAX).for_each(|_| tally.note(&call("READ", 7, 1, 0)));
        tally.end_turn(&hot, Time::from_nanos(1));
        assert_eq!(counted(&hot, Time::from_nanos(1))[0].2.read, COLLECTED_MAX as u64);
    }
}
