//! A screen, or a table for pipes, made from the activity of an interval and the view.

use std::ops::Range;

use crate::report;

use super::figures;
use super::sample::Interval;
use super::table::{Line, Table, clipped, mean, whole};
use super::view::{Group, Sort, View};
use super::{objects, table};

const KEYS: &str = "q quit  ? help  a all  c client  v volume  o operation  f file  s sort  / filter";

const HELP: &str = "What clients do where: averages of the last interval. An operation of NFSv4 is
what its COMPOUND was made for. CALLS, READ and WRITTEN are per second; TIME is
that of a call, from its arrival until its reply is sent.

  a c v o f  a line for each operation of a client on a volume; or for each
             client, volume, operation; or hot files and directories
  s          sort by calls, data read, data written, time of a call
  /          show only lines with some text; Enter keeps it, Escape removes it
  j k        scroll, as the arrow keys do
  + -        a longer or a shorter interval
  q          quit

PHASES is what TIME was spent on, as times or as letters of a bar:

  q QUEUE    waiting for its turn, or for memory
  t QOS      held by a rate limit (`holdfast qos`)
  l LINE     waiting for a worker, for room, or for something in the way
  e ENGINE   being executed
  d DURAB.   its reply waits until what it shows is durable
  s SEND     its reply is sent

KINDS of the calls on a file: r read, w write, n names in it, o others";

/// The contents of a terminal.
pub(super) struct Screen {
    /// From the top, never wider than the terminal.
    pub(super) lines: Vec<String>,
    /// The number of the line that heads the table.
    pub(super) heading: Option<usize>,
}

impl Screen {
    /// Makes a screen of `columns` times `height`. Without an interval, nothing was measured yet; `trouble` says why the last one
    /// is old. Scrolling ends at the last line.
    pub(super) fn new(
        interval: Option<&Interval>,
        view: &mut View,
        trouble: Option<&str>,
        columns: usize,
        height: usize,
    ) -> Screen {
        let mut screen = Screen { lines: Vec::new(), heading: None };
        match interval {
            _ if view.shows_help => screen.lines.extend(HELP.lines().map(str::to_owned)),
            Some(interval) => screen.fill(interval, view, columns, height),
            None => screen.lines.push("measuring ...".to_owned()),
        }
        if let (Some(trouble), Some(first)) = (trouble, screen.lines.first_mut()) {
            trouble.clone_into(first);
        }
        screen.lines.resize(height.saturating_sub(1), String::new());
        screen.lines.push(match view.is_typing {
            true => format!("filter: {}_", view.filter),
            false if view.shows_help => "any key ends the help".to_owned(),
            false => KEYS.to_owned(),
        });
        screen.lines.truncate(height);
        screen.lines.iter_mut().for_each(|line| *line = clipped(line.trim_end(), columns));
        screen
    }

    fn fill(&mut self, interval: &Interval, view: &mut View, columns: usize, height: usize) {
        let lines = Lines::of(interval, view);
        // Four lines are above the table, and one is below it.
        let room = height.saturating_sub(5);
        view.skipped = view.skipped.min(lines.len().saturating_sub(room));
        let last = lines.len().min(view.skipped + room);
        let table = lines.table(view, view.skipped..last, interval.seconds, columns);
        let mut about = format!("by {}, {} first", view.group.name(), order(view));
        if !view.filter.is_empty() {
            about.push_str(&format!(", only with {:?}", view.filter));
        }
        if last - view.skipped < lines.len() {
            about.push_str(&format!(", {} to {last} of {}", view.skipped + 1, lines.len()));
        }
        let every = format!(", every {} s", view.interval().as_secs());
        self.lines.extend([title(interval) + &every, totals(interval), about, table.heading]);
        self.heading = Some(self.lines.len() - 1);
        self.lines.extend(table.lines);
    }
}

/// The lines that a view shows.
enum Lines {
    Activities(Vec<Line>),
    Objects(Vec<objects::Line>),
}

impl Lines {
    fn of(interval: &Interval, view: &View) -> Lines {
        match view.group {
            Group::File => Lines::Objects(objects::lines(interval, view)),
            _ => Lines::Activities(table::lines(interval, view)),
        }
    }

    fn len(&self) -> usize {
        match self {
            Lines::Activities(lines) => lines.len(),
            Lines::Objects(lines) => lines.len(),
        }
    }

    /// Writes some of the lines as a table.
    fn table(&self, view: &View, some: Range<usize>, seconds: f64, width: usize) -> Table {
        match self {
            Lines::Activities(lines) => table::table(view.group, &lines[some], seconds, width),
            Lines::Objects(lines) => objects::table(&lines[some], seconds, width),
        }
    }
}

/// Says what comes first. Calls are timed by client, not by file.
fn order(view: &View) -> &'static str {
    match (view.group, view.sort) {
        (Group::File, Sort::Time) => Sort::Calls.name(),
        (_, sort) => sort.name(),
    }
}

/// Returns a table for pipes, with an empty line after it.
pub(super) fn plain(interval: &Interval, view: &View) -> String {
    let lines = Lines::of(interval, view);
    let table = lines.table(view, 0..lines.len(), interval.seconds, usize::MAX);
    let mut out = String::new();
    for line in [title(interval), totals(interval), table.heading].iter().chain(&table.lines) {
        out.push_str(line.trim_end());
        out.push('\n');
    }
    out.push('\n');
    out
}

fn title(interval: &Interval) -> String {
    let up = report::duration(interval.uptime);
    format!("holdfast {}, up {up}, {}", interval.version, report::count(interval.connections, "connection"))
}

/// Sums up all calls, and says what they mostly waited for.
#[expect(clippy::cast_precision_loss, reason = "figures for the eye")]
fn totals(interval: &Interval) -> String {
    let (total, seconds) = (interval.total(), interval.seconds);
    let mut out = format!(
        "{} calls/s, {}/s read, {}/s written",
        figures::rate(total.calls as f64 / seconds),
        figures::bytes(total.read_bytes as f64 / seconds),
        figures::bytes(total.written_bytes as f64 / seconds)
    );
    let all = whole(&total);
    let longest = total.nanoseconds.all().into_iter().max_by_key(|(_, nanos)| *nanos);
    if let Some((phase, nanos)) = longest.filter(|_| all > 0) {
        let part = nanos as f64 / all as f64 * 100.0;
        out.push_str(&format!("; {} a call, {part:.0} % {phase}", figures::time(mean(&total, all))));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::super::keys::Key;
    use super::super::view::{Group, Sort};
    use super::*;

    fn view(group: Group) -> View {
        View::new(group, Sort::Calls, "", 2)
    }

    fn interval() -> Interval {
        Interval::of(&[
            ("192.0.2.1", "main", "nfs4", "READ", 2500, 2500 << 20, 0, [1000, 0, 0, 20_000, 0, 30_000]),
            ("192.0.2.17", "scratch", "nfs3", "READDIRPLUS", 31, 0, 0, [200, 0, 2000, 900, 0, 100]),
            ("192.0.2.17", "scratch", "nfs3", "WRITE", 640, 0, 40 << 20, [0, 0, 0, 40_000, 960_000, 20_000]),
            ("198.51.100.140", "", "mount", "MNT", 1, 0, 0, [20, 0, 0, 30, 0, 50]),
        ])
    }

    /// Returns the screen of 80 columns and 24 lines without the empty lines in the middle.
    fn shown(interval: &Interval, view: &mut View) -> Vec<String> {
        let screen = Screen::new(Some(interval), view, None, 80, 24);
        assert_eq!(screen.lines.len(), 24);
        assert!(screen.lines.iter().all(|line| line.chars().count() <= 80), "{:#?}", screen.lines);
        screen.lines.into_iter().filter(|line| !line.is_empty()).collect()
    }

    #[test]
    fn all_fits_into_80_columns() {
        assert_eq!(
            shown(&interval(), &mut view(Group::All)),
            [
                "holdfast 1.2.3, up 2 h 5 min, 3 connections, every 2 s",
                "1586 calls/s, 1.2 GiB/s read, 20 MiB/s written; 339 us a call, 89 % durability",
                "by client, volume and operation, most calls first",
                "CLIENT         VOLUME  OPERATION         CALLS    READ WRITTEN   TIME PHASES",
                "192.0.2.1      main    nfs4 READ          1250 1.2 GiB       0  20 us eeesssss",
                "192.0.2.17     scratch nfs3 WRITE          320       0  20 MiB 1.6 ms dddddddd",
                "192.0.2.17     scratch nfs3 READDIRPLUS     16       0       0 103 us qlllllee",
                "198.51.100.140 -       mount MNT           0.5       0       0 100 us qqeessss",
                KEYS,
            ]
        );
    }

    #[test]
    fn keys_change_what_is_shown() {
        let mut view = view(Group::All);
        view.press(Key::Char('c'));
        view.press(Key::Char('s'));
        let lines = shown(&interval(), &mut view);
        assert_eq!(lines[2], "by client, most data read first");
        assert_eq!(
            lines[3..5],
            [
                "CLIENT          CALLS    READ WRITTEN   TIME  QUEUE   LINE ENGINE DURAB.   SEND",
                "192.0.2.1        1250 1.2 GiB       0  20 us 0.4 us      0 8.0 us      0  12 us",
            ]
        );
        for char in "o/scratch".chars() {
            view.press(Key::Char(char));
        }
        let lines = shown(&interval(), &mut view);
        assert_eq!((lines.len(), lines.last().unwrap().as_str()), (4 + 2 + 1, "filter: scratch_"));
        assert_eq!(lines[2], "by operation, most data read first, only with \"scratch\"");
        view.press(Key::Enter);
        view.press(Key::Char('?'));
        let help = shown(&interval(), &mut view);
        assert!(help.iter().any(|line| line.contains("s SEND ")) && help.last().unwrap().contains("any key"));
        assert!(help.iter().all(|line| !line.ends_with('~')), "{help:#?}");
    }

    #[test]
    fn lines_scroll_to_the_last() {
        let clients: Vec<String> = (1..=50).map(|number| format!("192.0.2.{number}")).collect();
        let activities: Vec<_> = clients
            .iter()
            .map(|client| (client.as_str(), "main", "nfs3", "GETATTR", 1, 0, 0, [1; 6]))
            .collect();
        let interval = Interval::of(&activities);
        let mut view = view(Group::All);
        assert!(shown(&interval, &mut view)[2].ends_with(", 1 to 19 of 50"));
        view.press(Key::Down);
        assert!(shown(&interval, &mut view)[2].ends_with(", 2 to 20 of 50"));
        for _ in 0..100 {
            view.press(Key::Down);
        }
        assert!(shown(&interval, &mut view)[2].ends_with(", 32 to 50 of 50"));
        view.press(Key::Up);
        assert!(shown(&interval, &mut view)[2].ends_with(", 31 to 49 of 50"));
    }

    #[test]
    fn terminals_of_any_size_are_filled() {
        for (columns, height) in [(0, 0), (1, 1), (10, 3), (40, 6), (200, 100)] {
            for shows_help in [false, true] {
                let mut view = view(Group::All);
                view.shows_help = shows_help;
                let screen = Screen::new(Some(&interval()), &mut view, None, columns, height);
                assert_eq!(screen.lines.len(), height);
                assert!(screen.lines.iter().all(|line| line.chars().count() <= columns));
            }
        }
        let screen = Screen::new(None, &mut view(Group::All), Some("no server runs on x"), 80, 24);
        assert_eq!(screen.lines[0], "no server runs on x");
    }

    #[test]
    fn tables_for_pipes_have_all_columns() {
        let text = plain(&interval(), &view(Group::Volume));
        assert_eq!(
            text,
            "holdfast 1.2.3, up 2 h 5 min, 3 connections\n\
             1586 calls/s, 1.2 GiB/s read, 20 MiB/s written; 339 us a call, 89 % durability\n\
             VOLUME   CALLS    READ WRITTEN   TIME  QUEUE   LINE ENGINE DURAB.   SEND\n\
             main      1250 1.2 GiB       0  20 us 0.4 us      0 8.0 us      0  12 us\n\
             scratch    336       0  20 MiB 1.5 ms 0.3 us 3.0 us  61 us 1.4 ms  30 us\n\
             -          0.5       0       0 100 us  20 us      0  30 us      0  50 us\n\n"
        );
    }
}
