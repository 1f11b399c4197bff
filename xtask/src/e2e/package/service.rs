//! The service of the Debian package under systemd.

use std::fs;

use super::super::machine::{Machine, SHARE};
use super::status_field;
use crate::process;

const CONFIGURATION: &str = "/etc/holdfast/holdfast.toml";
const DATA: &str = "/var/lib/holdfast";

/// The client, which is the same machine.
const MOUNT: &str = "mount -t nfs 127.0.0.1:/main /mnt";

/// The most exposure that `systemd-analyze security` may see in the unit, in tenths: up to 20 it says "OK", and most services of
/// a system have over 90. What remains is the network, which a server needs.
const EXPOSURE_MAX: &str = "20";

/// Properties of the unit that systemd has put into force.
const PROPERTIES: &[(&str, &str)] = &[
    ("Type", "notify"),
    ("User", "holdfast"),
    ("ActiveState", "active"),
    ("SubState", "running"),
    ("NoNewPrivileges", "yes"),
    ("ProtectSystem", "strict"),
    ("PrivateDevices", "yes"),
    ("MemoryDenyWriteExecute", "yes"),
    ("CapabilityBoundingSet", "cap_net_bind_service"),
    ("UnitFileState", "enabled"),
];

/// Lines of /proc/PID/status of the server: no right but to bind ports below 1024, and a filter of system calls.
const STATUS: &[(&str, &str)] = &[
    ("CapPrm", "0000000000000400"),
    ("CapEff", "0000000000000400"),
    ("CapBnd", "0000000000000400"),
    ("NoNewPrivs", "1"),
    ("Seccomp", "2"),
];

/// Exports that a reload puts into force.
const EXPORTS: &str = "[[export]]\npath = \"/main\"\nvolume = \"main\"\nsquash = \"none\"\n\
    [[export]]\npath = \"/again\"\nvolume = \"main\"\n";

/// Installs the package on a fresh machine, and ends when it is purged.
pub(super) fn run(machine: &mut Machine<'_>) -> Result<String, String> {
    machine.run(&format!("dpkg --install {SHARE}/first.deb"))?;
    check_installed(machine)?;
    let exposure = check_units(machine)?;
    check_confinement(machine)?;

    machine.run(MOUNT)?;
    write_files(machine, "installed")?;
    machine.run(&format!("systemd-run --quiet --unit=writer sh {SHARE}/writer.sh /mnt/log"))?;
    restart(machine, "systemctl restart holdfast")?;
    reload(machine)?;
    restart(machine, "systemctl kill --signal=KILL holdfast")?;
    if show(machine, "NRestarts")? != "1" {
        return Err("systemd did not restart the killed server once".to_owned());
    }
    let configuration = machine.run(&format!("cat {CONFIGURATION}"))?;
    restart(machine, &format!("dpkg --install {SHARE}/second.deb"))?;
    if machine.run(&format!("cat {CONFIGURATION}"))? != configuration {
        return Err("the upgrade changed the configuration".to_owned());
    }
    write_files(machine, "upgraded")?;
    verify(machine)?;

    check_journal(machine)?;
    machine.cut_power();
    machine.boot()?;
    machine.run(MOUNT)?;
    let lines = check_log(machine)?;
    verify(machine)?;
    machine.run("umount /mnt")?;
    machine.reboot()?;
    machine.run(MOUNT)?;
    verify(machine)?;
    machine.run("umount /mnt")?;

    remove(machine)?;
    check_journal(machine)?;
    Ok(format!("{lines} lines, exposure {exposure}"))
}

/// Checks that the service has reported no error but the one that the test provokes.
fn check_journal(machine: &mut Machine<'_>) -> Result<(), String> {
    let journal = machine.run("journalctl --quiet --no-pager --output=cat --unit=holdfast")?;
    let errors: Vec<&str> = journal
        .lines()
        .filter(|line| line.contains("ERROR") && !line.contains("the exports in force stay"))
        .collect();
    if errors.is_empty() { Ok(()) } else { Err(format!("the service reports: {}", errors.join("\n"))) }
}

fn show(machine: &mut Machine<'_>, property: &str) -> Result<String, String> {
    let value = machine.run(&format!("systemctl show --value --property={property} holdfast"))?;
    Ok(value.trim().to_owned())
}

/// Checks that the package's files are whole, and that the data directory is its user's alone.
fn check_installed(machine: &mut Machine<'_>) -> Result<(), String> {
    let verified = machine.run("dpkg --verify holdfast")?;
    if !verified.is_empty() {
        return Err(format!("dpkg --verify: {verified}"));
    }
    let owner = machine.run(&format!("stat --format '%U:%G %a' {DATA}"))?;
    if owner.trim() != "holdfast:holdfast 700" {
        return Err(format!("the data directory is {}", owner.trim()));
    }
    machine
        .run(
            "ls /usr/share/man/man1/holdfast-serve.1.gz /usr/share/doc/holdfast/copyright \
             /usr/share/bash-completion/completions/holdfast",
        )
        .map(drop)
}

/// Checks the units, and returns what systemd thinks of the confinement of the server's.
fn check_units(machine: &mut Machine<'_>) -> Result<String, String> {
    let complaints = machine.run(
        "systemd-analyze verify --man=no holdfast.service holdfast-node.service holdfast-group@home.service",
    )?;
    if !complaints.is_empty() {
        return Err(format!("systemd-analyze verify: {complaints}"));
    }
    let report = machine
        .run(&format!("systemd-analyze security --no-pager --threshold={EXPOSURE_MAX} holdfast.service"))?;
    let last =
        report.lines().rev().find_map(|line| line.split_once("exposure level for ")?.1.split_once(": "));
    Ok(last.map_or_else(String::new, |(_, level)| level.chars().filter(char::is_ascii).collect()))
}

/// Checks that what the unit demands is in force, by what systemd and the kernel say of the server, and by attempts.
fn check_confinement(machine: &mut Machine<'_>) -> Result<(), String> {
    for (property, expected) in PROPERTIES {
        let value = show(machine, property)?;
        if value != *expected {
            return Err(format!("the unit's {property} is {value:?}, not {expected:?}"));
        }
    }
    let pid = show(machine, "MainPID")?;
    let status = machine.run(&format!("cat /proc/{pid}/status"))?;
    let line = |name| status_field(&status, name);
    for (name, expected) in STATUS {
        if line(name) != Some(*expected) {
            return Err(format!("the server's {name} is {:?}, not {expected}", line(name)));
        }
    }
    let user = machine.run("id --user holdfast")?;
    let user = user.trim();
    if line("Uid") != Some(&[user; 4].join("\t")) {
        return Err(format!("the server runs as {:?}, not as {user}", line("Uid")));
    }
    // The server's own unit runs the attempts, so they are confined as the server is.
    machine.run(&format!(
        "mkdir -p /run/systemd/system/holdfast.service.d && cd /run/systemd/system/holdfast.service.d && \
         printf '[Service]\\nExecStartPost=/usr/bin/perl {SHARE}/confined.pl\\n' >probe.conf && systemctl daemon-reload"
    ))?;
    let tried = machine.run(
        "systemctl restart holdfast || { journalctl --no-pager --output=cat --unit=holdfast --lines=30; exit 1; }",
    );
    machine.run("rm -r /run/systemd/system/holdfast.service.d && systemctl daemon-reload")?;
    tried.map(drop)
}

/// Runs a command after which another server serves, and checks that the volume is as it was.
fn restart(machine: &mut Machine<'_>, command: &str) -> Result<(), String> {
    let before = show(machine, "MainPID")?;
    machine.run(command)?;
    machine.run(&format!(
        "for i in $(seq 300); do \
            [ \"$(systemctl show --value --property=SubState holdfast)\" = running ] && \
            [ \"$(systemctl show --value --property=MainPID holdfast)\" != {before} ] && exit; sleep 0.2; \
         done; exit 1"
    ))?;
    verify(machine)
}

/// Changes the exports by a reload, and then makes a mistake, after which they stay in force.
fn reload(machine: &mut Machine<'_>) -> Result<(), String> {
    let before = show(machine, "MainPID")?;
    machine.run(&format!("cat >>{CONFIGURATION} <<'END'\n{EXPORTS}END\nsystemctl reload holdfast"))?;
    machine.run(&await_event("exports reloaded"))?;
    let mounted = "mount -t nfs 127.0.0.1:/again /media && ls /media/log && umount /media";
    machine.run(mounted)?;
    machine.run(&format!(
        "cp {CONFIGURATION} ~/saved && echo 'path = 7' >>{CONFIGURATION} && systemctl reload holdfast"
    ))?;
    machine.run(&await_event("the exports in force stay"))?;
    // Synced, so that the power failure later does not bring the mistake back.
    machine.run(&format!("cat ~/saved >{CONFIGURATION} && sync {CONFIGURATION}; {mounted}"))?;
    if show(machine, "MainPID")? != before {
        return Err("the server does not survive a reload".to_owned());
    }
    verify(machine)
}

/// Waits until the service's journal contains an event.
fn await_event(event: &str) -> String {
    format!(
        "for i in $(seq 100); do journalctl --no-pager --unit=holdfast | grep -q '{event}' && exit; sleep 0.2; done; exit 1"
    )
}

/// Writes files of various sizes, and notes their checksums.
fn write_files(machine: &mut Machine<'_>, folder: &str) -> Result<(), String> {
    machine
        .run(&format!(
            "set -e; mkdir /mnt/{folder}; cd /mnt; \
             for size in 1 5000 70000 1048576 5242880; do head -c $size /dev/urandom >{folder}/$size; done; \
             sync -f .; sha256sum {folder}/* >>~/sums; sync ~/sums"
        ))
        .map(drop)
}

/// Reads all files from the server, not from the client's cache.
fn verify(machine: &mut Machine<'_>) -> Result<(), String> {
    machine.run("echo 3 >/proc/sys/vm/drop_caches; cd /mnt && sha256sum --quiet --check ~/sums").map(drop)
}

/// Checks the log of the writer that the power failure stopped: nothing acknowledged is missing. Returns the number of lines.
fn check_log(machine: &mut Machine<'_>) -> Result<usize, String> {
    let read = |name: &str| {
        let path = machine.share().join(name);
        fs::read_to_string(&path).map_err(process::at(&path))
    };
    if let Ok(line) = read("failed") {
        return Err(format!("the client saw an error while the server was restarted: {}", line.trim()));
    }
    let acknowledged = read("written")?;
    let acknowledged: usize =
        acknowledged.trim().parse().map_err(|error| format!("written: {acknowledged:?}: {error}"))?;
    let log = machine.run("cat /mnt/log")?;
    let lines: Vec<&str> = log.lines().collect();
    let intact = lines.iter().zip(1..).all(|(line, number)| *line == usize::to_string(&number));
    // One line more may have been under way.
    if intact && (acknowledged..=acknowledged + 1).contains(&lines.len()) {
        Ok(acknowledged)
    } else {
        Err(format!(
            "{acknowledged} lines were acknowledged, and the log has {}: {:?}",
            lines.len(),
            lines.last()
        ))
    }
}

/// Removes and purges the package. The volumes stay, and another installation serves them.
fn remove(machine: &mut Machine<'_>) -> Result<(), String> {
    for (action, configured) in [("--remove", true), ("--purge", false)] {
        machine.run(&format!("dpkg {action} holdfast"))?;
        let test = if configured { "test -e" } else { "test ! -e" };
        machine.run(&format!(
            "test ! -e /usr/bin/holdfast && {test} {CONFIGURATION} && test -d {DATA}/pools/default && \
             ! systemctl is-active holdfast && ! systemctl is-failed holdfast && ! systemctl is-enabled holdfast"
        ))?;
    }
    machine.run(&format!("dpkg --install {SHARE}/second.deb && {MOUNT}"))?;
    verify(machine)?;
    machine.run(&format!(
        "umount /mnt && systemctl stop holdfast && setpriv --reuid holdfast --regid holdfast --clear-groups \
         holdfast check {DATA} && dpkg --purge holdfast"
    ))?;
    Ok(())
}
