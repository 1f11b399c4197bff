//! The test bed of one scenario: a fresh data directory, a server that can be killed and restarted, and guests.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use super::{Options, scratch};
use crate::process::{self, root, target_directory};

mod guests;
mod server;

/// The server's address in the namespace, which `e2e/guest` assigns to the loopback device.
pub(super) const ADDRESS: &str = "10.77.0.1";
/// The port of NFS.
pub(super) const PORT: u16 = 2049;

/// The folder that the foreign server exports, within that of the scenario.
const EXPORT: &str = "ganesha/export";

/// Concurrent runs of one scenario with the same target directory.
const RUNS_AT_ONCE: usize = 8;

/// The server under test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Peer {
    /// The release binary.
    Holdfast,
    /// A foreign server, to test the scenarios themselves.
    Ganesha,
}

impl Peer {
    pub(super) fn parse(name: &str) -> Option<Peer> {
        match name {
            "holdfast" => Some(Peer::Holdfast),
            "ganesha" => Some(Peer::Ganesha),
            _ => None,
        }
    }

    /// The port of MOUNT.
    pub(super) fn mount_port(self) -> u16 {
        match self {
            Peer::Holdfast => PORT,
            Peer::Ganesha => 20048,
        }
    }
}

/// The version of NFS that guests mount with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Version {
    /// NFSv3, with MOUNT.
    V3,
    /// NFSv4.0.
    V40,
    /// NFSv4.1.
    V41,
    /// NFSv4.2.
    V42,
}

impl Version {
    const ALL: [Version; 4] = [Version::V3, Version::V40, Version::V41, Version::V42];

    /// The value of mount(8)'s option `vers`.
    pub(super) fn name(self) -> &'static str {
        match self {
            Version::V3 => "3",
            Version::V40 => "4.0",
            Version::V41 => "4.1",
            Version::V42 => "4.2",
        }
    }

    pub(super) fn parse(name: &str) -> Option<Version> {
        Version::ALL.into_iter().find(|version| version.name() == name)
    }
}

/// Some counts of `holdfast check`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Summary {
    pub(super) inodes: u64,
    pub(super) extents: u64,
    pub(super) live_bytes: u64,
}

/// The test bed of one scenario.
pub(super) struct Lab {
    pub(super) peer: Peer,
    version: Version,
    pub(super) folder: PathBuf,
    namespace: String,
    /// First lines of the server's configuration.
    settings: String,
    /// The exports in the servers' configuration.
    exports: String,
    /// Where the server listens besides [`ADDRESS`], as in a URL.
    listened: Option<String>,
    /// The scenario's deadline.
    end: Instant,
    /// Locks the folder while it is in use.
    _claim: File,
    server: Option<Child>,
    /// The scenario's own file system, if it has one.
    mounted: Option<PathBuf>,
}

impl Lab {
    /// Prepares a test bed without a server. Removes what an earlier run or scenario left; if another run uses the folder now,
    /// this one takes another folder.
    pub(super) fn new(
        options: &Options,
        namespace: &str,
        name: &str,
        version: Version,
        end: Instant,
    ) -> Result<Lab, String> {
        let (folder, claim) = claim(name)?;
        for name in ["disk", EXPORT] {
            let _ = Command::new("umount").arg("-q").arg(folder.join(name)).stderr(Stdio::null()).status();
        }
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(folder.join("out")).map_err(process::at(&folder))?;
        let lab = Lab {
            peer: options.peer,
            version,
            folder,
            namespace: namespace.to_owned(),
            settings: String::new(),
            exports: export_to(&[]),
            listened: None,
            end,
            _claim: claim,
            server: None,
            mounted: None,
        };
        if lab.peer == Peer::Holdfast {
            // A copy, so that restarts run the same program even if it is rebuilt meanwhile.
            let built = target_directory().join("release/holdfast");
            fs::copy(&built, lab.binary()).map_err(process::at(&built))?;
        }
        lab.renew_network()?;
        Ok(lab)
    }

    /// Gives the namespace the server's address alone, without the links, addresses and routes that a scenario has made.
    pub(super) fn renew_network(&self) -> Result<(), String> {
        let guest = root().join("e2e/guest");
        process::output(Command::new(guest).args(["net", "reset", &self.namespace])).map(drop)
    }

    /// The network namespace of the server and the guests.
    pub(super) fn namespace(&self) -> &str {
        &self.namespace
    }

    /// The program under test.
    pub(super) fn binary(&self) -> PathBuf {
        self.folder.join("holdfast")
    }

    /// Runs a command of the program on the data directory, which precedes `rest`. Returns what it prints.
    pub(super) fn holdfast(&self, command: &[&str], rest: &[&str]) -> Result<String, String> {
        process::output(Command::new(self.binary()).args(command).arg(self.data()).args(rest))
    }

    /// The version of NFS that guests mount with.
    pub(super) fn version(&self) -> Version {
        self.version
    }

    /// The folder that guests may write.
    pub(super) fn out(&self) -> PathBuf {
        self.folder.join("out")
    }

    /// The folder of machines with a system of their own.
    pub(super) fn machines(&self) -> PathBuf {
        self.folder.join("machines")
    }

    /// The data directory.
    pub(super) fn data(&self) -> PathBuf {
        self.mounted.clone().unwrap_or_else(|| self.folder.clone()).join("data")
    }

    /// The time left until the deadline.
    pub(super) fn left(&self) -> Duration {
        self.end.saturating_duration_since(Instant::now())
    }

    /// Sets lines of configuration for servers started from now on.
    pub(super) fn configure(&mut self, settings: &str) {
        settings.clone_into(&mut self.settings);
    }

    /// Sets the networks that the export admits, for servers started from now on.
    pub(super) fn admit(&mut self, networks: &[&str]) {
        self.exports = export_to(networks);
    }

    /// Sets the exports, for servers started from now on and for one that reloads them.
    pub(super) fn export(&mut self, exports: String) -> Result<(), String> {
        self.exports = exports;
        self.write_configuration().map(|_| ())
    }

    /// Lets servers started from now on listen on another address as well.
    pub(super) fn also_listen(&mut self, address: &str) {
        self.listened = Some(address.to_owned());
    }

    /// Puts the data directory on a new ext4 file system of this size.
    pub(super) fn mount_disk(&mut self, mebibytes: u64) -> Result<(), String> {
        self.mount_image(&["mkfs.ext4", "-q", "-m", "0"], mebibytes, "disk")
    }

    /// Has the foreign server export a subvolume of a new btrfs of this size, with quotas.
    pub(super) fn mount_btrfs(&mut self, mebibytes: u64) -> Result<(), String> {
        self.mount_image(&["mkfs.btrfs", "-q"], mebibytes, EXPORT)?;
        let folder = self.export_folder();
        let btrfs = |words: &[&str], folder: &Path| {
            process::output(Command::new("btrfs").args(words).arg(folder)).map(drop)
        };
        btrfs(&["subvolume", "create"], &folder.join("export"))?;
        btrfs(&["quota", "enable"], &folder)?;
        // Servers look for the file system among what is mounted, where a subvolume is not.
        process::output(Command::new("umount").arg(&folder))?;
        let mut mount = Command::new("mount");
        mount.args(["-o", "loop,subvol=export"]).arg(self.folder.join("image")).arg(&folder);
        process::output(&mut mount).map(drop)
    }

    /// The folder that the foreign server exports.
    pub(super) fn export_folder(&self) -> PathBuf {
        self.folder.join(EXPORT)
    }

    /// Makes a file system of this size in a file, and mounts it on a folder of the scenario's.
    fn mount_image(&mut self, make: &[&str], mebibytes: u64, name: &str) -> Result<(), String> {
        let (image, folder) = (self.folder.join("image"), self.folder.join(name));
        let made = File::create(&image).and_then(|file| file.set_len(mebibytes << 20));
        made.and_then(|()| fs::create_dir_all(&folder)).map_err(process::at(&image))?;
        process::output(Command::new(make[0]).args(&make[1..]).arg(&image))?;
        process::output(Command::new("mount").args(["-o", "loop"]).arg(&image).arg(&folder))?;
        self.mounted = Some(folder);
        Ok(())
    }

    /// Removes the scenario's data.
    pub(super) fn clear(&mut self) {
        self.kill();
        if let Some(disk) = self.mounted.take() {
            let _ = Command::new("umount").arg(&disk).status();
        }
        for name in [
            "data", "image", "ganesha", "holdfast", "etc", "lib", "bin", "target", "machines", "first",
            "again", "second",
        ] {
            let path = self.folder.join(name);
            let _ = if path.is_dir() { fs::remove_dir_all(&path) } else { fs::remove_file(&path) };
        }
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        self.kill();
        if let Some(disk) = &self.mounted {
            let _ = Command::new("umount").arg("-l").arg(disk).status();
        }
    }
}

/// The export of the volume `main` to these networks, or to all if there are none. Root is not squashed, as the tests of
/// permissions need.
fn export_to(networks: &[&str]) -> String {
    format!("[[export]]\npath = \"/main\"\nvolume = \"main\"\nsquash = \"none\"\nclients = {networks:?}\n")
}

/// Claims a folder that no other run uses, by locking a file beside it.
fn claim(name: &str) -> Result<(PathBuf, File), String> {
    fs::create_dir_all(scratch()).map_err(process::at(&scratch()))?;
    for number in 1..=RUNS_AT_ONCE {
        let name = if number == 1 { name.to_owned() } else { format!("{name}-{number}") };
        let path = scratch().join(format!("{name}.lock"));
        let file = File::create(&path).map_err(process::at(&path))?;
        match file.try_lock() {
            Ok(()) => return Ok((scratch().join(name), file)),
            Err(fs::TryLockError::WouldBlock) => {}
            Err(fs::TryLockError::Error(error)) => return Err(format!("{}: {error}", path.display())),
        }
    }
    Err(format!("{RUNS_AT_ONCE} runs of {name} are in progress already"))
}
