//! The heaviest of very many keys, in bounded memory: the Space-Saving sketch (Metwally, Agrawal, El Abbadi, "Efficient
//! Computation of Frequent and Top-k Elements in Data Streams", 2005), whose weights are halved from time to time, so that it
//! tells what is heavy now.
//!
//! A key that is not in a full sketch replaces the lightest one and inherits its weight. So with `n` entries:
//!
//! - a key's weight is never below what was noted of it;
//! - it is above that by at most what it inherited, and no inherited weight exceeds the sum of all weights divided by `n`;
//! - thus every key of which more was noted is in the sketch.
//!
//! Halving weights halves sums as well, except that a weight is rounded down: it may be below the exact one by less than 2.
//!
//! The value of a key is exact, but begins when the key enters.

use std::collections::HashMap;
use std::hash::Hash;

/// Keys with their weights and values.
#[derive(Debug)]
pub(crate) struct Sketch<K, V> {
    entries_max: usize,
    places: HashMap<K, usize>,
    entries: Vec<(K, V)>,
    /// Of the same places, apart: all are compared to find the lightest.
    weights: Vec<u64>,
    /// No weight is below this one, and those before the place `hand` are above it.
    least: u64,
    hand: usize,
}

impl<K: Copy + Eq + Hash, V> Sketch<K, V> {
    /// A sketch of this number of entries, which must not be zero. It takes memory as it is filled.
    pub(crate) fn new(entries_max: usize) -> Sketch<K, V> {
        let (places, entries, weights) = (HashMap::new(), Vec::new(), Vec::new());
        Sketch { entries_max, places, entries, weights, least: 0, hand: 0 }
    }

    /// Adds a weight, which must not be zero, to that of a key. Returns the key's value, which is `new` if the key was not there.
    pub(crate) fn note(&mut self, key: K, weight: u64, new: impl FnOnce() -> V) -> &mut V {
        let place = match self.places.get(&key) {
            Some(place) => *place,
            None => self.enter(key, new()),
        };
        self.weights[place] = self.weights[place].saturating_add(weight);
        &mut self.entries[place].1
    }

    fn enter(&mut self, key: K, value: V) -> usize {
        if self.entries.len() < self.entries_max {
            self.entries.push((key, value));
            self.weights.push(0);
            (self.least, self.hand) = (0, 0);
            self.places.insert(key, self.entries.len() - 1);
            return self.entries.len() - 1;
        }
        let place = self.lightest();
        let (gone, _) = std::mem::replace(&mut self.entries[place], (key, value));
        self.places.remove(&gone);
        self.places.insert(key, place);
        place
    }

    /// Returns the place of the lightest key. Weights only grow, and most light ones are equal: one comparison of all finds the
    /// next several.
    fn lightest(&mut self) -> usize {
        loop {
            if let Some(step) = self.weights[self.hand..].iter().position(|weight| *weight <= self.least) {
                self.hand += step;
                return self.hand;
            }
            (self.least, self.hand) = (self.weights.iter().copied().min().unwrap_or(0), 0);
        }
    }

    /// Halves all weights.
    pub(crate) fn age(&mut self) {
        self.weights.iter_mut().for_each(|weight| *weight /= 2);
        (self.least, self.hand) = (0, 0);
    }

    /// Returns all keys, with their weights and values.
    pub(crate) fn entries(&self) -> impl Iterator<Item = (K, u64, &V)> {
        self.entries.iter().zip(&self.weights).map(|((key, value), weight)| (*key, *weight, value))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ENTRIES: usize = 64;

    /// What was noted of a key, exactly.
    #[derive(Clone, Copy, Default)]
    struct Exact {
        /// Halved as often as those of the sketch.
        weight: f64,
        count: u64,
    }

    /// Compares a sketch with exact counts. Returns how many keys had to be in it.
    fn check(sketch: &Sketch<u64, u64>, exact: &HashMap<u64, Exact>) -> usize {
        let sum: f64 = exact.values().map(|exact| exact.weight).sum();
        #[expect(clippy::cast_precision_loss, reason = "weights of tests are small")]
        let (bound, entries) =
            (sum / ENTRIES as f64, sketch.entries().map(|(key, weight, value)| (key, weight as f64, *value)));
        let found: HashMap<u64, (f64, u64)> =
            entries.map(|(key, weight, value)| (key, (weight, value))).collect();
        assert_eq!(found.len(), sketch.places.len());
        assert!(found.len() <= ENTRIES);
        for (key, (weight, value)) in &found {
            let exact = exact[key];
            assert!(*weight > exact.weight - 2.0, "{key}: {weight} of {}", exact.weight);
            assert!(*weight <= exact.weight + bound, "{key}: {weight} of {}, bound {bound}", exact.weight);
            assert!(*value > 0 && *value <= exact.count, "{key}: {value} of {}", exact.count);
        }
        // A weight may have been rounded down.
        let heavy: Vec<_> = exact.iter().filter(|(_, exact)| exact.weight > bound + 2.0).collect();
        heavy.iter().for_each(|(key, _)| assert!(found.contains_key(key), "{key} is missing"));
        heavy.len()
    }

    #[test]
    fn heavy_keys_are_found_and_errors_are_bounded() {
        let seed = fastrand::u64(..);
        println!("seed {seed}");
        let mut random = fastrand::Rng::with_seed(seed);
        let mut heavy = 0;
        for round in 0..40 {
            let (mut sketch, mut exact) = (Sketch::new(ENTRIES), HashMap::<u64, Exact>::new());
            // From all keys alike to a few that get nearly all.
            let (skew, keys) = (f64::from(round % 8), f64::from(random.u32(10..5000)));
            for step in 0..random.u32(1..20_000) {
                #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a random key")]
                let key = (keys * random.f64().powf(1.0 + skew)) as u64;
                let weight = if random.u8(..) < 16 { random.u64(1..100) } else { 1 };
                *sketch.note(key, weight, || 0) += 1;
                let of_key = exact.entry(key).or_default();
                #[expect(clippy::cast_precision_loss, reason = "weights of tests are small")]
                let weight = weight as f64;
                (of_key.weight, of_key.count) = (of_key.weight + weight, of_key.count + 1);
                if round % 2 == 1 && step % 3000 == 2999 {
                    sketch.age();
                    exact.values_mut().for_each(|exact| exact.weight /= 2.0);
                }
            }
            heavy += check(&sketch, &exact);
        }
        assert!(heavy > 100, "the rounds had only {heavy} heavy keys");
    }

    #[test]
    fn what_is_heavy_now_replaces_what_was() {
        let mut sketch = Sketch::new(2);
        for _ in 0..1000 {
            sketch.note('a', 1, || ());
            sketch.note('b', 3, || ());
        }
        (0..12).for_each(|_| sketch.age());
        sketch.note('c', 2, || ());
        sketch.note('c', 2, || ());
        let mut keys: Vec<(char, u64)> = sketch.entries().map(|(key, weight, ())| (key, weight)).collect();
        keys.sort_unstable();
        assert_eq!(keys, [('b', 0), ('c', 4)]);
    }
}
