//! Users and groups of this machine.

use std::process::Command;

use server::error::Error;

/// Returns the number of a user or a group; none for the empty name. Names are looked up in `database`, which includes
/// directory services.
pub(super) fn number(name: &str, kind: &str, database: &str) -> Result<Option<u32>, Error> {
    if name.is_empty() {
        return Ok(None);
    }
    if let Ok(number) = name.parse() {
        return Ok(Some(number));
    }
    if name.bytes().all(|digit| digit.is_ascii_digit()) {
        // `getent` would take it modulo 2^32.
        return Err(Error::usage(format!(
            "no {kind} has the number {name}: the largest is {}",
            u32::MAX - 1
        )));
    }
    let output = Command::new("getent").args(["--", database, name]).output().map_err(|error| {
        Error::failed(format!("cannot look up the {kind} {name:?}: getent: {error}; give its number"))
    })?;
    // NAME:PASSWORD:NUMBER:...
    let entry = String::from_utf8_lossy(&output.stdout);
    let found = entry.split(':').nth(2).and_then(|number| number.trim().parse().ok());
    found.map(Some).ok_or_else(|| unknown(name, kind))
}

fn unknown(name: &str, kind: &str) -> Error {
    Error::usage(format!("this machine knows no {kind} {name:?}: give the number that clients use"))
}
