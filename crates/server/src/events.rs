//! Events that an operator may want to know of: mounts, full volumes, device errors, recoveries, slow operations.
//!
//! The newest events are kept in memory, with numbers that grow by one, so that a reader learns what is new and how much it
//! missed. The log, which bounds and rate-limits its entries, adds those with a field `event`.

use std::collections::VecDeque;
use std::time::Instant;

use parking_lot::{Condvar, Mutex};
use serde_json::{Map, Value};

use crate::clock::now;
use crate::limits::EVENTS_MAX;

/// An event.
#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    /// Its number; the first has 1.
    pub number: u64,
    /// When it happened, in milliseconds since 1970.
    pub milliseconds: i64,
    /// Its severity: `ERROR`, `WARN`, `INFO`.
    pub level: &'static str,
    /// What kind of event it is, such as `volume_full`.
    pub kind: String,
    /// A sentence.
    pub message: String,
    /// What it is about.
    pub fields: Map<String, Value>,
}

/// The newest events.
#[derive(Debug, Default)]
pub struct Events {
    ring: Mutex<Ring>,
    /// Notified of each event.
    recorded: Condvar,
}

#[derive(Debug, Default)]
struct Ring {
    /// The number of the last event.
    last: u64,
    events: VecDeque<Event>,
}

impl Events {
    /// Adds an event; the oldest one goes if there are too many.
    pub fn record(&self, level: &'static str, kind: &str, message: &str, fields: Map<String, Value>) {
        let milliseconds = now().nanos() / 1_000_000;
        let mut ring = self.ring.lock();
        ring.last += 1;
        if ring.events.len() == EVENTS_MAX {
            ring.events.pop_front();
        }
        let (number, kind, message) = (ring.last, kind.to_owned(), message.to_owned());
        ring.events.push_back(Event { number, milliseconds, level, kind, message, fields });
        drop(ring);
        self.recorded.notify_all();
    }

    /// Returns the first `most` events after the one of this number, in order. If the first of them does not follow it, others
    /// were missed.
    #[must_use]
    pub fn after(&self, number: u64, most: usize) -> Vec<Event> {
        let ring = self.ring.lock();
        ring.events.iter().filter(|event| event.number > number).take(most).cloned().collect()
    }

    /// Waits until there is an event after the one of this number, but not longer than until `deadline`.
    pub fn wait_after(&self, number: u64, deadline: Instant) {
        let mut ring = self.ring.lock();
        while ring.last <= number && !self.recorded.wait_until(&mut ring, deadline).timed_out() {}
    }

    /// Returns the number of the last event; zero if there was none.
    #[must_use]
    pub fn last(&self) -> u64 {
        self.ring.lock().last
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde_json::json;

    use super::*;

    #[test]
    fn the_newest_events_are_kept_with_their_numbers() {
        let events = Events::default();
        assert!(events.after(0, 9).is_empty() && events.last() == 0);
        for number in 0..EVENTS_MAX + 5 {
            let fields = Map::from_iter([("volume".to_owned(), json!(number))]);
            events.record("INFO", "mount", "export mounted", fields);
        }
        let all = events.after(0, usize::MAX);
        assert_eq!((all.len(), all[0].number, events.last()), (EVENTS_MAX, 6, EVENTS_MAX as u64 + 5));
        let new = events.after(events.last() - 1, 9);
        assert_eq!(new.len(), 1);
        assert_eq!(new[0].fields["volume"], EVENTS_MAX + 4);
        let part = events.after(10, 2);
        assert_eq!(part.iter().map(|event| event.number).collect::<Vec<_>>(), [11, 12]);
        assert!(new[0].milliseconds > 0);
    }

    #[test]
    fn whoever_waits_is_told_of_the_next_event() {
        let events = Events::default();
        let deadline = Instant::now() + Duration::from_millis(20);
        events.wait_after(0, deadline);
        assert!(Instant::now() >= deadline && events.last() == 0);
        std::thread::scope(|scope| {
            let waits = scope.spawn(|| {
                events.wait_after(0, Instant::now() + Duration::from_secs(600));
                events.last()
            });
            events.record("INFO", "mount", "export mounted", Map::new());
            assert_eq!(waits.join().unwrap(), 1);
        });
    }
}
