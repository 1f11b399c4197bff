//! Formats figures for people. A value that is not a finite number is shown as a dash.

pub(crate) use crate::text::{count, rounded_size, size};

/// Shown instead of a missing figure.
pub(crate) const NOTHING: &str = "–";

const SECONDS_PER_DAY: u64 = 86_400;

/// Formats three significant digits: `1.23`, `12.3`, `123`.
fn three_digits(value: f64) -> String {
    let size = value.abs();
    if size >= 99.95 {
        format!("{value:.0}")
    } else if size >= 9.995 {
        format!("{value:.1}")
    } else {
        format!("{value:.2}")
    }
}

/// Formats a value in the largest unit that it reaches. `units` are factors and names, largest first.
fn scaled(value: f64, units: &[(f64, &str)], smallest: &str) -> String {
    if !value.is_finite() {
        return NOTHING.to_owned();
    }
    if value == 0.0 {
        return format!("0{smallest}");
    }
    let largest = units.first().map_or(1.0, |(factor, _)| *factor);
    if value.abs() >= largest * 1e5 {
        return format!("{:.2e}{}", value / largest, units.first().map_or(smallest, |(_, name)| name));
    }
    // Three digits round values just below a unit up to it: 999.7 is 1.00k.
    match units.iter().find(|(factor, _)| value.abs() >= factor * 0.9995) {
        Some((factor, name)) => format!("{}{name}", three_digits(value / factor)),
        None => format!("{}{smallest}", three_digits(value)),
    }
}

/// Formats a number with a suffix for thousands and more: `582k`.
pub(crate) fn short(value: f64) -> String {
    let text = scaled(value, &[(1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")], "");
    // Whole numbers below a thousand need no decimals.
    if value.abs() < 999.5 && value.fract() == 0.0 { format!("{value:.0}") } else { text }
}

/// Removes trailing zeros, for the tick of an axis.
fn tick(text: &str) -> String {
    let Some((whole, rest)) = text.split_once('.') else { return text.to_owned() };
    let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
    let (decimals, unit) = rest.split_at(digits);
    match decimals.trim_end_matches('0') {
        "" => format!("{whole}{unit}"),
        kept => format!("{whole}.{kept}{unit}"),
    }
}

/// Formats a number at a tick.
pub(crate) fn short_tick(value: f64) -> String {
    tick(&short(value))
}

/// Formats bytes per second at a tick.
pub(crate) fn bytes_tick(value: f64) -> String {
    if value == 0.0 { "0".to_owned() } else { tick(&bytes_per_second(value)) }
}

/// Formats a time at a tick.
pub(crate) fn nanoseconds_tick(value: f64) -> String {
    tick(&nanoseconds(value))
}

/// Formats a fraction at a tick.
pub(crate) fn percent_tick(value: f64) -> String {
    tick(&percent(value))
}

/// Formats a number of threads at a tick, without a suffix where it fits.
pub(crate) fn threads_tick(value: f64) -> String {
    if value < 10_000.0 { short_whole(value) } else { short_tick(value) }
}

/// Formats a whole number without decimals.
fn short_whole(value: f64) -> String {
    if value.fract() == 0.0 { format!("{value:.0}") } else { short_tick(value) }
}

/// Formats operations per second.
#[must_use]
pub fn operations(per_second: f64) -> String {
    let text = short(per_second);
    if text == NOTHING { text } else { format!("{text}/s") }
}

/// Formats bytes per second in decimal units, as networks and drives are specified.
#[must_use]
pub fn bytes_per_second(value: f64) -> String {
    scaled(value, &[(1e12, " TB/s"), (1e9, " GB/s"), (1e6, " MB/s"), (1e3, " kB/s")], " B/s")
}

/// Formats bytes in decimal units.
pub(crate) fn bytes(value: u64) -> String {
    if value < 1000 {
        return format!("{value} B");
    }
    scaled(value as f64, &[(1e15, " PB"), (1e12, " TB"), (1e9, " GB"), (1e6, " MB"), (1e3, " kB")], " B")
}

/// Formats a time.
#[must_use]
pub fn nanoseconds(value: f64) -> String {
    scaled(value, &[(1e9, " s"), (1e6, " ms"), (1e3, " µs")], " ns")
}

/// Formats a duration in seconds, or in a smaller unit below one second.
pub(crate) fn seconds(value: f64) -> String {
    if value.is_finite() && value.abs() < 1.0 {
        nanoseconds(value * 1e9)
    } else {
        scaled(value, &[(3600.0, " h"), (60.0, " min")], " s")
    }
}

/// Formats a fraction as a percentage.
#[must_use]
pub fn percent(fraction: f64) -> String {
    let value = fraction * 100.0;
    if !value.is_finite() {
        NOTHING.to_owned()
    } else if value != 0.0 && value.abs() < 0.1 {
        "< 0.1 %".to_owned()
    } else if value.abs() >= 1e5 {
        format!("{value:.1e} %")
    } else if value.abs() >= 99.95 || value == 0.0 {
        format!("{value:.0} %")
    } else {
        format!("{value:.1} %")
    }
}

/// Formats a ratio.
pub(crate) fn ratio(value: f64) -> String {
    let text = scaled(value, &[], "");
    if text == NOTHING { text } else { format!("{text} ×") }
}

/// Formats a time as `2026-11-21 07:30 UTC`.
pub(crate) fn moment(unix_seconds: u64) -> String {
    let days = unix_seconds / SECONDS_PER_DAY;
    let minutes = unix_seconds % SECONDS_PER_DAY / 60;
    let (year, month, day) = date(days);
    format!("{year:04}-{month:02}-{day:02} {:02}:{:02} UTC", minutes / 60, minutes % 60)
}

/// Returns the year, month and day of a day in UTC. The calendar is counted in eras of 400 years that begin on 1 March.
#[must_use]
pub fn date(days_since_1970: u64) -> (u64, u64, u64) {
    let days = days_since_1970 + 719_468;
    let era = days / 146_097;
    let day_of_era = days % 146_097;
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
    (era * 400 + year_of_era + u64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_keep_three_digits() {
        assert_eq!(operations(581_734.0), "582k/s");
        assert_eq!(operations(999.7), "1.00k/s");
        assert_eq!(operations(42.0), "42/s");
        assert_eq!(bytes_per_second(7.25e9), "7.25 GB/s");
        assert_eq!(bytes_per_second(0.0), "0 B/s");
        assert_eq!(nanoseconds(1530.0), "1.53 µs");
        assert_eq!(seconds(30.0), "30.0 s");
        assert_eq!(seconds(6180.0), "1.72 h");
        assert_eq!(seconds(0.25), "250 ms");
    }

    #[test]
    fn ticks_have_no_needless_zeros() {
        assert_eq!(bytes_tick(2e9), "2 GB/s");
        assert_eq!(bytes_tick(2.5e9), "2.5 GB/s");
        assert_eq!(percent_tick(0.2), "20 %");
        assert_eq!(nanoseconds_tick(1e5), "100 µs");
        assert_eq!(short_tick(1.5e3), "1.5k");
        assert_eq!(threads_tick(1024.0), "1024");
        assert_eq!(threads_tick(0.5), "0.5");
        assert_eq!(threads_tick(65_536.0), "65.5k");
    }

    #[test]
    fn infinities_and_nan_are_shown_as_a_dash() {
        for text in
            [operations(f64::NAN), bytes_per_second(f64::INFINITY), percent(f64::NAN), ratio(f64::NAN)]
        {
            assert_eq!(text, NOTHING);
        }
    }

    #[test]
    fn absurd_figures_stay_short() {
        for value in [f64::MAX, f64::MIN_POSITIVE, 1e300, -1e300, 1e17] {
            for text in
                [short(value), bytes_per_second(value), nanoseconds(value), percent(value), ratio(value)]
            {
                assert!(text.chars().count() < 20, "{text}");
            }
        }
    }

    #[test]
    fn small_percentages_are_not_rounded_to_zero() {
        assert_eq!(percent(0.965), "96.5 %");
        assert_eq!(percent(1.016), "102 %");
        assert_eq!(percent(0.0004), "< 0.1 %");
        assert_eq!(percent(0.0), "0 %");
    }

    #[test]
    fn sizes_and_counts() {
        assert_eq!(size(4096), "4 KiB");
        assert_eq!(size(16 << 20), "16 MiB");
        assert_eq!(size(1000), "1,000 B");
        assert_eq!(size(0), "0 B");
        assert_eq!(bytes(1_500_000_000), "1.50 GB");
        assert_eq!(count(1_234_567), "1,234,567");
        assert_eq!(count(12), "12");
    }

    #[test]
    fn times_are_formatted_as_dates() {
        assert_eq!(moment(0), "1970-01-01 00:00 UTC");
        assert_eq!(moment(1_709_210_096), "2024-02-29 12:34 UTC");
        assert_eq!(moment(1_798_761_599), "2026-12-31 23:59 UTC");
        assert!(!moment(u64::MAX).is_empty());
    }
}
