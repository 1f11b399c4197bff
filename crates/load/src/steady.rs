//! When a rate counts as steady: within a window of rounds, the highest and lowest rates are close to the mean, and a
//! straight line fitted to the rates (least squares) is nearly level. These are the conditions of SNIA's Solid State
//! Storage Performance Test Specification, whose bounds are the defaults.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::result::Steady;

/// The bounds of a steady state.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SteadyRule {
    /// The length of a round.
    pub round: Duration,
    /// Rounds in a window.
    pub rounds: u32,
    /// The highest minus the lowest rate, as a fraction of the mean.
    pub spread: f64,
    /// The rise or fall of the line over the window, as a fraction of the mean.
    pub slope: f64,
    /// How long to wait for a steady state.
    #[serde(rename = "most")]
    pub duration_max: Duration,
}

impl Default for SteadyRule {
    fn default() -> Self {
        Self {
            round: Duration::from_secs(2),
            rounds: 5,
            spread: 0.20,
            slope: 0.10,
            duration_max: Duration::from_secs(300),
        }
    }
}

/// The delay of a coordinator's verdict to one of several hosts.
const VERDICT_DELAY_MAX: Duration = Duration::from_secs(5);
/// Rounds kept for that delay.
const LATE_ROUNDS_MAX: u32 = 50;

impl SteadyRule {
    /// Returns the number of intervals in a round: about one per second.
    pub(crate) fn intervals(&self) -> u32 {
        u32::try_from(self.round.as_secs()).unwrap_or(u32::MAX).max(1)
    }

    /// Whether time is up after this many rounds.
    pub(crate) fn gives_up_after(&self, rounds: u64) -> bool {
        self.round.as_nanos() * u128::from(rounds) >= self.duration_max.as_nanos()
    }

    /// Returns the rounds that one of several hosts keeps beyond a window, as it learns late which round is the last.
    pub(crate) fn late_rounds(&self) -> u32 {
        let rounds = VERDICT_DELAY_MAX.as_nanos().div_ceil(self.round.as_nanos().max(1));
        u32::try_from(rounds).unwrap_or(u32::MAX).clamp(2, LATE_ROUNDS_MAX)
    }

    /// Judges the rates of a window's rounds, oldest first.
    #[must_use]
    pub fn judge(&self, rates: &[f64]) -> Steady {
        let count = rates.len() as f64;
        let mean = rates.iter().sum::<f64>() / count;
        let highest = rates.iter().copied().fold(f64::MIN, f64::max);
        let lowest = rates.iter().copied().fold(f64::MAX, f64::min);
        let middle = (count - 1.0) / 2.0;
        let (mut covariance, mut variance) = (0.0, 0.0);
        for (index, rate) in rates.iter().enumerate() {
            let x = index as f64 - middle;
            covariance += x * (rate - mean);
            variance += x * x;
        }
        let rise = if variance > 0.0 { covariance / variance * (count - 1.0) } else { 0.0 };
        let known = !rates.is_empty() && mean > 0.0;
        let (spread, slope) =
            if known { ((highest - lowest) / mean, (rise / mean).abs()) } else { (1.0, 1.0) };
        let whole = rates.len() >= self.rounds as usize;
        Steady {
            reached: known && whole && spread <= self.spread && slope <= self.slope,
            window_s: self.round.as_secs_f64() * count,
            spread,
            slope,
        }
    }
}

/// Windows of three rounds.
#[cfg(test)]
pub(crate) const TEST_RULE: SteadyRule = SteadyRule {
    round: Duration::from_secs(2),
    rounds: 3,
    spread: 0.2,
    slope: 0.1,
    duration_max: Duration::from_secs(20),
};

#[cfg(test)]
mod tests {
    use super::*;

    fn judge(rates: &[f64]) -> Steady {
        SteadyRule::default().judge(rates)
    }

    #[test]
    fn level_rates_are_steady() {
        assert!(judge(&[100.0, 101.0, 99.0, 100.0, 100.0]).reached);
    }

    #[test]
    fn a_window_must_be_full() {
        assert!(!judge(&[100.0, 100.0]).reached);
        assert!(!judge(&[]).reached);
    }

    #[test]
    fn a_rise_with_small_spread_is_not_steady() {
        let steady = judge(&[94.0, 97.0, 100.0, 103.0, 106.0]);
        assert!(steady.spread < 0.2 && (steady.slope - 0.12).abs() < 1e-9 && !steady.reached);
    }

    #[test]
    fn an_outlier_on_a_level_line_is_not_steady() {
        let steady = judge(&[100.0, 100.0, 130.0, 100.0, 100.0]);
        assert!(steady.slope < 1e-9 && steady.spread > 0.2 && !steady.reached);
    }

    #[test]
    fn a_rate_of_zero_is_not_steady() {
        assert!(!judge(&[0.0; 5]).reached);
    }
}
