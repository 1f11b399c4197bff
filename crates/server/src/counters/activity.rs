//! Calls by client, volume and operation, and by file or directory. They are counted only while somebody asks for them, so that
//! an unwatched loop pays only for one comparison per call.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use nfs::summary::{CallSummary, OperationId, Transferred};
use parking_lot::Mutex;
use volume::ids::VolumeId;
use volume::time::Time;

use crate::counters::add;
use crate::counters::grown::{Grown, Readable};
use crate::counters::objects::{HotObjects, ObjectTally};
use crate::counters::phases::Phase;
use crate::limits::ACTIVITIES_MAX;

/// An operation of a client on a volume, or on none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Activity {
    pub(crate) client: IpAddr,
    pub(crate) volume: Option<VolumeId>,
    /// Of a COMPOUND, the one that it was made for.
    pub(crate) operation: OperationId,
}

/// Counters of an activity.
#[derive(Debug, Default)]
pub(crate) struct ActivityCounters {
    pub(crate) calls: AtomicU64,
    /// Bytes of file data.
    pub(crate) read: AtomicU64,
    pub(crate) written: AtomicU64,
    /// By the number of the [`Phase`], in nanoseconds.
    pub(crate) phases: [AtomicU64; Phase::COUNT],
}

/// Activities and their counters. Calls of those beyond [`ACTIVITIES_MAX`] are counted together, by `None`.
type Readers = Readable<Option<Activity>, ActivityCounters>;

/// The readers' side.
#[derive(Debug)]
pub(crate) struct Watch {
    /// When counting ends unless somebody asks again, in nanoseconds of the monotonic clock.
    until: AtomicI64,
    /// Replaced when counting ends.
    counted: Mutex<Arc<Readers>>,
    /// Emptied when counting ends.
    pub(crate) objects: HotObjects,
}

impl Watch {
    /// Has the loop count until `until`, from its next turn on.
    pub(crate) fn ask(&self, until: Time) {
        self.until.fetch_max(until.nanos(), Ordering::Relaxed);
    }

    /// Returns what was counted since the current watching began. Calls beyond the limit have no key.
    pub(crate) fn entries(&self) -> Vec<(Option<Activity>, Arc<ActivityCounters>)> {
        let counted = Arc::clone(&self.counted.lock());
        counted.entries()
    }
}

/// The counting loop's side.
pub(crate) struct ActivityTally {
    watch: Arc<Watch>,
    is_watched: bool,
    counters: Grown<Option<Activity>, ActivityCounters>,
    /// The activity of the last call and its place: calls of one kind often follow one another.
    last: (Option<Activity>, usize),
    objects: ObjectTally,
}

impl ActivityTally {
    pub(crate) fn new() -> ActivityTally {
        let (counters, last) = no_counters();
        let watch = Watch {
            until: AtomicI64::new(i64::MIN),
            counted: Mutex::new(counters.readable()),
            objects: HotObjects::new(),
        };
        let objects = ObjectTally::default();
        ActivityTally { watch: Arc::new(watch), is_watched: false, counters, last, objects }
    }

    /// Returns the readers' side.
    pub(crate) fn watch(&self) -> Arc<Watch> {
        Arc::clone(&self.watch)
    }

    /// Notes a reading of the clock when a turn begins. Drops all counters once nobody watches any more.
    #[inline]
    pub(crate) fn note_time(&mut self, now: Time) {
        let is_watched = now.nanos() < self.watch.until.load(Ordering::Relaxed);
        if is_watched != self.is_watched {
            self.switch(is_watched);
        }
    }

    #[cold]
    fn switch(&mut self, is_watched: bool) {
        self.is_watched = is_watched;
        if !is_watched {
            (self.counters, self.last) = no_counters();
            *self.watch.counted.lock() = self.counters.readable();
            self.objects.clear();
            self.watch.objects.clear();
        }
    }

    /// Ends a turn at this time.
    #[inline]
    pub(crate) fn end_turn(&mut self, now: Time) {
        self.objects.end_turn(&self.watch.objects, now);
    }

    /// Counts a call for the file or directory that it is about.
    #[inline]
    pub(crate) fn note_object(&mut self, summary: &CallSummary) {
        if self.is_watched {
            self.objects.note(summary);
        }
    }

    /// Whether calls are counted.
    #[inline]
    pub(crate) fn is_watched(&self) -> bool {
        self.is_watched
    }

    /// Counts calls whose replies were sent: what each transferred, and the sums of their phases.
    pub(crate) fn count(
        &mut self,
        activity: Activity,
        transferred: Transferred,
        phases: [u64; Phase::COUNT],
        calls: u64,
    ) {
        if self.last.0 != Some(activity) {
            self.last = (Some(activity), self.place(activity));
        }
        let counters = self.counters.at(self.last.1);
        add(&counters.calls, calls);
        add(&counters.read, calls * u64::from(transferred.read));
        add(&counters.written, calls * u64::from(transferred.written));
        for (sum, nanos) in counters.phases.iter().zip(phases) {
            add(sum, nanos);
        }
    }

    fn place(&mut self, activity: Activity) -> usize {
        let key = Some(activity);
        match self.counters.find(&key) {
            Some(place) => place,
            // The others have the first place.
            None if self.counters.len() > ACTIVITIES_MAX => self.counters.place(&None),
            None => self.counters.place(&key),
        }
    }
}

/// Returns counters of no activity, and the place of the others.
fn no_counters() -> (Grown<Option<Activity>, ActivityCounters>, (Option<Activity>, usize)) {
    let mut counters = Grown::new();
    let last = (None, counters.place(&None));
    (counters, last)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn activity(client: u32) -> Activity {
        let operation = OperationId::all().next().expect("there are operations");
        Activity { client: IpAddr::from(client.to_be_bytes()), volume: Some(VolumeId(7)), operation }
    }

    fn calls(tally: &ActivityTally) -> Vec<(Option<Activity>, u64)> {
        let entries = tally.watch().entries();
        entries.iter().map(|(key, counters)| (*key, counters.calls.load(Ordering::Relaxed))).collect()
    }

    #[test]
    fn what_somebody_asks_for_is_counted_and_forgotten_when_nobody_does() {
        let mut tally = ActivityTally::new();
        let at = Time::from_nanos;
        tally.note_time(at(5));
        assert!(!tally.is_watched());
        tally.watch().ask(at(100));
        tally.watch().ask(at(90));
        tally.note_time(at(99));
        assert!(tally.is_watched());
        for client in [1, 2, 1, 1] {
            tally.count(activity(client), Transferred { read: 10, written: 3 }, [1, 2, 3, 4, 5, 6], 1);
        }
        assert_eq!(calls(&tally), [(None, 0), (Some(activity(1)), 3), (Some(activity(2)), 1)]);
        let (_, first) = &tally.watch().entries()[1];
        let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        assert_eq!((load(&first.read), load(&first.written)), (30, 9));
        assert_eq!(first.phases.each_ref().map(load), [3, 6, 9, 12, 15, 18]);
        tally.note_time(at(100));
        assert!(!tally.is_watched());
        assert_eq!(calls(&tally), [(None, 0)]);
    }

    #[test]
    fn activities_beyond_the_limit_are_counted_together() {
        let mut tally = ActivityTally::new();
        let most = u32::try_from(ACTIVITIES_MAX).expect("the limit is small");
        for client in (0..most + 5).chain([0, most]) {
            tally.count(activity(client), Transferred::default(), [0; Phase::COUNT], 1);
        }
        let calls = calls(&tally);
        assert_eq!(calls.len(), ACTIVITIES_MAX + 1);
        assert_eq!((calls[0], calls[1]), ((None, 6), (Some(activity(0)), 2)));
    }
}
