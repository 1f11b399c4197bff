//! Delegations between two guests. The first is cut off from the server, reconnected, and killed. The guests judge the
//! results; they ask the host for the server's counters.

use std::process::Child;
use std::thread;
use std::time::Duration;

use super::Options;
use super::guest_requests::{answer_questions, serve_once};
use super::lab::Lab;

/// Size of the server's disk in MiB, on which nothing else writes.
const DISK_MEBIBYTES: u64 = 1024;
/// The server's lease, which guests wait for.
const LEASE_SECONDS: &str = "10";
/// Interval between checks of the guests.
const POLL: Duration = Duration::from_millis(50);

/// Runs the scenario. Returns a note with the server's counters.
pub(super) fn run(lab: &mut Lab, _: &Options) -> Result<String, String> {
    lab.mount_disk(DISK_MEBIBYTES)?;
    lab.configure(&format!("lease = {LEASE_SECONDS}"));
    lab.start()?;
    let mut one = lab.start_guest(1, "delegations.sh", "512M", &[LEASE_SECONDS])?;
    let mut two = lab.start_guest(2, "delegations.sh", "256M", &[LEASE_SECONDS])?;
    let outcome = serve_guests(lab, &mut one, &mut two);
    Lab::kill_guest(1, &mut one);
    Lab::kill_guest(2, &mut two);
    outcome?;
    let counters = lab.counters()?;
    let of = |name: &str| counters.get(name).map_or_else(|| "?".to_owned(), ToString::to_string);
    let (granted, recalled) = (of("nfs4_delegations_granted"), of("nfs4_delegations_recalled"));
    Ok(format!("{granted} granted, {recalled} recalled, {} revoked", of("nfs4_delegations_revoked")))
}

/// Serves the guests' requests until the second one has finished. The first must not finish.
fn serve_guests(lab: &Lab, one: &mut Child, two: &mut Child) -> Result<(), String> {
    let mut killed = false;
    while !lab.left().is_zero() {
        answer_questions(lab)?;
        if serve_once(lab, "cut-me", "was-cut", || lab.cut_guest(1))?
            || serve_once(lab, "heal-me", "healed", || lab.heal_guest(1))?
        {
            continue;
        }
        killed |= serve_once(lab, "kill-me", "was-killed", || {
            Lab::kill_guest(1, one);
            Ok(())
        })?;
        if let Ok(Some(status)) = two.try_wait() {
            return if status.success() && killed { Ok(()) } else { Err(format!("guest 2: {status}")) };
        }
        if !killed && let Ok(Some(status)) = one.try_wait() {
            return Err(format!("guest 1: {status}"));
        }
        thread::sleep(POLL);
    }
    Err("guest 2 exceeded its time limit".to_owned())
}
