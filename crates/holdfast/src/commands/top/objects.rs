//! The table of hot files and directories: filtered, sorted, and fitted into a width.

use std::cmp::Reverse;

use server::admin::api::types::{HotObject, ObjectCounts};

use super::figures;
use super::sample::Interval;
use super::table::{Table, texts};
use super::view::{Group, Sort, View};

/// Letters of the bar that shows what calls did.
const BAR: usize = 8;

/// The least and the greatest width of the column of volumes if there is not room for all.
const VOLUME_MIN: usize = 6;
const VOLUME_MAX: usize = 12;

/// The least width of the column of paths.
const PATH_MIN: usize = 8;

/// Headings and widths of the columns of figures.
const FIGURES: [(&str, usize); 3] = [("CALLS", 6), ("READ", 7), ("WRITTEN", 7)];

/// A line of the table.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Line {
    volume: String,
    path: String,
    counts: ObjectCounts,
}

/// Returns the lines that a view shows.
pub(super) fn lines(interval: &Interval, view: &View) -> Vec<Line> {
    let filter = view.filter.to_lowercase();
    let is_wanted =
        |line: &Line| [&line.volume, &line.path].iter().any(|text| text.to_lowercase().contains(&filter));
    let mut lines: Vec<Line> = interval.objects.iter().map(line).filter(is_wanted).collect();
    lines.sort_by_key(|line| {
        let ObjectCounts { calls, read_bytes, written_bytes, .. } = line.counts;
        Reverse(match view.sort {
            Sort::Calls | Sort::Time => calls,
            Sort::Read => read_bytes,
            Sort::Written => written_bytes,
        })
    });
    lines
}

/// Shows where an object is: directories end with a slash.
fn line(object: &HotObject) -> Line {
    let mut path = object.path.clone().unwrap_or_else(|| format!("inode {}", object.inode));
    match object.kind.as_str() {
        "directory" if object.path.is_some() && path != "/" => path.push('/'),
        "removed" => path.push_str(" (removed)"),
        _ => {}
    }
    Line { volume: object.volume.clone(), path, counts: object.counts }
}

/// Writes lines as a table of at most `width` columns. Paths get the columns that the figures leave.
#[expect(clippy::cast_precision_loss, reason = "figures for the eye")]
pub(super) fn table(lines: &[Line], seconds: f64, width: usize) -> Table {
    let headings = Group::File.headings();
    let widest = |texts: &dyn Fn(&Line) -> &str, heading: &str| {
        let texts = lines.iter().map(|line| texts(line).chars().count());
        texts.max().unwrap_or(0).max(heading.len())
    };
    let (mut volume, mut path) =
        (widest(&|line| &line.volume, headings[0]), widest(&|line| &line.path, headings[1]));
    let figures: usize = FIGURES.iter().map(|(_, width)| width + 1).sum::<usize>() + 1 + BAR;
    let room = width.saturating_sub(figures + 1);
    if volume + path > room {
        volume = volume.min(VOLUME_MAX.max(room.saturating_sub(path)).max(VOLUME_MIN));
        path = path.min(room.saturating_sub(volume).max(PATH_MIN));
    }
    let mut heading = texts(headings.iter().copied(), &[volume, path]);
    FIGURES.iter().for_each(|(name, width)| heading.push_str(&format!(" {name:>width$}")));
    heading.push_str(&format!(" {:BAR$}", "KINDS"));
    let lines = lines.iter().map(|line| {
        let counts = &line.counts;
        let mut out = texts([&*line.volume, &*shortened(&line.path, path)].into_iter(), &[volume, path]);
        let figures = [
            figures::rate(counts.calls as f64 / seconds),
            figures::bytes(counts.read_bytes as f64 / seconds),
            figures::bytes(counts.written_bytes as f64 / seconds),
        ];
        for (figure, (_, width)) in figures.iter().zip(FIGURES) {
            out.push_str(&format!(" {figure:>width$}"));
        }
        out.push_str(&format!(" {:BAR$}", figures::bar(&counts.kinds.all(), BAR)));
        out
    });
    Table { heading, lines: lines.collect() }
}

/// Shortens text to `width` characters; `~` replaces some in the middle, since the end of a path says most.
fn shortened(text: &str, width: usize) -> String {
    let length = text.chars().count();
    if length <= width {
        return text.to_owned();
    }
    let kept = width.saturating_sub(1);
    let first = kept / 3;
    let last = text.chars().skip(length - (kept - first));
    text.chars().take(first).chain((width > 0).then_some('~')).chain(last).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn interval() -> Interval {
        Interval::of(&[])
            .and_object(("main", 2, "directory", Some("/builds")), [0, 0, 900, 100], [0, 0])
            .and_object(("main", 7, "file", Some("/data/table")), [300, 100, 0, 0], [40 << 20, 2 << 20])
            .and_object(("scratch", 9, "removed", Some("/tmp/x")), [0, 40, 0, 40], [0, 90 << 20])
            .and_object(("scratch", 10, "unknown", None), [1, 0, 0, 0], [512, 0])
            .and_object(("scratch", 1, "directory", Some("/")), [0, 0, 2, 0], [0, 0])
    }

    fn shown(sort: Sort, filter: &str) -> Vec<String> {
        let lines = lines(&interval(), &View::new(Group::File, sort, filter, 2));
        lines.into_iter().map(|line| format!("{}:{}", line.volume, line.path)).collect()
    }

    #[test]
    fn lines_are_filtered_and_sorted() {
        let (builds, table) = ("main:/builds/", "main:/data/table");
        let (removed, unknown, root) = ("scratch:/tmp/x (removed)", "scratch:inode 10", "scratch:/");
        assert_eq!(shown(Sort::Calls, ""), [builds, table, removed, root, unknown]);
        assert_eq!(shown(Sort::Read, "a"), [table, unknown, builds, removed, root]);
        assert_eq!(shown(Sort::Written, "SCRATCH")[0], removed);
        assert_eq!(shown(Sort::Time, "/data"), [table]);
    }

    #[test]
    fn paths_have_the_room_that_figures_leave() {
        let long = format!("/user/somebody/{}/the end.txt", "deep/".repeat(50));
        let interval =
            interval().and_object(("a-volume-of-a-long-name", 3, "file", Some(&long)), [1, 0, 0, 0], [1, 0]);
        let lines = lines(&interval, &View::new(Group::File, Sort::Calls, "", 2));
        for width in [60, 80, 100, 400] {
            let table = table(&lines, 2.0, width);
            for line in table.lines.iter().chain([&table.heading]) {
                assert!(line.chars().count() <= width, "{line}");
                assert_eq!(line.chars().count(), table.heading.chars().count(), "{line}");
            }
        }
        let table = table(&lines, 2.0, 80);
        assert_eq!(
            table.heading,
            "VOLUME       PATH                                 CALLS    READ WRITTEN KINDS   "
        );
        let last = table.lines.iter().find(|line| line.starts_with("a-vol")).unwrap();
        assert_eq!(last, "a-volume-of~ /user/someb~/deep/deep//the end.txt    0.5     0 B       0 rrrrrrrr");
    }

    #[test]
    fn long_paths_are_shortened_in_the_middle() {
        let shown = |width| shortened("/a/long/path/name", width);
        assert_eq!(
            (shown(17), shown(10), shown(1), shown(0)),
            ("/a/long/path/name".into(), "/a/~h/name".into(), "~".into(), String::new())
        );
    }
}
