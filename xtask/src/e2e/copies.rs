//! Copies of files with so many extents that they continue after the reply to COPY; the server is killed during one.

use std::thread;
use std::time::Duration;

use super::Options;
use super::guest_requests::{answer_questions, serve_once};
use super::lab::Lab;

/// The server's lease: the longest time until the client offers a new connection for callbacks.
const LEASE_SECONDS: &str = "10";
/// Interval between checks of the guest and the server; shorter than the copy to be interrupted.
const POLL: Duration = Duration::from_millis(5);

/// Runs the scenario. Returns a note on how many copies continued after their reply.
pub(super) fn run(lab: &mut Lab, _: &Options) -> Result<String, String> {
    lab.configure(&format!("lease = {LEASE_SECONDS}"));
    lab.start()?;
    let mut guest = lab.start_guest(1, "copies.sh", "512M", &[LEASE_SECONDS])?;
    let mut killed = None;
    while !lab.left().is_zero() {
        answer_questions(lab)?;
        if lab.out().join("kill-me").exists() && killed.is_none() {
            killed = kill_during_copy(lab)?;
        }
        if let Ok(Some(status)) = guest.try_wait() {
            let begun =
                lab.counters()?.get("nfs4_copies_begun").map_or_else(String::new, ToString::to_string);
            return match killed {
                _ if !status.success() => Err(format!("the guest: {status}")),
                Some(going) => Ok(format!("{going} copies in progress at the kill, {begun} begun after it")),
                None => Err("the server was never killed".to_owned()),
            };
        }
        thread::sleep(POLL);
    }
    Lab::kill_guest(1, &mut guest);
    Err("the guest exceeded its time limit".to_owned())
}

/// Kills and restarts the server if copies are in progress. Returns their number.
fn kill_during_copy(lab: &mut Lab) -> Result<Option<u64>, String> {
    let going = lab.counters()?.get("nfs4_copies").and_then(serde_json::Value::as_u64).unwrap_or(0);
    if going == 0 {
        return Ok(None);
    }
    lab.kill();
    lab.start()?;
    serve_once(lab, "kill-me", "was-killed", || Ok(()))?;
    Ok(Some(going))
}
