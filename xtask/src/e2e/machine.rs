//! Machines with a system of their own: guests that boot Debian from a disk image, with systemd as process 1. A test executes
//! commands in them as an administrator would type them (`e2e/machine/machine`).

use std::fs::{self, File};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::thread;
use std::time::{Duration, Instant};

use super::lab::Lab;
use super::scratch;
use crate::process::{self, root};

/// The disk image of a fresh machine, beneath the scratch folder; `e2e/machine/image` makes it.
pub(super) const IMAGE: &str = "debian.ext4";

/// The disk image of a machine that has Pacemaker and iSCSI too.
pub(super) const PACEMAKER_IMAGE: &str = "debian-pacemaker.ext4";

/// The packages that [`PACEMAKER_IMAGE`] has besides those of [`IMAGE`].
pub(super) const PACEMAKER_PACKAGES: &[&str] = &[
    "pacemaker",
    "pacemaker-cli-utils",
    "pcs",
    "fence-agents",
    "resource-agents",
    "psmisc",
    "open-iscsi",
    "sg3-utils",
];

/// Where a machine sees the folder that it shares with the test.
pub(super) const SHARE: &str = "/run/share";

/// Time limit of a boot. A machine that starts a cluster manager needs a while.
const BOOT: Duration = Duration::from_secs(240);
/// Time limit from the command to switch off to its end.
const SWITCH_OFF: Duration = Duration::from_secs(60);
/// Interval between looks at the shared folder.
const POLL: Duration = Duration::from_millis(50);
/// Lines of a machine's console that a failure shows.
const CONSOLE_LINES_MAX: usize = 30;

/// What a machine is made of.
#[derive(Clone, Debug)]
pub(super) struct Hardware<'h> {
    /// The number of the guest, which names its link.
    pub(super) number: u8,
    pub(super) name: &'h str,
    /// Its address with the length of the prefix.
    pub(super) address: &'h str,
    pub(super) memory: &'h str,
    /// The bridge that it is connected with, or an empty name.
    pub(super) bridge: &'h str,
    /// A disk that other machines see too.
    pub(super) shared_disk: Option<PathBuf>,
    /// The image of its system, which is [`IMAGE`] or [`PACEMAKER_IMAGE`].
    pub(super) image: &'h str,
    /// Services of the image that it does not start.
    pub(super) masked: &'h [&'h str],
}

/// A machine, switched on or off.
pub(super) struct Machine<'l> {
    lab: &'l Lab,
    folder: PathBuf,
    hardware: Hardware<'l>,
    guest: Option<Child>,
}

/// Makes an empty disk that machines share.
pub(super) fn make_disk(lab: &Lab, bytes: u64) -> Result<PathBuf, String> {
    let disk = lab.machines().join("disk");
    fs::create_dir_all(lab.machines()).map_err(process::at(&disk))?;
    let made = File::create(&disk).and_then(|file| file.set_len(bytes));
    made.map(|()| disk.clone()).map_err(process::at(&disk))
}

impl<'l> Machine<'l> {
    /// Makes a machine with a fresh system, switched off.
    pub(super) fn new(lab: &'l Lab, hardware: Hardware<'l>) -> Result<Machine<'l>, String> {
        let folder = lab.machines().join(hardware.name);
        let share = folder.join("share");
        fs::create_dir_all(&share).map_err(process::at(&share))?;
        Ok(Machine { lab, folder, hardware, guest: None })
    }

    /// Switches machines on at the same time, and waits until all are up.
    pub(super) fn boot_all(machines: &mut [&mut Machine<'l>]) -> Result<(), String> {
        machines.iter_mut().try_for_each(|machine| machine.switch_on())?;
        machines.iter_mut().try_for_each(|machine| machine.await_boot())
    }

    /// The folder that the machine sees as [`SHARE`].
    pub(super) fn share(&self) -> PathBuf {
        self.folder.join("share")
    }

    /// Switches the machine on, and waits until it is up.
    pub(super) fn boot(&mut self) -> Result<(), String> {
        self.switch_on()?;
        self.await_boot()
    }

    /// Switches the machine on.
    pub(super) fn switch_on(&mut self) -> Result<(), String> {
        let limit = self.lab.left().as_secs().saturating_sub(5).max(10).to_string();
        let hardware = &self.hardware;
        let mut command = Command::new(root().join("e2e/guest"));
        command.args(["boot", "-N", self.lab.namespace(), "-t", &limit, "-n", &hardware.number.to_string()]);
        command.args([
            "-h",
            hardware.name,
            "-a",
            hardware.address,
            "-m",
            hardware.memory,
            "-b",
            hardware.bridge,
        ]);
        command.arg("-o").arg(self.share());
        let changes = self.folder.join("changes").display().to_string();
        command.args(["-d", &format!("{changes},{}", scratch().join(hardware.image).display())]);
        if let Some(disk) = &hardware.shared_disk {
            command.args(["-d", &format!("shared:{}", disk.display())]);
        }
        for service in hardware.masked {
            command.args(["-k", &format!("systemd.mask={service}.service")]);
        }
        // A command that was under way when the power failed is none for the next boot.
        for name in ["command", "running", "status", "booted"] {
            let _ = fs::remove_file(self.share().join(name));
        }
        let console = File::options().create(true).append(true).open(self.console());
        let console = console.map_err(process::at(&self.console()))?;
        let errors = console.try_clone().map_err(process::at(&self.console()))?;
        self.guest = Some(process::start(command.stdout(console).stderr(errors))?);
        Ok(())
    }

    /// Waits until the machine is up.
    pub(super) fn await_boot(&mut self) -> Result<(), String> {
        self.await_file("booted", BOOT)
    }

    /// Executes a shell command as root, and returns what it prints.
    pub(super) fn run(&mut self, command: &str) -> Result<String, String> {
        let begun = Instant::now();
        self.begin(command)?;
        let (status, output) = self.finish()?;
        self.note(&format!("{:.1} s, {status}: {command}", begun.elapsed().as_secs_f64()))?;
        self.succeeded(command, status, output)
    }

    /// Returns what a command printed, or an error if it failed.
    fn succeeded(&self, command: &str, status: i32, output: String) -> Result<String, String> {
        match status {
            0 => Ok(output),
            status => Err(format!(
                "machine {}: `{command}` exits with {status}: {}",
                self.hardware.name,
                output.trim()
            )),
        }
    }

    /// Waits for the command that was begun, which must succeed; errors call it `what`. Returns what it prints.
    pub(super) fn finish_successfully(&mut self, what: &str) -> Result<String, String> {
        let (status, output) = self.finish()?;
        self.succeeded(what, status, output)
    }

    /// Begins to execute a shell command as root.
    pub(super) fn begin(&mut self, command: &str) -> Result<(), String> {
        let (fresh, path) = (self.share().join("command.new"), self.share().join("command"));
        fs::write(&fresh, command).map_err(process::at(&fresh))?;
        fs::rename(&fresh, &path).map_err(process::at(&path))
    }

    /// Waits for the command that was begun, and returns its exit code and what it prints.
    pub(super) fn finish(&mut self) -> Result<(i32, String), String> {
        self.await_file("status", self.lab.left())?;
        let (path, output) = (self.share().join("status"), self.share().join("output"));
        let status = fs::read_to_string(&path).map_err(process::at(&path))?;
        fs::remove_file(&path).map_err(process::at(&path))?;
        let output = fs::read(&output).map_err(process::at(&output))?;
        let status = status.trim().parse().map_err(|error| format!("status {status:?}: {error}"))?;
        Ok((status, String::from_utf8_lossy(&output).into_owned()))
    }

    /// Copies a file into the machine's [`SHARE`].
    pub(super) fn give(&self, file: &Path, name: &str) -> Result<(), String> {
        fs::copy(file, self.share().join(name)).map(drop).map_err(process::at(file))
    }

    /// Reboots the machine in an orderly way.
    pub(super) fn reboot(&mut self) -> Result<(), String> {
        let booted = self.share().join("booted");
        fs::remove_file(&booted).map_err(process::at(&booted))?;
        self.begin("systemctl reboot")?;
        self.await_boot()?;
        // How the command ended, which the shutdown may have prevented.
        let _ = fs::remove_file(self.share().join("status"));
        Ok(())
    }

    /// Takes the power away: what is not on the disk is lost.
    pub(super) fn cut_power(&mut self) {
        if let Some(mut guest) = self.guest.take() {
            Lab::kill_guest(self.hardware.number, &mut guest);
        }
    }

    /// Switches the machine off in an orderly way.
    pub(super) fn switch_off(&mut self) -> Result<(), String> {
        self.begin("systemctl poweroff")?;
        let ended = self.guest.as_mut().map(|guest| process::wait(guest, SWITCH_OFF));
        match ended.flatten() {
            Some(status) if status.success() => {
                self.guest = None;
                Ok(())
            }
            _ => Err(format!("machine {} cannot be switched off\n{}", self.hardware.name, self.last_lines())),
        }
    }

    /// Waits until the machine has created a file in the shared folder.
    pub(super) fn await_file(&mut self, name: &str, most: Duration) -> Result<(), String> {
        let path = self.share().join(name);
        let end = Instant::now() + most.min(self.lab.left());
        while !path.exists() {
            let ended = match &mut self.guest {
                Some(guest) => guest.try_wait().map_err(|error| format!("the guest: {error}"))?.is_some(),
                None => true,
            };
            if ended || Instant::now() > end {
                let why = if ended { "is off" } else { "does not answer" };
                return Err(format!("machine {} {why}\n{}", self.hardware.name, self.last_lines()));
            }
            thread::sleep(POLL);
        }
        Ok(())
    }

    /// Adds a line to the machine's history, which `--keep` keeps.
    fn note(&self, line: &str) -> Result<(), String> {
        let path = self.folder.join("history");
        let history = File::options().create(true).append(true).open(&path);
        history.and_then(|mut history| writeln!(history, "{line}")).map_err(process::at(&path))
    }

    fn console(&self) -> PathBuf {
        self.folder.join("console")
    }

    /// The end of what the machine's console shows.
    fn last_lines(&self) -> String {
        let text = fs::read(self.console()).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(CONSOLE_LINES_MAX)..].join("\n")
    }
}

impl Drop for Machine<'_> {
    fn drop(&mut self) {
        self.cut_power();
    }
}
