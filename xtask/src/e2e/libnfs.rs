//! The tools of libnfs: a user-space client that shares no code with Linux's.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use fastrand::Rng;

use super::lab::{ADDRESS, Lab, PORT, Peer};
use crate::process::{self, random_bytes};

/// Time limit of a tool in seconds, a restart of the server included.
const LIMIT: &str = "60";

/// Runs the tools and remembers what was acknowledged.
pub(super) struct Client {
    peer: Peer,
    /// The exported path, without the first slash.
    pub(super) export: String,
    folder: PathBuf,
    random: Rng,
    /// The content of each file that nfs-cp acknowledged; `None` if only the name is certain.
    acknowledged: BTreeMap<String, Option<Vec<u8>>>,
    last: String,
    made: usize,
}

impl Client {
    /// A client of `/main`.
    pub(super) fn new(lab: &Lab, seed: u64) -> Result<Client, String> {
        Client::of(lab, "main", seed)
    }

    /// A client of another export, which no other client uses.
    pub(super) fn of(lab: &Lab, export: &str, seed: u64) -> Result<Client, String> {
        let folder = lab.folder.join("libnfs").join(export);
        fs::create_dir_all(&folder).map_err(process::at(&folder))?;
        let random = Rng::with_seed(seed);
        Ok(Client {
            peer: lab.peer,
            export: export.to_owned(),
            folder,
            random,
            acknowledged: BTreeMap::new(),
            last: String::new(),
            made: 0,
        })
    }

    fn url(&self, name: &str) -> String {
        let (mount_port, export) = (self.peer.mount_port(), &self.export);
        format!("nfs://{ADDRESS}/{export}/{name}?nfsport={PORT}&mountport={mount_port}&version=3")
    }

    /// Writes a file shorter than `length_max` bytes. Returns whether the tool succeeded.
    pub(super) fn put(&mut self, length_max: usize) -> Result<bool, String> {
        self.made += 1;
        let name = format!("libnfs-{}", self.made);
        let length = self.random.usize(..length_max);
        let content = random_bytes(&mut self.random, length);
        let local = self.folder.join("content");
        fs::write(&local, &content).map_err(process::at(&local))?;
        let output = tool("nfs-cp", &[&local.to_string_lossy(), &self.url(&name)])?;
        if output.status.success() {
            self.last.clone_from(&name);
            self.acknowledged.insert(name, Some(content));
        }
        Ok(output.status.success())
    }

    /// Notes that the server restarted during the last [`Client::put`]. libnfs 4.0 sends unstable WRITEs and a COMMIT
    /// without comparing their verifiers, so it misses that a restart lost the data: only the name is certain.
    pub(super) fn distrust_last(&mut self) {
        if let Some(content) = self.acknowledged.get_mut(&self.last) {
            *content = None;
        }
    }

    /// Compares every acknowledged file; the listing must show them too.
    pub(super) fn verify(&self) -> Result<(), String> {
        let listing = tool("nfs-ls", &[&self.url("")])?;
        let listing = String::from_utf8_lossy(&listing.stdout).into_owned();
        for (name, content) in &self.acknowledged {
            let output = tool("nfs-cat", &[&self.url(name)])?;
            if !output.status.success() {
                return Err(format!("nfs-cat {name}: {}", String::from_utf8_lossy(&output.stderr).trim()));
            }
            if let Some(content) = content
                && output.stdout != *content
            {
                let (is, was) = (output.stdout.len(), content.len());
                return Err(format!("{name} differs: {is} bytes instead of {was}"));
            }
            if !listing.lines().any(|line| line.split_whitespace().next_back() == Some(name)) {
                return Err(format!("nfs-ls does not show {name}"));
            }
        }
        Ok(())
    }

    /// Writes `names` empty files and checks that a listing over NFSv4 shows them. libnfs 4.0 continues a listing with a
    /// cookie verifier of zero, which Linux never does.
    pub(super) fn list_over_nfs4(&mut self, names: usize) -> Result<(), String> {
        for _ in 0..names {
            if !self.put(1)? {
                return Err("nfs-cp of an empty file failed".to_owned());
            }
        }
        let listing =
            tool("nfs-ls", &[&format!("nfs://{ADDRESS}/{}/?nfsport={PORT}&version=4", self.export)])?;
        let shown = String::from_utf8_lossy(&listing.stdout).lines().count();
        if !listing.status.success() || shown < self.files() {
            return Err(format!("nfs-ls over NFSv4 shows {shown} of {} names", self.files()));
        }
        Ok(())
    }

    /// Reads a file that does not exist, which must fail.
    pub(super) fn miss(&self) -> Result<(), String> {
        let output = tool("nfs-cat", &[&self.url("nobody-wrote-this")])?;
        if output.status.success() { Err("nfs-cat reads a missing file".to_owned()) } else { Ok(()) }
    }

    /// The number of acknowledged files.
    pub(super) fn files(&self) -> usize {
        self.acknowledged.len()
    }
}

fn tool(name: &str, arguments: &[&str]) -> Result<Output, String> {
    let mut command = Command::new("timeout");
    command.arg(LIMIT).arg(name).args(arguments).current_dir(Path::new("/"));
    command.output().map_err(|error| format!("{name}: {error}"))
}
