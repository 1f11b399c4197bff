//! Maps values to positions on an axis, and chooses ticks.

/// Larger values are drawn at this one, which no real rate or time reaches, so that arithmetic stays finite.
const HUGE: f64 = 1e15;
/// Logarithmic axes need a positive value.
const TINY: f64 = 1e-6;
/// More ticks would be unreadable.
const TICKS_MAX: usize = 12;

/// The kind of an axis.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum AxisKind {
    /// Linear, from zero.
    FromZero,
    /// Linear, from zero to the last value; for times.
    Elapsed,
    /// Linear, between the values.
    Even,
    /// Logarithmic in powers of two; for numbers of threads.
    Log2,
    /// Logarithmic in powers of ten; for latencies.
    Log10,
}

/// An axis between two values, `low < high`.
#[derive(Clone, Debug)]
pub(crate) struct AxisScale {
    kind: AxisKind,
    low: f64,
    high: f64,
    /// Ascending values with ticks, all between low and high.
    pub(crate) ticks: Vec<f64>,
}

impl AxisScale {
    /// Returns an axis that includes all finite values.
    pub(crate) fn new(kind: AxisKind, values: impl Iterator<Item = f64>) -> AxisScale {
        let floor = if matches!(kind, AxisKind::Log2 | AxisKind::Log10) { TINY } else { -HUGE };
        let finite = values.filter(|value| value.is_finite()).map(|value| value.clamp(floor, HUGE));
        let (low, high) = finite
            .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| (low.min(value), high.max(value)));
        let (low, high) = if low > high { (1.0, 1.0) } else { (low, high) };
        match kind {
            AxisKind::FromZero => even(kind, 0.0, if high <= 0.0 { 1.0 } else { high }, true),
            AxisKind::Elapsed => even(kind, 0.0, if high < TINY { 1.0 } else { high }, false),
            AxisKind::Even if high - low < TINY => even(kind, low, low + 1.0, false),
            AxisKind::Even => even(kind, low, high, false),
            AxisKind::Log2 => log2(low, high),
            AxisKind::Log10 => log10(low, high),
        }
    }

    /// Returns the position of a value, from 0 at the low end to 1 at the high end. Values outside are moved to the
    /// nearer end.
    pub(crate) fn place(&self, value: f64) -> f64 {
        let (value, low, high) = match self.kind {
            AxisKind::FromZero | AxisKind::Elapsed | AxisKind::Even => (value, self.low, self.high),
            AxisKind::Log2 | AxisKind::Log10 => (value.max(TINY).ln(), self.low.ln(), self.high.ln()),
        };
        let place = (value - low) / (high - low);
        if place.is_finite() { place.clamp(0.0, 1.0) } else { 0.0 }
    }

    /// Whether a value is inside.
    pub(crate) fn holds(&self, value: f64) -> bool {
        value >= self.low && value <= self.high
    }
}

/// Rounds up to 1, 2, 2.5 or 5 times a power of ten.
fn round_step(step: f64) -> f64 {
    let power = 10f64.powf(step.max(f64::MIN_POSITIVE).log10().floor());
    let factor =
        [1.0, 2.0, 2.5, 5.0].into_iter().find(|factor| factor * power >= step * 0.999).unwrap_or(10.0);
    factor * power
}

fn even(kind: AxisKind, low: f64, high: f64, widen: bool) -> AxisScale {
    let step = round_step((high - low) / 5.0);
    let high = if widen { (high / step - 1e-9).ceil() * step } else { high };
    let first = (low / step).ceil();
    let ticks = (0..TICKS_MAX).map(|i| (first + i as f64) * step);
    let ticks = ticks.take_while(|tick| *tick <= high * (1.0 + 1e-12)).collect();
    AxisScale { kind, low, high, ticks }
}

fn log2(low: f64, high: f64) -> AxisScale {
    let (first, last) = (low.log2().floor(), high.log2().ceil());
    // A single number of threads is drawn in the middle.
    let (first, last) = if last - first < 0.5 { (first - 1.0, last + 1.0) } else { (first, last) };
    let stride = ((last - first) / (TICKS_MAX as f64 - 1.0)).ceil().max(1.0);
    let ticks = (0..TICKS_MAX).map(|i| first + i as f64 * stride);
    let ticks = ticks.take_while(|power| *power <= last).map(f64::exp2).collect();
    AxisScale { kind: AxisKind::Log2, low: first.exp2(), high: last.exp2(), ticks }
}

fn log10(low: f64, high: f64) -> AxisScale {
    let (first, last) = (low.log10().floor(), high.log10().ceil());
    let last = if last - first < 0.5 { first + 1.0 } else { last };
    let stride = ((last - first) / 6.0).ceil().max(1.0);
    let decades = (0..TICKS_MAX).map(|i| first + i as f64 * stride).take_while(|power| *power <= last);
    let within: &[f64] = if last - first <= 2.0 { &[1.0, 2.0, 5.0] } else { &[1.0] };
    let all = decades.flat_map(|power| within.iter().map(move |factor| factor * 10f64.powf(power)));
    // The axis ends at the ticks next to the values, not at whole decades.
    let all: Vec<f64> = all.filter(|tick| *tick <= 10f64.powf(last) * 1.001).collect();
    let low_end = all.iter().copied().rfind(|tick| *tick <= low * 1.001).unwrap_or(10f64.powf(first));
    let high_end = all.iter().copied().find(|tick| *tick >= high * 0.999).unwrap_or(10f64.powf(last));
    let high_end = if high_end > low_end { high_end } else { low_end * 10.0 };
    let ticks = all.into_iter().filter(|tick| (low_end..=high_end).contains(tick)).collect();
    AxisScale { kind: AxisKind::Log10, low: low_end, high: high_end, ticks }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scale(kind: AxisKind, values: &[f64]) -> AxisScale {
        AxisScale::new(kind, values.iter().copied())
    }

    #[test]
    fn threads_have_a_tick_at_each_power_of_two() {
        let threads = scale(AxisKind::Log2, &[1.0, 1024.0]);
        assert_eq!(threads.ticks, (0..=10).map(|i| f64::from(1 << i)).collect::<Vec<_>>());
        assert_eq!(threads.place(32.0), 0.5);
        assert_eq!(scale(AxisKind::Log2, &[16.0]).place(16.0), 0.5);
    }

    #[test]
    fn rates_start_at_zero_and_end_round() {
        let rates = scale(AxisKind::FromZero, &[7.25, 3.0]);
        assert_eq!(rates.ticks, [0.0, 2.0, 4.0, 6.0, 8.0]);
        assert_eq!((rates.place(0.0), rates.place(8.0)), (0.0, 1.0));
    }

    #[test]
    fn latencies_span_decades() {
        let wide = scale(AxisKind::Log10, &[12_000.0, 80_000_000.0]);
        assert_eq!(wide.ticks, [1e4, 1e5, 1e6, 1e7, 1e8]);
        let narrow = scale(AxisKind::Log10, &[23_000.0, 41_000.0]);
        assert_eq!(narrow.ticks.len(), 2, "{:?}", narrow.ticks);
    }

    #[test]
    fn missing_and_invalid_values_have_an_axis() {
        let cases: &[&[f64]] = &[
            &[],
            &[0.0],
            &[f64::NAN],
            &[-1.0, f64::INFINITY],
            &[f64::MAX, f64::MIN],
            &[1e-300],
            &[5.0, 5.0],
        ];
        for values in cases {
            for kind in
                [AxisKind::FromZero, AxisKind::Elapsed, AxisKind::Even, AxisKind::Log2, AxisKind::Log10]
            {
                let scale = scale(kind, values);
                assert!(scale.low < scale.high, "{kind:?} of {values:?}");
                assert!(!scale.ticks.is_empty() && scale.ticks.len() <= 36, "{kind:?} of {values:?}");
                assert!(scale.ticks.iter().all(|tick| tick.is_finite()), "{kind:?} of {values:?}");
                for value in *values {
                    assert!((0.0..=1.0).contains(&scale.place(*value)), "{kind:?} of {values:?}");
                }
            }
        }
    }
}
