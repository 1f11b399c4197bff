//! A Ceph cluster for a chore, which keeps its data in memory unless told otherwise: see `e2e/ceph`. Its pools, and what uses them, are
//! set up by the steps of `docs/rados.md`, typed as they stand there.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::document::{self, Block};
use crate::process::{self, root};

const DOCUMENT: &str = "docs/rados.md";

/// The steps of the document.
const STEPS: &[Block<'_>] = &[
    ("pool", &[]),
    ("serve", &[]),
    ("coded", &[]),
    ("file /etc/holdfast/node.toml", &[]),
    ("cluster", &[]),
    ("file cluster.toml", &[]),
];

/// Where the document keeps the key.
const KEYRING: &str = "/etc/ceph/ceph.client.holdfast.keyring";

/// OSDs of a cluster, numbered from 0: see `e2e/ceph`.
const OSDS: u32 = 3;

/// A cluster, ended on drop.
pub(crate) struct Ceph {
    folder: PathBuf,
    /// For the directories of servers on this machine.
    locals: PathBuf,
    binary: PathBuf,
    steps: BTreeMap<String, String>,
}

impl Ceph {
    /// Starts one with a pool in a folder, with its daemons at this address.
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
        let path = root().join(DOCUMENT);
        let text = fs::read_to_string(&path).map_err(process::at(&path))?;
        let steps = steps(&text, &folder.join("ceph/holdfast.keyring"))?;
        let ceph = Ceph { folder: folder.join("ceph"), locals: folder.join("local"), binary, steps };
        let mut start = ceph.script();
        start.arg("start").arg(&ceph.folder).arg(address).env("BYTES", bytes.to_string());
        process::output(&mut start)?;
        ceph.type_in("administrator", ceph.step("pool"))?;
        Ok(ceph)
    }

    /// Returns a step of the document, with this cluster's path of the key.
    pub(crate) fn step(&self, name: &str) -> &str {
        &self.steps[name]
    }

    /// Runs commands as on the machine `local`. Returns what they print.
    pub(crate) fn type_in(&self, local: &str, commands: &str) -> Result<String, String> {
        process::output(self.shell(local).args(["-ec", commands]))
    }

    /// Returns a shell on the machine `local`, where the program under test is `holdfast`.
    pub(crate) fn shell(&self, local: &str) -> Command {
        let programs = self.binary.parent().into_iter().map(Path::to_owned);
        let others = std::env::var_os("PATH").unwrap_or_default();
        let all = std::env::join_paths(programs.chain(std::env::split_paths(&others)));
        let mut command = self.command(local, Path::new("sh"));
        command.env("PATH", all.unwrap_or(others));
        command
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

    /// Returns the ids of the OSDs' processes.
    pub(crate) fn osds(&self) -> Result<Vec<u32>, String> {
        let id = |number: u32| {
            let file = self.folder.join(format!("pid/osd.{number}"));
            let text = fs::read_to_string(&file).map_err(process::at(&file))?;
            text.trim().parse().map_err(|error| format!("{}: {error}", file.display()))
        };
        (0..OSDS).map(id).collect()
    }

    /// The directories of servers on the machine `local`.
    pub(crate) fn local(&self, local: &str) -> PathBuf {
        self.locals.join(local)
    }

    /// Runs a command of the program under test as on the machine `local`.
    pub(crate) fn holdfast(&self, local: &str) -> Command {
        self.command(local, &self.binary)
    }

    fn command(&self, local: &str, program: &Path) -> Command {
        let mut command = Command::new(program);
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

fn steps(document: &str, keyring: &Path) -> Result<BTreeMap<String, String>, String> {
    let keyring = keyring.display().to_string();
    let found = document::blocks(DOCUMENT, document, STEPS, &[(KEYRING, &keyring)])?;
    Ok(found.into_iter().map(|(name, block)| (name.to_owned(), block)).collect())
}

impl Drop for Ceph {
    fn drop(&mut self) {
        let _ = self.script().arg("stop").arg(&self.folder).status();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_document_has_every_step() {
        let text = fs::read_to_string(root().join(DOCUMENT)).unwrap();
        let found = steps(&text, Path::new("/k")).unwrap();
        assert!(found["pool"].ends_with("-o /k\n"));
        assert!(found["serve"].starts_with("holdfast serve rados:"));
        assert!(found["file cluster.toml"].starts_with("[[group]]\n"));
    }
}
