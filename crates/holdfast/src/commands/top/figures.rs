//! Figures that fit into a column: at most three digits, and a unit.

/// Formats a rate per second, in 6 columns at most.
pub(super) fn rate(per_second: f64) -> String {
    match per_second {
        0.0 => "0".to_owned(),
        rate if rate < 9.95 => format!("{rate:.1}"),
        rate if rate < 999_999.5 => format!("{rate:.0}"),
        rate => scaled(rate / 1e6, "M"),
    }
}

/// Formats bytes per second, in 7 columns at most.
pub(super) fn bytes(per_second: f64) -> String {
    const UNITS: [&str; 5] = [" KiB", " MiB", " GiB", " TiB", " PiB"];
    if per_second < 999.5 {
        return if per_second == 0.0 { "0".to_owned() } else { format!("{per_second:.0} B") };
    }
    let (mut scale, mut units) = (per_second / 1024.0, UNITS.iter());
    let mut unit = units.next();
    while scale >= 999.5
        && let Some(next) = units.next()
    {
        (scale, unit) = (scale / 1024.0, Some(next));
    }
    scaled(scale, unit.unwrap_or(&""))
}

/// Formats a duration in nanoseconds, in 6 columns at most below 1,000 seconds.
pub(super) fn time(nanos: f64) -> String {
    match nanos {
        0.0 => "0".to_owned(),
        nanos if nanos < 999.5e3 => scaled(nanos / 1e3, " us"),
        nanos if nanos < 999.5e6 => scaled(nanos / 1e6, " ms"),
        nanos => scaled(nanos / 1e9, " s"),
    }
}

fn scaled(value: f64, unit: &str) -> String {
    if value < 9.95 { format!("{value:.1}{unit}") } else { format!("{value:.0}{unit}") }
}

/// Returns the letter of a phase: its first, but that of `queue` is taken when `qos` comes.
fn letter(name: &str) -> char {
    if name == "qos" { 't' } else { name.chars().next().unwrap_or(' ') }
}

/// Draws a bar of `length` letters. Each letter names a part, and a part has as many letters as its share of the whole.
pub(super) fn bar(all: &[(&'static str, u64)], length: usize) -> String {
    let total: u128 = all.iter().map(|(_, part)| u128::from(*part)).sum();
    let (mut bar, mut passed) = (String::new(), 0);
    if total == 0 {
        return bar;
    }
    for (name, part) in all {
        passed += u128::from(*part);
        // Ends are rounded, so that the row has its length whatever the parts are.
        let end = (passed * length as u128 * 2 + total) / (total * 2);
        while (bar.len() as u128) < end {
            bar.push(letter(name));
        }
    }
    bar
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_short() {
        let rates = [0.0, 0.5, 9.94, 9.96, 123_456.0, 999_999.0, 1_200_000.0].map(rate);
        assert_eq!(rates, ["0", "0.5", "9.9", "10", "123456", "999999", "1.2M"]);
        let sizes = [0.0, 512.0, 999.4, 1000.0, 15_360.0, 1_023_900.0, 1.5e9, 2e12].map(bytes);
        assert_eq!(sizes, ["0", "512 B", "999 B", "1.0 KiB", "15 KiB", "1.0 MiB", "1.4 GiB", "1.8 TiB"]);
        let times = [0.0, 400.0, 12_345.0, 999_600.0, 99e6, 1.5e9, 120e9].map(time);
        assert_eq!(times, ["0", "0.4 us", "12 us", "1.0 ms", "99 ms", "1.5 s", "120 s"]);
    }

    #[test]
    fn bars_show_the_parts_of_the_whole() {
        let times =
            |queue, engine, durability| [("queue", queue), ("engine", engine), ("durability", durability)];
        assert_eq!(bar(&times(1, 1, 2), 8), "qqeedddd");
        assert_eq!(bar(&times(1, 1000, 0), 8), "eeeeeeee");
        assert_eq!(bar(&times(1, 1, 1), 8).len(), 8);
        assert_eq!(bar(&times(0, 0, 0), 8), "");
        assert_eq!(bar(&times(u64::MAX, u64::MAX, 0), 4), "qqee");
    }
}
