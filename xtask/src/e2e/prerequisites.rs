//! Programs that the end-to-end tests need, and the packages that provide them.

use std::path::Path;
use std::process::{Command, Stdio};

use super::installed;
use crate::process;

/// Programs, and the Debian packages that provide them.
const PROGRAMS: &[(&str, &str)] = &[
    ("linux.uml", "user-mode-linux"),
    ("ip", "iproute2"),
    ("mount.nfs", "nfs-common"),
    ("modprobe", "kmod"),
    ("perl", "perl"),
    ("nfs-cp", "libnfs-utils"),
    ("sqlite3", "sqlite3"),
    ("git", "git"),
    ("gcc", "gcc"),
    ("make", "make"),
    ("mkfs.ext4", "e2fsprogs"),
    ("xz", "xz-utils"),
    ("openssl", "openssl"),
    ("ganesha.nfsd", "nfs-ganesha nfs-ganesha-vfs"),
    ("rpcbind", "rpcbind"),
    ("rpc.rquotad", "quota"),
    ("mmdebstrap", "mmdebstrap"),
    ("lintian", "lintian"),
    ("systemctl", "systemd"),
    ("prometheus", "prometheus"),
    ("ocf-tester", "resource-agents"),
    ("xmllint", "libxml2-utils"),
    ("ceph-mon", "ceph-mon"),
    ("ceph-osd", "ceph-osd"),
    ("ceph-mgr", "ceph-mgr"),
    ("ceph", "ceph-common"),
    ("drbdadm", "drbd-utils"),
];

/// Programs, and the crates that provide them.
const CRATES: &[(&str, &str)] = &[("pjdfstest", "pjdfstest@0.2.2"), ("fsx", "fsx@0.3.2")];

/// Checks that everything is installed. The error lists all that is missing.
pub(super) fn check() -> Result<(), String> {
    let mut packages: Vec<&str> =
        PROGRAMS.iter().filter(|(program, _)| !has(program)).map(|(_, package)| *package).collect();
    if !Path::new(super::scenarios::LINUX_SOURCE).exists() {
        packages.push("linux-source-6.1");
    }
    let crates: Vec<&str> =
        CRATES.iter().filter(|(program, _)| installed(program).is_none()).map(|(_, name)| *name).collect();
    let mut missing = Vec::new();
    if !process::is_root() {
        missing.push("root, to create namespaces, guests and loop devices".to_owned());
    }
    if !packages.is_empty() {
        missing.push(format!("apt-get install --no-install-recommends {}", packages.join(" ")));
    }
    if !crates.is_empty() {
        missing.push(format!("cargo install --locked {}", crates.join(" ")));
    }
    if missing.is_empty() { Ok(()) } else { Err(format!("this machine lacks\n  {}", missing.join("\n  "))) }
}

/// Whether the shell finds the program, the folders of root's programs included.
fn has(program: &str) -> bool {
    let look = format!("PATH=$PATH:/usr/sbin:/sbin; command -v {program}");
    let status = Command::new("sh").args(["-c", &look]).stdout(Stdio::null()).status();
    status.is_ok_and(|status| status.success())
}

#[cfg(test)]
mod tests {
    use super::has;

    #[test]
    fn missing_programs_are_found() {
        assert!(has("sh"));
        assert!(!has("no-such-program-anywhere"));
    }
}
