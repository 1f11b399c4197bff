//! Histograms whose bounds double.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::counters::add;

/// A histogram of `N` buckets. Bucket 0 counts values up to the unit, each further one values up to twice the last bound, and the
/// last one all that are larger. Only one thread writes it.
#[derive(Debug)]
pub(crate) struct Histogram<const N: usize> {
    buckets: [AtomicU64; N],
    sum: AtomicU64,
}

/// A histogram as it was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Snapshot<const N: usize> {
    pub(crate) buckets: [u64; N],
    pub(crate) sum: u64,
}

/// Returns the bucket of a value.
#[inline]
pub(crate) fn bucket<const N: usize>(value: u64, unit: u64) -> usize {
    let units = value.saturating_sub(1) / unit;
    // One more than the logarithm of the units, or zero if there are none; faster than counting leading zeros.
    ((2 * units + 1).ilog2() as usize).min(N - 1)
}

impl<const N: usize> Default for Histogram<N> {
    fn default() -> Histogram<N> {
        Histogram { buckets: [const { AtomicU64::new(0) }; N], sum: AtomicU64::new(0) }
    }
}

impl<const N: usize> Histogram<N> {
    /// Counts a value that occurred this many times.
    #[inline]
    pub(crate) fn count(&self, value: u64, unit: u64, times: u64) {
        add(&self.buckets[bucket::<N>(value, unit)], times);
        add(&self.sum, value.wrapping_mul(times));
    }

    pub(crate) fn read(&self) -> Snapshot<N> {
        let buckets = self.buckets.each_ref().map(|bucket| bucket.load(Ordering::Relaxed));
        Snapshot { buckets, sum: self.sum.load(Ordering::Relaxed) }
    }
}

impl<const N: usize> Default for Snapshot<N> {
    fn default() -> Snapshot<N> {
        Snapshot { buckets: [0; N], sum: 0 }
    }
}

impl<const N: usize> Snapshot<N> {
    /// Adds what another thread counted.
    pub(crate) fn add(&mut self, other: &Snapshot<N>) {
        self.buckets.iter_mut().zip(other.buckets).for_each(|(bucket, more)| *bucket += more);
        self.sum = self.sum.wrapping_add(other.sum);
    }

    /// Returns the number of values.
    pub(crate) fn count(&self) -> u64 {
        self.buckets.iter().sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_belong_to_the_lower_bucket() {
        let expected = [(0, 0), (1, 0), (16, 0), (17, 1), (32, 1), (33, 2), (64, 2), (65, 3), (u64::MAX, 3)];
        for (value, place) in expected {
            assert_eq!(bucket::<4>(value, 16), place, "{value}");
        }
    }

    #[test]
    fn snapshots_of_several_writers_are_added() {
        let (one, two) = (Histogram::<3>::default(), Histogram::<3>::default());
        [1, 10, 11].iter().for_each(|value| one.count(*value, 10, 1));
        two.count(100, 10, 2);
        let mut sum = one.read();
        sum.add(&two.read());
        assert_eq!(sum, Snapshot { buckets: [2, 1, 2], sum: 222 });
        assert_eq!(sum.count(), 5);
    }
}
