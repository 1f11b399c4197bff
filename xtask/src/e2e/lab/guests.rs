//! The guests of a test bed.

use std::fs;
use std::process::{Child, Command};
use std::thread;
use std::time::{Duration, Instant};

use super::{ADDRESS, Lab, PORT};
use crate::process::{self, root};

/// Within which the network device of a killed guest is free.
const FREED: Duration = Duration::from_secs(20);

impl Lab {
    /// Runs a script of `e2e/scenarios` in a guest to its end.
    pub(in crate::e2e) fn guest(&self, script: &str, memory: &str, arguments: &[&str]) -> Result<(), String> {
        let mut guest = self.start_guest(1, script, memory, arguments)?;
        self.finish_guest(1, &mut guest)
    }

    /// Drops all packets to and from a guest.
    pub(in crate::e2e) fn cut_guest(&self, number: u8) -> Result<(), String> {
        // Packets to it are routed to the loopback device, where nothing takes them; packets from it fail the check of the
        // reverse path.
        let strict = format!("/proc/sys/net/ipv4/conf/guest{number}/rp_filter");
        fs::write(&strict, "1").map_err(|error| format!("{strict}: {error}"))?;
        self.route(&[&guest_address(number), "dev", "lo"])
    }

    /// Restores the connection of a guest.
    pub(in crate::e2e) fn heal_guest(&self, number: u8) -> Result<(), String> {
        self.route(&[&guest_address(number), "dev", &format!("guest{number}"), "src", ADDRESS])
    }

    fn route(&self, words: &[&str]) -> Result<(), String> {
        let mut command = Command::new("ip");
        command.args(["-n", &self.namespace, "route", "replace"]).args(words);
        process::output(&mut command).map(|_| ())
    }

    /// Starts a script of `e2e/scenarios` in guest `number`.
    pub(in crate::e2e) fn start_guest(
        &self,
        number: u8,
        script: &str,
        memory: &str,
        arguments: &[&str],
    ) -> Result<Child, String> {
        self.start_guest_at("", number, script, memory, arguments)
    }

    /// Starts a script of `e2e/scenarios` in guest `number` on a bridge, if that is named.
    pub(in crate::e2e) fn start_guest_at(
        &self,
        bridge: &str,
        number: u8,
        script: &str,
        memory: &str,
        arguments: &[&str],
    ) -> Result<Child, String> {
        let limit = self.left().as_secs().saturating_sub(5).max(10).to_string();
        let mut command = Command::new(root().join("e2e/guest"));
        command.args([
            "run",
            "-N",
            &self.namespace,
            "-n",
            &number.to_string(),
            "-t",
            &limit,
            "-m",
            memory,
            "-b",
            bridge,
            "-o",
        ]);
        command.arg(self.out());
        command.args(["-e", &format!("PORT={PORT}"), "-e", &format!("MOUNTPORT={}", self.peer.mount_port())]);
        command.args(["-e", &format!("VERSION={}", self.version.name())]);
        command.arg(root().join("e2e/scenarios").join(script)).args(arguments);
        process::start(&mut command)
    }

    /// Kills a guest, as a power failure would, and waits until its network device is free.
    pub(in crate::e2e) fn kill_guest(number: u8, guest: &mut Child) {
        process::stop(guest);
        let end = Instant::now() + FREED;
        let carrier = format!("/sys/class/net/guest{number}/carrier");
        while Instant::now() < end && fs::read_to_string(&carrier).is_ok_and(|text| text.trim() == "1") {
            thread::sleep(Duration::from_millis(50));
        }
    }

    /// Creates an empty file of [`Lab::out`], for which guests wait.
    pub(in crate::e2e) fn create_file(&self, name: &str) -> Result<(), String> {
        let path = self.out().join(name);
        fs::write(&path, "").map_err(process::at(&path))
    }

    /// Waits until a guest has created this file of [`Lab::out`].
    pub(in crate::e2e) fn await_file(&self, name: &str, most: Duration) -> Result<(), String> {
        let end = Instant::now() + most.min(self.left());
        while !self.out().join(name).exists() {
            if Instant::now() > end {
                return Err(format!("no guest has created {name}"));
            }
            thread::sleep(Duration::from_millis(50));
        }
        Ok(())
    }

    /// Checks that guests have not exited.
    pub(in crate::e2e) fn check_guests(guests: &mut [(u8, Child)]) -> Result<(), String> {
        for (number, guest) in guests {
            if let Ok(Some(status)) = guest.try_wait() {
                return Err(format!("guest {number} exited: {status}"));
            }
        }
        Ok(())
    }

    /// Waits for a guest, whose script must succeed.
    pub(in crate::e2e) fn finish_guest(&self, number: u8, guest: &mut Child) -> Result<(), String> {
        match process::wait(guest, self.left()) {
            Some(status) if status.success() => Ok(()),
            Some(status) => Err(format!("guest {number}: {status}")),
            None => Err(format!("guest {number} exceeded its time limit")),
        }
    }
}

/// The address that `e2e/guest` assigns to a guest.
fn guest_address(number: u8) -> String {
    format!("10.77.0.{}", number + 10)
}
