//! The table of activities: added up, filtered, sorted, and fitted into a width.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use server::admin::api::types::{Activity, ActivityCounts};

use super::figures;
use super::sample::Interval;
use super::view::{Group, Sort, View};

/// What stands for calls that the server did not count one by one.
const OTHERS: &str = "others";

/// Letters of the bar that shows phases where there is no room for their times.
const BAR: usize = 8;

/// The least width to which a column of text is clipped.
const CLIPPED_MIN: usize = 4;

/// Headings and widths of the columns of figures.
const FIGURES: [(&str, usize); 4] = [("CALLS", 6), ("READ", 7), ("WRITTEN", 7), ("TIME", 6)];
const QOS: &str = "QOS";
const PHASES: [(&str, usize); 6] =
    [("QUEUE", 6), (QOS, 6), ("LINE", 6), ("ENGINE", 6), ("DURAB.", 6), ("SEND", 6)];

/// A line of the table.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Line {
    /// What identifies it; see [`Group::headings`].
    pub(super) keys: Vec<String>,
    pub(super) counts: ActivityCounts,
}

/// A table as text.
pub(super) struct Table {
    pub(super) heading: String,
    pub(super) lines: Vec<String>,
}

/// Returns the nanoseconds that a call took on average.
#[expect(clippy::cast_precision_loss, reason = "an average for the eye")]
pub(super) fn mean(counts: &ActivityCounts, nanos: u64) -> f64 {
    nanos as f64 / counts.calls.max(1) as f64
}

/// Returns the nanoseconds of all phases.
pub(super) fn whole(counts: &ActivityCounts) -> u64 {
    counts.nanoseconds.all().iter().map(|(_, nanos)| nanos).sum()
}

/// Returns the lines that a view shows.
pub(super) fn lines(interval: &Interval, view: &View) -> Vec<Line> {
    let filter = view.filter.to_lowercase();
    let mut lines: BTreeMap<Vec<String>, ActivityCounts> = BTreeMap::new();
    for activity in &interval.activities {
        let keys = keys(activity);
        if keys.iter().any(|key| key.to_lowercase().contains(&filter)) {
            lines.entry(grouped(keys, view.group)).or_default().add(&activity.counts);
        }
    }
    if interval.others.calls > 0 && OTHERS.contains(&filter) {
        let keys = [OTHERS, "", ""].map(str::to_owned);
        let keys = if view.group == Group::All { keys.into() } else { vec![OTHERS.to_owned()] };
        lines.entry(keys).or_default().add(&interval.others);
    }
    let mut lines: Vec<Line> = lines.into_iter().map(|(keys, counts)| Line { keys, counts }).collect();
    lines.sort_by(|one, other| compare(&other.counts, &one.counts, view.sort));
    lines
}

fn keys(activity: &Activity) -> [String; 3] {
    let volume = if activity.volume.is_empty() { "-" } else { &activity.volume };
    let operation = format!("{} {}", activity.protocol, activity.operation);
    [activity.client.clone(), volume.to_owned(), operation]
}

fn grouped(keys: [String; 3], group: Group) -> Vec<String> {
    let [client, volume, operation] = keys;
    match group {
        Group::All => vec![client, volume, operation],
        Group::Client => vec![client],
        Group::Volume => vec![volume],
        Group::Operation => vec![operation],
        // Their lines are made of objects.
        Group::File => Vec::new(),
    }
}

fn compare(one: &ActivityCounts, other: &ActivityCounts, sort: Sort) -> Ordering {
    match sort {
        Sort::Calls => one.calls.cmp(&other.calls),
        Sort::Read => one.read_bytes.cmp(&other.read_bytes),
        Sort::Written => one.written_bytes.cmp(&other.written_bytes),
        Sort::Time => mean(one, whole(one)).total_cmp(&mean(other, whole(other))),
    }
}

/// Returns the columns of the phases, which are those of [`PhaseTimes::all`](server::admin::api::types::PhaseTimes::all); without that
/// of rate limits if they held nothing.
fn phases(lines: &[Line]) -> Vec<(&'static str, usize)> {
    let is_held = lines.iter().any(|line| line.counts.nanoseconds.qos > 0);
    PHASES.into_iter().filter(|(name, _)| is_held || *name != QOS).collect()
}

/// Writes lines as a table of at most `width` columns. Where there is room, it has the time of each phase, else a bar.
pub(super) fn table(group: Group, lines: &[Line], seconds: f64, width: usize) -> Table {
    let headings = group.headings();
    let mut widths: Vec<usize> = headings.iter().map(|heading| heading.len()).collect();
    for line in lines {
        for (width, key) in widths.iter_mut().zip(&line.keys) {
            *width = (*width).max(key.chars().count());
        }
    }
    let of = |columns: &[(&str, usize)]| columns.iter().map(|(_, width)| width + 1).sum::<usize>();
    let text = |widths: &[usize]| widths.iter().sum::<usize>() + widths.len() - 1;
    let phases = phases(lines);
    let has_times = text(&widths) + of(&FIGURES) + of(&phases) <= width;
    let room = width.saturating_sub(of(&FIGURES) + 1 + BAR);
    while !has_times
        && text(&widths) > room
        && let Some(widest) = widths.iter_mut().max().filter(|width| **width > CLIPPED_MIN)
    {
        *widest -= 1;
    }
    let mut heading = texts(headings.iter().copied(), &widths);
    let phases: &[(&str, usize)] = if has_times { &phases } else { &[] };
    for (name, width) in FIGURES.iter().chain(phases) {
        heading.push_str(&format!(" {name:>width$}"));
    }
    if !has_times {
        heading.push_str(&format!(" {:BAR$}", "PHASES"));
    }
    let lines = lines.iter().map(|line| {
        let mut out = texts(line.keys.iter().map(String::as_str), &widths);
        out.push_str(&figures_of(&line.counts, seconds, phases));
        out
    });
    Table { heading, lines: lines.collect() }
}

pub(super) fn texts<'a>(texts: impl Iterator<Item = &'a str>, widths: &[usize]) -> String {
    let padded = texts.zip(widths).map(|(text, width)| format!("{:width$}", clipped(text, *width)));
    padded.collect::<Vec<_>>().join(" ")
}

/// Returns text of at most `width` characters. If it was longer, `~` ends it.
pub(super) fn clipped(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.to_owned();
    }
    let kept = text.chars().take(width.saturating_sub(1));
    kept.chain((width > 0).then_some('~')).collect()
}

#[expect(clippy::cast_precision_loss, reason = "figures for the eye")]
fn figures_of(counts: &ActivityCounts, seconds: f64, phases: &[(&str, usize)]) -> String {
    let mut figures = vec![
        figures::rate(counts.calls as f64 / seconds),
        figures::bytes(counts.read_bytes as f64 / seconds),
        figures::bytes(counts.written_bytes as f64 / seconds),
        figures::time(mean(counts, whole(counts))),
    ];
    for ((_, nanos), (name, _)) in counts.nanoseconds.all().into_iter().zip(PHASES) {
        if phases.iter().any(|(shown, _)| *shown == name) {
            figures.push(figures::time(mean(counts, nanos)));
        }
    }
    let widths = FIGURES.iter().chain(phases).map(|(_, width)| *width);
    let mut out: String =
        figures.iter().zip(widths).map(|(text, width)| format!(" {text:>width$}")).collect();
    if phases.is_empty() {
        out.push_str(&format!(" {:BAR$}", figures::bar(&counts.nanoseconds.all(), BAR)));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn interval() -> Interval {
        Interval::of(&[
            ("192.0.2.1", "main", "nfs3", "READ", 200, 2 << 20, 0, [100, 0, 0, 100, 0, 200]),
            ("192.0.2.1", "main", "nfs4", "WRITE", 100, 0, 4 << 20, [0, 0, 0, 1000, 9000, 0]),
            ("192.0.2.2", "", "nfs3", "NULL", 2, 0, 0, [1, 0, 0, 0, 0, 0]),
        ])
    }

    fn shown(group: Group, sort: Sort, filter: &str) -> Vec<(String, u64)> {
        let lines = lines(&interval(), &View::new(group, sort, filter, 2));
        lines.into_iter().map(|line| (line.keys.join("/"), line.counts.calls)).collect()
    }

    #[test]
    fn lines_are_added_up_filtered_and_sorted() {
        let expect = |found: Vec<(String, u64)>, expected: &[(&str, u64)]| {
            let found: Vec<(&str, u64)> = found.iter().map(|(keys, calls)| (keys.as_str(), *calls)).collect();
            assert_eq!(found, expected);
        };
        let (read, write) = ("192.0.2.1/main/nfs3 READ", "192.0.2.1/main/nfs4 WRITE");
        let null = "192.0.2.2/-/nfs3 NULL";
        expect(shown(Group::All, Sort::Calls, ""), &[(read, 200), (write, 100), (null, 2)]);
        expect(shown(Group::All, Sort::Written, ""), &[(write, 100), (read, 200), (null, 2)]);
        expect(shown(Group::All, Sort::Time, "nfs3"), &[(read, 200), (null, 2)]);
        expect(shown(Group::Client, Sort::Calls, ""), &[("192.0.2.1", 300), ("192.0.2.2", 2)]);
        expect(shown(Group::Volume, Sort::Time, "MAIN"), &[("main", 300)]);
        expect(shown(Group::Operation, Sort::Read, "2.1"), &[("nfs3 READ", 200), ("nfs4 WRITE", 100)]);
        expect(shown(Group::All, Sort::Calls, "nothing"), &[]);
    }

    #[test]
    fn others_have_a_line() {
        let mut interval = interval();
        interval.others.calls = 150;
        let keys = |group, filter| -> Vec<String> {
            let lines = lines(&interval, &View::new(group, Sort::Calls, filter, 2));
            lines.into_iter().map(|line| line.keys[0].clone()).collect()
        };
        assert_eq!(keys(Group::Client, ""), ["192.0.2.1", "others", "192.0.2.2"]);
        assert_eq!(keys(Group::All, "write"), ["192.0.2.1"]);
    }

    #[test]
    fn long_texts_are_clipped_where_it_costs_least() {
        let long = "fd00:1234:5678:9abc:def0:1234:5678:9abc";
        let interval = Interval::of(&[(long, "main", "nfs4", "WRITE", 1, 0, 0, [1; 6])]);
        let lines = lines(&interval, &View::new(Group::All, Sort::Calls, "", 2));
        for width in [60, 80, 81, 100, 117, 300] {
            let table = table(Group::All, &lines, 1.0, width);
            assert!(table.heading.chars().count() <= width, "{}", table.heading);
            assert_eq!(table.heading.chars().count(), table.lines[0].chars().count(), "{}", table.lines[0]);
        }
        assert!(
            table(Group::All, &lines, 1.0, 80).lines[0]
                .starts_with("fd00:1234:5678:9abc:de~ main   nfs4 WRITE")
        );
        assert!(table(Group::All, &lines, 1.0, usize::MAX).lines[0].starts_with(long));
        assert_eq!(
            (clipped("abc", 3), clipped("abcd", 3), clipped("a", 0)),
            ("abc".into(), "ab~".into(), String::new())
        );
    }
}
