//! The output of commands: results, JSON, exit codes.

use std::io::{self, Write as _};
use std::process::ExitCode;
use std::time::Duration;

use serde::Serialize;
use serde_json::Value;
use server::error::{Error, ErrorKind};

pub(crate) use volume::count;

/// The result of a command.
pub(crate) type Outcome = Result<ExitCode, Error>;

/// Returns the exit code for a kind of error.
pub(crate) fn exit_code(kind: ErrorKind) -> ExitCode {
    match kind {
        ErrorKind::Failed | ErrorKind::NotFound | ErrorKind::Conflict => ExitCode::from(1),
        ErrorKind::Usage => ExitCode::from(2),
        ErrorKind::InUse => ExitCode::from(3),
    }
}

/// Prints to standard output. Errors are ignored: the reader has closed the pipe.
pub(crate) fn print(text: &str) {
    let mut out = io::stdout().lock();
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}

/// Prints `value` as a line of JSON if `json`, else `text`.
pub(crate) fn print_either(json: bool, value: &Value, text: impl FnOnce() -> String) {
    if json { print(&format!("{value}\n")) } else { print(&text()) }
}

/// Returns a value as JSON.
pub(crate) fn as_json(value: &impl Serialize) -> Value {
    serde_json::to_value(value).expect("its keys are text")
}

/// Formats rows of two columns.
pub(crate) fn table(rows: &[(&str, String)]) -> String {
    let width = rows.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    rows.iter().map(|(name, value)| format!("{name:width$}  {value}\n")).collect()
}

/// Where the text of a column begins or ends.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Align {
    Left,
    Right,
}

/// Formats lines of cells, which stand below each other. Columns without any text are left out.
pub(crate) fn columns<const N: usize>(aligns: [Align; N], lines: &[[String; N]]) -> String {
    let mut widths = [0; N];
    for line in lines {
        for (width, cell) in widths.iter_mut().zip(line) {
            *width = cell.chars().count().max(*width);
        }
    }
    let text = |line: &[String; N]| {
        let cells = line.iter().zip(widths).zip(aligns).filter(|((_, width), _)| *width > 0);
        let cells = cells.map(|((cell, width), align)| match align {
            Align::Left => format!("{cell:<width$}"),
            Align::Right => format!("{cell:>width$}"),
        });
        format!("{}\n", cells.collect::<Vec<_>>().join("  ").trim_end())
    };
    lines.iter().map(text).collect()
}

/// Writes a duration with one unit or two.
pub(crate) fn duration(time: Duration) -> String {
    let seconds = time.as_secs();
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86_400);
    match (days, hours, minutes) {
        (0, 0, 0) => format!("{seconds} s"),
        (0, 0, _) => format!("{minutes} min"),
        (0, _, _) => format!("{hours} h {} min", minutes % 60),
        _ => format!("{days} d {} h", hours % 24),
    }
}

/// Writes a time, which is in seconds since 1970, as a date in UTC.
pub(crate) fn date(seconds: u64) -> String {
    let (year, month, day) = load::report::units::date(seconds / 86_400);
    let time = seconds % 86_400;
    let (hour, minute, second) = (time / 3600, time / 60 % 60, time % 60);
    format!("{year}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02} UTC")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_those_of_the_calendar() {
        let dates = [
            (0, "1970-01-01 00:00:00 UTC"),
            (951_782_399, "2000-02-28 23:59:59 UTC"),
            (951_782_400, "2000-02-29 00:00:00 UTC"),
            (1_798_761_599, "2026-12-31 23:59:59 UTC"),
            (1_798_761_600, "2027-01-01 00:00:00 UTC"),
            (4_107_542_400, "2100-03-01 00:00:00 UTC"),
            (13_569_465_600, "2400-01-01 00:00:00 UTC"),
        ];
        for (seconds, expected) in dates {
            assert_eq!(date(seconds), expected);
        }
        // The largest number is no reason to hang.
        assert!(date(u64::MAX).ends_with(" UTC"));
    }

    #[test]
    fn one_thing_is_singular() {
        let counts = [(0, "fault"), (1, "fault"), (1, "entry"), (2, "entry")]
            .map(|(number, thing)| count(number, thing));
        assert_eq!(counts, ["0 faults", "1 fault", "1 entry", "2 entries"]);
    }

    #[test]
    fn columns_are_aligned_by_characters_and_empty_ones_are_left_out() {
        let lines = [["é", "9 KiB", "", "x"], ["long", "10 KiB", "", ""]].map(|line| line.map(str::to_owned));
        let aligns = [Align::Left, Align::Right, Align::Left, Align::Left];
        assert_eq!(columns(aligns, &lines), "é      9 KiB  x\nlong  10 KiB\n");
        assert_eq!(columns::<4>(aligns, &[]), "");
    }
}
