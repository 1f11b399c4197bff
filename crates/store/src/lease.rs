//! The exclusive right to use a directory: an flock on a file in it, which the kernel releases when the holder dies.

use std::fs::File;
use std::io::{self, Read as _};
use std::os::unix::fs::{FileExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, OFlags, flock};

use crate::durable::private_file;
use crate::error::{Error, ErrorKind};

/// How long to wait for a holder to release the lock. The kernel releases the locks of a killed process only after it has
/// freed its memory, and [`holder`] takes the lock for an instant.
const PATIENCE: Duration = Duration::from_secs(2);

/// A lease, released on drop.
#[derive(Debug)]
pub(crate) struct Lease {
    file: File,
    path: PathBuf,
    permits_changes: bool,
}

impl Lease {
    /// Takes the lease on the lock file `path`; `what` names the object in errors.
    pub(crate) fn take(path: &Path, what: &str) -> Result<Lease, Error> {
        let file = private_file().read(true).write(true).create(true).truncate(false).open(path);
        let file = file.map_err(|error| Error::io("open the lock", path, &error))?;
        wait_for(&file, path, what)?;
        let pid = std::process::id().to_string();
        let write = || {
            file.set_len(0)?;
            file.write_all_at(pid.as_bytes(), 0)
        };
        write().map_err(|error| Error::io("write the lock", path, &error))?;
        Ok(Lease { file, path: path.to_owned(), permits_changes: true })
    }

    /// Takes the lease for reading what it guards, and changes nothing, not even the lock file. For the superuser in a
    /// directory of another user, who may have put a symbolic link there: it is not followed.
    pub(crate) fn take_to_read(path: &Path, what: &str) -> Result<Lease, Error> {
        let no_follow = i32::try_from(OFlags::NOFOLLOW.bits()).expect("a flag of open(2)");
        let file = File::options().read(true).custom_flags(no_follow).open(path);
        let file = file.map_err(|error| Error::io("open the lock", path, &error))?;
        wait_for(&file, path, what)?;
        Ok(Lease { file, path: path.to_owned(), permits_changes: false })
    }

    /// Whether the holder may change what the lease guards.
    pub(crate) fn permits_changes(&self) -> bool {
        self.permits_changes
    }

    /// Whether the locked file is still the one at its path. It is not if the directory was replaced.
    pub(crate) fn is_held(&self) -> bool {
        match (self.file.metadata(), std::fs::metadata(&self.path)) {
            (Ok(ours), Ok(there)) => ours.ino() == there.ino() && ours.dev() == there.dev(),
            _ => false,
        }
    }
}

/// Locks an open file, for which `what` stands in errors.
fn wait_for(file: &File, path: &Path, what: &str) -> Result<(), Error> {
    let start = Instant::now();
    loop {
        match flock(file, FlockOperation::NonBlockingLockExclusive).map_err(io::Error::from) {
            Ok(()) => return Ok(()),
            Err(error) if error.kind() != io::ErrorKind::WouldBlock => {
                return Err(Error::io("lock", path, &error));
            }
            Err(_) if start.elapsed() < PATIENCE => std::thread::sleep(Duration::from_millis(20)),
            Err(_) => return Err(in_use(file, what)),
        }
    }
}

/// Returns the process that holds the lease at `path`, if any; 0 for an unknown one.
pub(crate) fn holder(path: &Path) -> Option<u32> {
    let file = File::open(path).ok()?;
    match flock(&file, FlockOperation::NonBlockingLockShared).map_err(io::Error::from) {
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Some(holder_written(&file).unwrap_or(0)),
        _ => None,
    }
}

fn holder_written(mut file: &File) -> Option<u32> {
    let mut text = String::new();
    file.read_to_string(&mut text).ok()?;
    text.trim().parse().ok()
}

fn in_use(file: &File, what: &str) -> Error {
    let holder = match holder_written(file) {
        Some(pid) => format!("process {pid}"),
        None => "another process".to_owned(),
    };
    Error::new(
        ErrorKind::InUse,
        format!(
            "{what} is in use by {holder}; stop that process first (kill -TERM), or choose another directory"
        ),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scratch::Scratch;

    #[test]
    fn a_second_holder_is_refused_with_the_first_ones_process_id() {
        let scratch = Scratch::new();
        let path = scratch.path().join("lock");
        assert_eq!(holder(&path), None);
        let lease = Lease::take(&path, "the test").unwrap();
        assert!(lease.is_held());
        assert_eq!(holder(&path), Some(std::process::id()));
        let error = Lease::take(&path, "the test").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InUse);
        let told = format!("the test is in use by process {}", std::process::id());
        assert!(error.to_string().contains(&told), "{error}");
        drop(lease);
        assert_eq!(holder(&path), None);
        let lease = Lease::take(&path, "the test").unwrap();
        std::fs::remove_file(&path).unwrap();
        assert!(!lease.is_held());
    }
}
