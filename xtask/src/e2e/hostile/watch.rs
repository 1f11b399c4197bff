//! What the well-behaved clients tell about themselves: how long each call took, and what failed.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::rpc::Failure;

/// Shared by a client's thread and its judge.
#[derive(Debug, Default)]
pub(super) struct Watch {
    pub(super) is_over: AtomicBool,
    laps: AtomicUsize,
    times: Mutex<Vec<(Duration, &'static str)>>,
}

impl Watch {
    /// Makes a call and notes how long it took.
    pub(super) fn time<T>(
        &self,
        what: &'static str,
        call: impl FnOnce() -> Result<T, Failure>,
    ) -> Result<T, String> {
        let began = Instant::now();
        let result = call();
        let took = began.elapsed();
        self.times().push((took, what));
        result.map_err(|why| format!("{what} failed after {} ms: {why}", took.as_millis()))
    }

    fn times(&self) -> MutexGuard<'_, Vec<(Duration, &'static str)>> {
        self.times.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes that a round of calls is complete.
    pub(super) fn lap(&self) {
        self.laps.fetch_add(1, Ordering::SeqCst);
    }

    pub(super) fn laps(&self) -> usize {
        self.laps.load(Ordering::SeqCst)
    }

    /// Returns the times since the last call of this.
    pub(super) fn take(&self) -> Times {
        let mut times = std::mem::take(&mut *self.times());
        times.sort_unstable();
        Times(times)
    }
}

/// The times of calls, shortest first.
#[derive(Debug)]
pub(super) struct Times(Vec<(Duration, &'static str)>);

impl Times {
    /// The time that 99 of 100 calls did not exceed.
    pub(super) fn p99(&self) -> Duration {
        let exceeded = self.0.len() / 100;
        self.0.iter().rev().nth(exceeded).map_or(Duration::ZERO, |(took, _)| *took)
    }

    /// The longest call.
    pub(super) fn longest(&self) -> (Duration, &'static str) {
        self.0.last().copied().unwrap_or_default()
    }

    pub(super) fn count(&self) -> usize {
        self.0.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_call_of_a_hundred_may_exceed_the_percentile() {
        let watch = Watch::default();
        let of = |milliseconds| (Duration::from_millis(milliseconds), "READ");
        watch.times().extend((1..=200).rev().map(of));
        let times = watch.take();
        assert_eq!((times.p99(), times.count()), (Duration::from_millis(198), 200));
        assert_eq!(times.longest(), of(200));
        assert_eq!(watch.take().p99(), Duration::ZERO, "each call is judged once");
    }
}
