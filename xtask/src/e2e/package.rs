//! The Debian package in a minimal Debian system: installs it, serves as its unit would, upgrades, removes and purges it. No
//! step may lose what clients wrote.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use super::lab::{ADDRESS, Lab, PORT};
use super::libnfs::Client;
use super::{Options, scratch};
use crate::package;
use crate::process;

/// The tarball of the minimal system, beneath the scratch folder; `e2e/clean-root` makes it.
pub(super) const CLEAN_ROOT: &str = "clean-root.tar";

/// The unit, beneath the root of the system.
const UNIT: &str = "usr/lib/systemd/system/holdfast.service";
const CONFIGURATION: &str = "etc/holdfast/holdfast.toml";
const DATA: &str = "var/lib/holdfast";

/// The most exposure that `systemd-analyze security` may see in the unit, in tenths: up to 20 it says "OK", and most services of
/// a system have over 90. What remains is the network, which a server needs.
const EXPOSURE_MAX: &str = "20";

/// Time limit of the first start, which writes a journal.
const START: Duration = Duration::from_secs(30);

/// Binds the data directory, makes all else of the root read-only, as ProtectSystem=strict does, and serves there.
const CONFINED: &str = "set -e
root=$1; data=$2; user=$3; shift 3
mount --bind \"$root\" \"$root\"
cd \"$root\"
mount --bind \"$data\" \"$data\"
mount -t proc proc proc
mount -o remount,bind,ro .
exec chroot . setpriv --reuid \"$user\" --regid \"$user\" --clear-groups --no-new-privs \
	--inh-caps -all,+net_bind_service --ambient-caps -all,+net_bind_service --bounding-set -all,+net_bind_service \"$@\"";

/// A minimal Debian system.
struct System {
    root: PathBuf,
}

impl System {
    fn unpack(folder: &Path) -> Result<System, String> {
        let root = folder.join("root");
        fs::create_dir_all(&root).map_err(process::at(&root))?;
        let tarball = scratch().join(CLEAN_ROOT);
        process::output(Command::new("tar").arg("-xpf").arg(&tarball).arg("-C").arg(&root))?;
        Ok(System { root })
    }

    /// Runs a program in the system.
    fn run(&self, words: &[&str]) -> Result<String, String> {
        let mut command = Command::new("chroot");
        command.arg(&self.root).args(words).env("DEBIAN_FRONTEND", "noninteractive").env("LC_ALL", "C.UTF-8");
        process::output(command.env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin"))
    }

    fn install(&self, package: &Path) -> Result<(), String> {
        let to = self.root.join("holdfast.deb");
        fs::copy(package, &to).map_err(process::at(package))?;
        self.run(&["dpkg", "--install", "/holdfast.deb"]).map(|_| ())
    }

    fn read(&self, name: &str) -> Result<String, String> {
        let path = self.root.join(name);
        fs::read_to_string(&path).map_err(process::at(&path))
    }

    fn has(&self, name: &str) -> bool {
        self.root.join(name).exists()
    }

    /// A setting of the unit.
    fn setting(&self, name: &str) -> Result<String, String> {
        let unit = self.read(UNIT)?;
        let value = unit.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix('='));
        value.map(str::to_owned).ok_or_else(|| format!("the unit has no {name}"))
    }

    /// The command that the unit starts, confined as far as that needs no systemd.
    fn service(&self) -> Result<Command, String> {
        let (user, start) = (self.setting("User")?, self.setting("ExecStart")?);
        let mut command = Command::new("unshare");
        command.args(["--mount", "sh", "-c", CONFINED, "sh"]).arg(&self.root).args([DATA, &user]);
        command.args(start.split_whitespace());
        Ok(command)
    }
}

pub(super) fn run(lab: &mut Lab, options: &Options) -> Result<String, String> {
    let folder = lab.folder.clone();
    let first = package::deb(&lab.binary(), &folder.join("first"), 1)?;
    let again = package::deb(&lab.binary(), &folder.join("again"), 1)?;
    if fs::read(&first).map_err(process::at(&first))? != fs::read(&again).map_err(process::at(&again))? {
        return Err("two packages of one program differ".to_owned());
    }
    let second = package::deb(&lab.binary(), &folder.join("second"), 2)?;
    check_package(&second)?;

    let system = System::unpack(&folder)?;
    system.install(&first)?;
    check_installed(&system)?;
    let exposure = check_unit(&system)?;
    let config = system.read(CONFIGURATION)?;
    let edited = config.replace("127.0.0.1:2049", &format!("{ADDRESS}:{PORT}\", \"{ADDRESS}:111"));
    let edited = edited.replace("#journal_size = \"512 MiB\"", "journal_size = \"64 MiB\"");
    let path = system.root.join(CONFIGURATION);
    fs::write(&path, &edited).map_err(process::at(&path))?;

    lab.start_command(system.service()?, START)?;
    let mut client = Client::new(lab, options.seed)?;
    write(&mut client)?;
    // Without systemd, nobody restarts the server but the scenario.
    system.install(&second)?;
    lab.stop()?;
    lab.start_command(system.service()?, START)?;
    if system.read(CONFIGURATION)? != edited {
        return Err("the upgrade changed the configuration".to_owned());
    }
    client.verify()?;
    write(&mut client)?;
    lab.stop()?;

    remove(&system)?;
    // What is left is a data directory like any other.
    let (from, to) = (system.root.join(DATA), lab.data());
    fs::rename(&from, &to).map_err(process::at(&from))?;
    process::output(Command::new("chown").args(["-R", "0:0"]).arg(&to))?;
    lab.start()?;
    client.verify()?;
    let _ = fs::remove_dir_all(&system.root);
    Ok(format!("{} files, {exposure}", client.files()))
}

fn write(client: &mut Client) -> Result<(), String> {
    for length_max in [1, 5000, 1 << 20, 5 << 20] {
        if !client.put(length_max)? {
            return Err(format!("nfs-cp of up to {length_max} bytes failed"));
        }
    }
    client.verify()
}

/// Checks a package by Debian's rules.
fn check_package(package: &Path) -> Result<(), String> {
    let mut lintian = Command::new("lintian");
    lintian.args(["--allow-root", "--fail-on", "error,warning"]).arg(package);
    // What it finds is on its standard output.
    let output = lintian.output().map_err(|error| format!("lintian: {error}"))?;
    if output.status.success() {
        Ok(())
    } else {
        Err(format!("lintian: {}", String::from_utf8_lossy(&output.stdout)))
    }
}

/// Checks that the package's files are whole, that its user exists, and that the data directory is that user's alone.
fn check_installed(system: &System) -> Result<(), String> {
    let verified = system.run(&["dpkg", "--verify", "holdfast"])?;
    if !verified.is_empty() {
        return Err(format!("dpkg --verify: {verified}"));
    }
    let owner = system.run(&["stat", "--format", "%U:%G %a", &format!("/{DATA}")])?;
    if owner.trim() != "holdfast:holdfast 700" {
        return Err(format!("the data directory is {}", owner.trim()));
    }
    let completions = "usr/share/bash-completion/completions/holdfast";
    let files = ["usr/share/man/man1/holdfast-serve.1.gz", "usr/share/doc/holdfast/copyright", completions];
    match files.iter().find(|file| !system.has(file)) {
        Some(missing) => Err(format!("{missing} is missing")),
        None => Ok(()),
    }
}

/// Checks the unit, and returns what systemd thinks of its confinement.
fn check_unit(system: &System) -> Result<String, String> {
    let unit = system.root.join(UNIT);
    // The program that it starts is not on this machine.
    let copy = system.root.join("holdfast.service");
    let text = system
        .read(UNIT)?
        .replace("=/usr/bin/holdfast", &format!("={}/usr/bin/holdfast", system.root.display()));
    fs::write(&copy, text).map_err(process::at(&copy))?;
    process::output(
        Command::new("systemd-analyze").args(["verify", "--man=no", "--recursive-errors=no"]).arg(&copy),
    )?;
    let mut security = Command::new("systemd-analyze");
    security
        .args(["security", "--no-pager", "--offline=yes", &format!("--threshold={EXPOSURE_MAX}")])
        .arg(&unit);
    let report = process::output(&mut security)?;
    let last =
        report.lines().rev().find_map(|line| line.split_once("exposure level for ").map(|(_, level)| level));
    Ok(last.unwrap_or_default().trim_end_matches(|letter: char| !letter.is_ascii()).trim().to_owned())
}

/// Removes and purges the package; the volumes must stay.
fn remove(system: &System) -> Result<(), String> {
    let pool = format!("{DATA}/pools/default");
    for (action, configured) in [("--remove", true), ("--purge", false)] {
        system.run(&["dpkg", action, "holdfast"])?;
        if system.has("usr/bin/holdfast") || system.has(CONFIGURATION) != configured {
            return Err(format!(
                "dpkg {action} leaves the program, or does with the configuration as it should not"
            ));
        }
        if !system.has(&pool) {
            return Err(format!("dpkg {action} deletes volumes"));
        }
    }
    Ok(())
}
