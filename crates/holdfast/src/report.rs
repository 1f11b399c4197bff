//! The output of commands: results, JSON, exit codes.

use std::io::{self, Write as _};
use std::process::ExitCode;
use std::time::Duration;

use serde::Serialize;
use serde_json::Value;
use server::error::{Error, ErrorKind};

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

/// Writes a number of things: `1 object`, `2 objects`.
pub(crate) fn count(number: u64, thing: &str) -> String {
    format!("{number} {thing}{}", if number == 1 { "" } else { "s" })
}

/// Formats rows of two columns.
pub(crate) fn table(rows: &[(&str, String)]) -> String {
    let width = rows.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    rows.iter().map(|(name, value)| format!("{name:width$}  {value}\n")).collect()
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
