//! Copies of so many pieces that they go on after the reply to COPY, and the server killed while one does.

use std::thread;
use std::time::Duration;

use super::Options;
use super::asked::{answer, once};
use super::lab::Lab;

/// The server's lease: how long it may take until the client finds that it is to be called by another connection.
const LEASE_SECONDS: &str = "10";
/// How often the guest and the server are looked after. A copy that is to be interrupted takes longer.
const POLL: Duration = Duration::from_millis(5);

/// Runs the scenario; the note says how many copies went on after their reply.
pub(super) fn run(lab: &mut Lab, _: &Options) -> Result<String, String> {
    lab.configure(&format!("lease = {LEASE_SECONDS}"));
    lab.start()?;
    let mut guest = lab.start_guest(1, "copies.sh", "512M", &[LEASE_SECONDS])?;
    let mut killed = None;
    while !lab.left().is_zero() {
        answer(lab)?;
        if lab.out().join("kill-me").exists() && killed.is_none() {
            killed = kill_at_work(lab)?;
        }
        if let Ok(Some(status)) = guest.try_wait() {
            let begun =
                lab.counters()?.get("nfs4_copies_begun").map_or_else(String::new, ToString::to_string);
            return match killed {
                _ if !status.success() => Err(format!("the guest: {status}")),
                Some(going) => Ok(format!("{going} copies going on at the kill, {begun} begun after it")),
                None => Err("the server was never killed".to_owned()),
            };
        }
        thread::sleep(POLL);
    }
    Lab::kill_guest(1, &mut guest);
    Err("the guest did not end in time".to_owned())
}

/// Kills the server if copies go on now, and starts it again; how many there were.
fn kill_at_work(lab: &mut Lab) -> Result<Option<u64>, String> {
    let going = lab.counters()?.get("nfs4_copies").and_then(serde_json::Value::as_u64).unwrap_or(0);
    if going == 0 {
        return Ok(None);
    }
    lab.kill();
    lab.start()?;
    once(lab, "kill-me", "was-killed", || Ok(()))?;
    Ok(Some(going))
}
