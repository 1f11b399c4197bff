//! Delegations between two guests, of which the first is cut off from the server, joined again, and killed. The guests
//! judge; they ask here for what the server has counted.

use std::process::Child;
use std::thread;
use std::time::Duration;

use super::Options;
use super::asked::{answer, once};
use super::lab::Lab;

/// A disk that nobody else fills, MiB.
const DISK_MEBIBYTES: u64 = 1024;
/// The server's lease, which guests are to wait for.
const LEASE_SECONDS: &str = "10";
/// How often guests are looked after.
const POLL: Duration = Duration::from_millis(50);

/// Runs the scenario; the note says what the server has counted.
pub(super) fn run(lab: &mut Lab, _: &Options) -> Result<String, String> {
    lab.mount_disk(DISK_MEBIBYTES)?;
    lab.configure(&format!("lease = {LEASE_SECONDS}"));
    lab.start()?;
    let mut one = lab.start_guest(1, "delegations.sh", "512M", &[LEASE_SECONDS])?;
    let mut two = lab.start_guest(2, "delegations.sh", "256M", &[LEASE_SECONDS])?;
    let outcome = attend(lab, &mut one, &mut two);
    Lab::kill_guest(1, &mut one);
    Lab::kill_guest(2, &mut two);
    outcome?;
    let counters = lab.counters()?;
    let of = |name: &str| counters.get(name).map_or_else(|| "?".to_owned(), ToString::to_string);
    let (granted, recalled) = (of("nfs4_delegations_granted"), of("nfs4_delegations_recalled"));
    Ok(format!("{granted} granted, {recalled} recalled, {} revoked", of("nfs4_delegations_revoked")))
}

/// Does what the guests ask for, until the second has come to its end. The first must not come to one.
fn attend(lab: &Lab, one: &mut Child, two: &mut Child) -> Result<(), String> {
    let mut killed = false;
    while !lab.left().is_zero() {
        answer(lab)?;
        if once(lab, "cut-me", "was-cut", || lab.cut_guest(1))?
            || once(lab, "heal-me", "healed", || lab.heal_guest(1))?
        {
            continue;
        }
        killed |= once(lab, "kill-me", "was-killed", || {
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
    Err("guest 2 did not end in time".to_owned())
}
