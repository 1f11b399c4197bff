//! How results are reported.

use std::io::{self, Write as _};
use std::process::ExitCode;

use serde_json::Value;
use server::error::{Error, ErrorKind};

/// What a command answers.
pub(crate) type Outcome = Result<ExitCode, Error>;

/// The exit code for an error.
pub(crate) fn exit_code(kind: ErrorKind) -> ExitCode {
    match kind {
        ErrorKind::Failed => ExitCode::from(1),
        ErrorKind::Usage => ExitCode::from(2),
        ErrorKind::InUse => ExitCode::from(3),
    }
}

/// Prints to standard output; one who stops reading it has read enough.
pub(crate) fn print(text: &str) {
    let mut out = io::stdout().lock();
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}

/// Prints a line of JSON, or else text.
pub(crate) fn print_either(json: bool, value: &Value, text: impl FnOnce() -> String) {
    if json { print(&format!("{value}\n")) } else { print(&text()) }
}

/// Lines of two columns.
pub(crate) fn table(rows: &[(&str, String)]) -> String {
    let width = rows.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    rows.iter().map(|(name, value)| format!("{name:width$}  {value}\n")).collect()
}
