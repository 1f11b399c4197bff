//! The rounds of a steady-state measurement. The last rounds are the window, whose counts are the result. Of all
//! other rounds only failures count.

use std::collections::VecDeque;

use super::RoundCount;
use super::tally::{Tally, rate};
use crate::error::LoadError;
use crate::steady::SteadyRule;

/// The rounds that may still become part of the window.
pub(super) struct Window {
    rule: SteadyRule,
    kept: usize,
    rounds: VecDeque<Round>,
    /// The number of completed rounds.
    over: u64,
    /// Failures of dropped rounds.
    outside: Tally,
    is_closed: bool,
}

struct Round {
    tally: Tally,
    intervals: u32,
}

impl Window {
    /// Makes a window that keeps `spare` rounds more than the rule needs, for a verdict that comes late.
    pub(super) fn new(rule: SteadyRule, spare: u32) -> Self {
        let kept = rule.rounds as usize + spare as usize;
        let (rounds, outside) = (VecDeque::new(), Tally::new());
        Self { rule, kept, rounds, over: 0, outside, is_closed: false }
    }

    /// Adds an interval. Returns the count of the round that it completes.
    pub(super) fn add(&mut self, tally: Tally) -> Option<RoundCount> {
        if self.is_closed {
            self.outside.add(Tally::failures_of(tally));
            return None;
        }
        let per_round = self.rule.intervals();
        match self.rounds.back_mut().filter(|round| round.intervals < per_round) {
            Some(round) => {
                round.tally.add(tally);
                round.intervals += 1;
            }
            None => self.rounds.push_back(Round { tally, intervals: 1 }),
        }
        let last = self.rounds.back().filter(|round| round.intervals == per_round)?;
        self.over += 1;
        let counted =
            RoundCount { number: self.over, operations: last.tally.operations, bytes: last.tally.bytes };
        while self.rounds.len() > self.kept {
            let first = self.rounds.pop_front();
            self.forget(first);
        }
        Some(counted)
    }

    /// Returns the rates of the completed rounds that are kept, oldest first.
    pub(super) fn rates(&self) -> Vec<f64> {
        let over = self.rounds.iter().filter(|round| round.intervals == self.rule.intervals());
        over.map(|round| rate(round.tally.operations, self.rule.round.as_secs_f64())).collect()
    }

    /// Makes later intervals count failures only.
    pub(super) fn close(&mut self) {
        self.is_closed = true;
    }

    /// Ends the window with round `number` and drops the rounds before and after it.
    ///
    /// # Errors
    /// If a round of that window is no longer kept or not complete.
    pub(super) fn close_at(&mut self, number: u64) -> Result<(), LoadError> {
        if self.is_closed {
            return Ok(());
        }
        self.is_closed = true;
        if self.rounds.back().is_some_and(|round| round.intervals < self.rule.intervals()) {
            let unfinished = self.rounds.pop_back();
            self.forget(unfinished);
        }
        let wanted = number.min(u64::from(self.rule.rounds));
        let kept = self.rounds.len() as u64;
        if number == 0 || number > self.over || self.over - number + wanted > kept {
            let (over, rounds) = (self.over, self.rule.rounds);
            return Err(LoadError::new(format!(
                "the window of {rounds} rounds up to round {number} is not kept after {over} rounds"
            )));
        }
        for _ in number..self.over {
            let late = self.rounds.pop_back();
            self.forget(late);
        }
        while self.rounds.len() as u64 > wanted {
            let early = self.rounds.pop_front();
            self.forget(early);
        }
        self.over = number;
        Ok(())
    }

    fn forget(&mut self, round: Option<Round>) {
        if let Some(round) = round {
            self.outside.add(Tally::failures_of(round.tally));
        }
    }

    fn interval_s(&self) -> f64 {
        (self.rule.round / self.rule.intervals()).as_secs_f64()
    }

    /// Returns when a closed window ended, in seconds since the measurement began.
    pub(super) fn end_s(&self) -> Option<f64> {
        let last = self.rounds.back().filter(|round| round.intervals < self.rule.intervals());
        let unfinished_s = last.map_or(0.0, |round| f64::from(round.intervals) * self.interval_s());
        self.is_closed.then_some(self.over as f64 * self.rule.round.as_secs_f64() + unfinished_s)
    }

    /// Returns the length of the window in seconds, and its counts.
    pub(super) fn finish(self) -> (f64, Tally) {
        let intervals = self.rounds.iter().map(|round| round.intervals).sum::<u32>();
        let length_s = f64::from(intervals) * self.interval_s();
        let mut sum = self.outside;
        self.rounds.into_iter().for_each(|round| sum.add(round.tally));
        (length_s, sum)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::cause::Cause;
    use crate::steady::TEST_RULE as RULE;

    /// Returns a window after some intervals of one second. Interval n has n operations and one failure.
    fn window(spare: u32, intervals: u64) -> Window {
        let mut window = Window::new(RULE, spare);
        for number in 1..=intervals {
            let mut tally = Tally::new();
            tally.operations = number;
            tally.error(&Cause::Wrong("test"));
            let counted = window.add(tally);
            assert_eq!(counted.is_some(), number % 2 == 0);
            if let Some(counted) = counted {
                assert_eq!((counted.number, counted.operations), (number / 2, 2 * number - 1));
            }
        }
        window
    }

    #[test]
    fn only_the_last_rounds_count_and_every_failure_does() {
        let window = window(0, 11);
        assert_eq!(window.rates(), [5.5, 7.5, 9.5]);
        let (seconds, tally) = window.finish();
        assert_eq!((seconds, tally.operations, tally.failed()), (7.0, 5 + 6 + 7 + 8 + 9 + 10 + 11, 11));
    }

    #[test]
    fn a_late_verdict_ends_the_window_in_the_past() {
        let mut window = window(4, 13);
        window.close_at(4).unwrap();
        assert_eq!(window.end_s(), Some(8.0));
        assert!(window.add(Tally::new()).is_none());
        let (seconds, tally) = window.finish();
        assert_eq!((seconds, tally.operations, tally.failed()), (6.0, 3 + 4 + 5 + 6 + 7 + 8, 13));
    }

    #[test]
    fn a_window_that_ends_early_has_fewer_rounds() {
        let mut window = window(2, 5);
        window.close_at(1).unwrap();
        assert_eq!(window.finish().0, 2.0);
    }

    #[test]
    fn a_window_with_dropped_rounds_is_an_error() {
        for (spare, number) in [(1, 2), (1, 0), (9, 7)] {
            let why = window(spare, 12).close_at(number).unwrap_err().to_string();
            assert!(why.contains("is not kept"), "{why}");
        }
    }
}
