//! Counters that are made at their first use by the only thread that writes them, while others read them.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::Arc;

use parking_lot::Mutex;

/// The readers' view of a table of counters. It only grows.
#[derive(Debug)]
pub(crate) struct Readable<K, V>(Mutex<Vec<(K, Arc<V>)>>);

impl<K: Clone, V> Readable<K, V> {
    /// Returns the counters that exist, in the order in which they were made. The writer waits for this only if it makes one at
    /// the same time.
    pub(crate) fn entries(&self) -> Vec<(K, Arc<V>)> {
        self.0.lock().clone()
    }
}

/// The writer's view. Places are numbered and never change, so that a counter is found without its key.
#[derive(Debug)]
pub(crate) struct Grown<K, V> {
    places: HashMap<K, usize>,
    counters: Vec<Arc<V>>,
    readable: Arc<Readable<K, V>>,
}

impl<K: Clone + Eq + Hash, V: Default> Grown<K, V> {
    pub(crate) fn new() -> Grown<K, V> {
        let readable = Arc::new(Readable(Mutex::default()));
        Grown { places: HashMap::new(), counters: Vec::new(), readable }
    }

    /// Returns the readers' view.
    pub(crate) fn readable(&self) -> Arc<Readable<K, V>> {
        Arc::clone(&self.readable)
    }

    /// Returns the place of the counters of a key, which are made if there are none.
    pub(crate) fn place(&mut self, key: &K) -> usize {
        if let Some(place) = self.find(key) {
            return place;
        }
        let (place, counters) = (self.counters.len(), Arc::new(V::default()));
        self.readable.0.lock().push((key.clone(), Arc::clone(&counters)));
        self.counters.push(counters);
        self.places.insert(key.clone(), place);
        place
    }

    /// Returns the place of the counters of a key, if there are any.
    pub(crate) fn find(&self, key: &K) -> Option<usize> {
        self.places.get(key).copied()
    }

    /// Returns the number of places.
    pub(crate) fn len(&self) -> usize {
        self.counters.len()
    }

    /// Returns the counters at a place.
    #[inline]
    pub(crate) fn at(&self, place: usize) -> &V {
        &self.counters[place]
    }

    /// Returns the counters at a place, to keep them at hand.
    pub(crate) fn shared(&self, place: usize) -> Arc<V> {
        Arc::clone(&self.counters[place])
    }

    /// Returns the counters of a key.
    pub(crate) fn of(&mut self, key: &K) -> &V {
        let place = self.place(key);
        self.at(place)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;

    #[test]
    fn readers_see_what_the_writer_makes() {
        let mut grown: Grown<&str, AtomicU64> = Grown::new();
        let readable = grown.readable();
        assert!(readable.entries().is_empty());
        let (first, second) = (grown.place(&"a"), grown.place(&"b"));
        assert_eq!((first, second, grown.place(&"a")), (0, 1, 0));
        grown.of(&"b").store(3, Ordering::Relaxed);
        let values: Vec<(&str, u64)> =
            readable.entries().iter().map(|(key, value)| (*key, value.load(Ordering::Relaxed))).collect();
        assert_eq!(values, [("a", 0), ("b", 3)]);
    }
}
