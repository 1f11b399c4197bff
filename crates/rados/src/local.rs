//! The directory on this machine that belongs to a namespace: it is locked by the process that uses the namespace here, and
//! remembers which process that was. If one is killed and started again, the namespace need not be watched until the lease of the
//! killed process has run out: the lock says that it is dead.

use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, FileExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, flock};

/// The environment variable that names the directory above those of namespaces, in place of the usual ones.
pub const LOCAL_VARIABLE: &str = "HOLDFAST_LOCAL";

/// The directory of this machine that belongs to the user that servers run as.
pub const STATE_DIRECTORY: &str = "/var/lib/holdfast";

/// How long to wait for another process to release the lock: the kernel does that for a killed process after it has freed its
/// memory.
const PATIENCE: Duration = Duration::from_secs(2);

/// Changes with each start of the machine: processes of an earlier one are dead, but may have a copied directory elsewhere.
const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";

/// A locked directory.
#[derive(Debug)]
pub(crate) struct Local {
    path: PathBuf,
    file: File,
}

/// What became of an attempt to lock a directory.
pub(crate) enum Locked {
    /// It is locked.
    Here(Local),
    /// The process with this id has it.
    InUse(String),
}

impl Local {
    /// Locks a directory, which is created if it is missing.
    pub(crate) fn lock(path: &Path) -> io::Result<Locked> {
        DirBuilder::new().recursive(true).mode(0o700).create(path)?;
        let mut options = File::options();
        let file = options
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(path.join("lock"))?;
        let start = Instant::now();
        loop {
            match flock(&file, FlockOperation::NonBlockingLockExclusive).map_err(io::Error::from) {
                Ok(()) => return Ok(Locked::Here(Local { path: path.to_owned(), file })),
                Err(error) if error.kind() != io::ErrorKind::WouldBlock => return Err(error),
                Err(_) if start.elapsed() < PATIENCE => std::thread::sleep(Duration::from_millis(20)),
                Err(_) => return Ok(Locked::InUse(fs::read_to_string(path.join("lock"))?)),
            }
        }
    }

    /// Returns the last process of this machine that had the namespace, which has ended since the lock is ours.
    pub(crate) fn ended_instance(&self) -> Option<u64> {
        instance_of(&self.path)
    }

    /// Notes that this process is about to take the namespace.
    pub(crate) fn set_instance(&self, instance: u64) -> io::Result<()> {
        self.file.set_len(0)?;
        self.file.write_all_at(std::process::id().to_string().as_bytes(), 0)?;
        let boot = fs::read_to_string(BOOT_ID)?;
        // No sync: after a crash of the machine the boot is another one.
        fs::write(instance_file(&self.path), format!("{} {instance:x}\n", boot.trim_end()))
    }
}

fn instance_file(path: &Path) -> PathBuf {
    path.join("instance")
}

/// Returns the last process of this machine that had the namespace, or was about to take it.
pub(crate) fn instance_of(path: &Path) -> Option<u64> {
    let text = fs::read_to_string(instance_file(path)).ok()?;
    let (boot, instance) = text.trim_end().split_once(' ')?;
    let is_of_this_boot = fs::read_to_string(BOOT_ID).ok()?.trim_end() == boot;
    if is_of_this_boot { u64::from_str_radix(instance, 16).ok() } else { None }
}
