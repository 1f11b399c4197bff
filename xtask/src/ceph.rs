//! A Ceph cluster for a chore, with all its data in memory: see `e2e/ceph`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::process::{self, root};

/// A cluster, ended on drop.
pub(crate) struct Ceph {
    folder: PathBuf,
    /// For the directories of servers on this machine.
    locals: PathBuf,
    binary: PathBuf,
}

impl Ceph {
    /// Starts one in a folder, with its daemons at this address.
    pub(crate) fn start(folder: &Path, binary: PathBuf, address: &str) -> Result<Ceph, String> {
        Ceph::start_with(folder, binary, address, 1 << 30)
    }

    /// The same with `bytes` of memory for each of the three OSDs.
    pub(crate) fn start_with(
        folder: &Path,
        binary: PathBuf,
        address: &str,
        bytes: u64,
    ) -> Result<Ceph, String> {
        let ceph = Ceph { folder: folder.join("ceph"), locals: folder.join("local"), binary };
        let mut start = ceph.script();
        start.arg("start").arg(&ceph.folder).arg(address).env("BYTES", bytes.to_string());
        process::output(&mut start)?;
        Ok(ceph)
    }

    fn script(&self) -> Command {
        Command::new(root().join("e2e/ceph"))
    }

    pub(crate) fn configuration(&self) -> PathBuf {
        self.folder.join("ceph.conf")
    }

    /// Returns the path of a file or folder beside the cluster's own.
    pub(crate) fn beside(&self, name: &str) -> PathBuf {
        self.folder.with_file_name(name)
    }

    /// Runs one of Ceph's programs as the cluster's administrator. Returns what it prints.
    pub(crate) fn administer(&self, program: &str, words: &[&str]) -> Result<String, String> {
        process::output(Command::new(program).args(words).env("CEPH_CONF", self.configuration()))
    }

    /// Signals a daemon.
    pub(crate) fn signal(&self, daemon: &str, signal: &str) -> Result<(), String> {
        let file = self.folder.join("pid").join(daemon);
        let pid = fs::read_to_string(&file).map_err(process::at(&file))?;
        process::output(Command::new("kill").args(["-s", signal, pid.trim()])).map(drop)
    }

    /// The directories of servers on the machine `local`.
    pub(crate) fn local(&self, local: &str) -> PathBuf {
        self.locals.join(local)
    }

    /// Runs a command of the program under test as on the machine `local`.
    pub(crate) fn holdfast(&self, local: &str) -> Command {
        let mut command = Command::new(&self.binary);
        command.env("CEPH_CONF", self.configuration()).env("HOLDFAST_LOCAL", self.local(local));
        command
    }

    /// Returns the first words of a command line that does the same.
    pub(crate) fn words(&self, local: &str) -> Vec<String> {
        let (configuration, local) = (self.configuration(), self.local(local));
        vec![
            "env".to_owned(),
            format!("CEPH_CONF={}", configuration.display()),
            format!("HOLDFAST_LOCAL={}", local.display()),
            self.binary.display().to_string(),
        ]
    }

    /// Checks pools that nobody serves, as on the machine `local`.
    pub(crate) fn check(&self, local: &str, data: &str) -> Result<(), String> {
        process::output(self.holdfast(local).args(["check", data])).map(drop)
    }
}

impl Drop for Ceph {
    fn drop(&mut self) {
        let _ = self.script().arg("stop").arg(&self.folder).status();
    }
}
