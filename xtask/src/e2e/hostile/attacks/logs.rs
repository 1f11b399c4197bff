//! Refused mounts of paths that would forge lines of the log.

use std::fs;
use std::io::Write as _;

use super::super::rpc::{Caller, Link, MOUNT, record};
use super::super::{Scene, places};
use crate::nfs::Arguments;
use crate::process;

/// What a forged line begins with.
const FORGED: &str = "forged";
/// Calls that are sent at once.
const BATCH: u32 = 100;

pub(super) fn mounts(scene: &Scene) -> Result<String, String> {
    let mut link = Link::open(Caller::unprivileged(places::neighbour(242), 0))?;
    let mut count = 0;
    while scene.goes_on() {
        let mut calls = Vec::new();
        for number in count..count + BATCH {
            let mut path = Arguments::default();
            let text = format!("/{number}\n{FORGED} line\r\n\x1b[31m\u{202e}{}", "x".repeat(800));
            calls.extend(record(number, MOUNT, 1, 0, path.opaque(text.as_bytes())));
        }
        link.stream.write_all(&calls).map_err(|error| format!("MNT: {error}"))?;
        for _ in 0..BATCH {
            link.receive()?.1?;
        }
        count += BATCH;
    }
    let log = fs::read(&scene.log).map_err(process::at(&scene.log))?;
    if String::from_utf8_lossy(&log).lines().any(|line| line.trim_start().starts_with(FORGED)) {
        return Err("a path forged a line of the log".to_owned());
    }
    Ok(format!("{count} mounts refused"))
}
