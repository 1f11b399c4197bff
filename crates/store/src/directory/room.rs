//! Whether the devices have room for a new pool. Without this check the journal would be written until a device is full.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use rustix::fs::statvfs;

use super::NewPool;
use crate::error::{Error, ErrorKind};

/// Beyond this size, a larger journal does not increase what is allocated ahead.
const LARGE_JOURNAL_BYTES: u64 = 2 << 30;

/// Returns an estimate of the bytes that a pool with a journal of `journal_bytes` allocates ahead in its directory while
/// it is served: segments in reserve, and room in its index for a checkpoint. An upper bound of what was measured with
/// journals of 16 to 512 MiB.
pub fn ahead_bytes(journal_bytes: u64) -> u64 {
    journal_bytes.min(LARGE_JOURNAL_BYTES) / 4 * 5 + (16 << 20)
}

/// Refuses a pool if the devices lack room for its journal, or for what it allocates ahead. `root` is the data directory.
pub(super) fn check(root: &Path, new: &NewPool<'_>) -> Result<(), Error> {
    let root = new.path.unwrap_or(root);
    let (here, ahead) = (Device::of(root)?, ahead_bytes(new.journal_bytes));
    if let Some(elsewhere) = new.journal {
        let there = Device::of(elsewhere)?;
        if there.id != here.id {
            there.check(elsewhere, new, new.journal_bytes)?;
            return here.check(root, new, ahead);
        }
    }
    here.check(root, new, new.journal_bytes.saturating_add(ahead))
}

/// The file system of a directory.
struct Device {
    id: u64,
    /// Bytes that this user may allocate.
    available: u64,
}

impl Device {
    /// The file system that holds the directory at `path`, or will hold it once it is created.
    fn of(path: &Path) -> Result<Device, Error> {
        let path = path.ancestors().find(|path| path.exists()).unwrap_or(Path::new("."));
        let ask = || -> io::Result<Device> {
            let status = statvfs(path)?;
            let available = status.f_bavail.saturating_mul(status.f_frsize);
            Ok(Device { id: fs::metadata(path)?.dev(), available })
        };
        ask().map_err(|error| Error::io("ask for the free space of", path, &error))
    }

    fn check(&self, path: &Path, new: &NewPool<'_>, needed: u64) -> Result<(), Error> {
        if needed <= self.available {
            return Ok(());
        }
        let mebibytes = |bytes: u64| format!("{} MiB", bytes >> 20);
        Err(Error::new(
            ErrorKind::Full,
            format!(
                "the pool {:?} with a journal of {} needs {} on the device of {}, which has {} free; choose a smaller \
                 journal with --journal-size (at least 16 MiB), or free some space",
                new.name,
                mebibytes(new.journal_bytes),
                mebibytes(needed),
                path.display(),
                mebibytes(self.available)
            ),
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_volume_that_exceeds_its_device_is_refused_with_the_sizes() {
        let new =
            NewPool { name: "main", id: 1, instance: 1, journal: None, path: None, journal_bytes: 512 << 20 };
        let device = Device { id: 1, available: 1 << 30 };
        assert!(device.check(Path::new("/data"), &new, 1 << 30).is_ok());
        let error = device.check(Path::new("/data"), &new, (1 << 30) + 1).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Full);
        for part in ["journal of 512 MiB", "1024 MiB free", "/data", "--journal-size"] {
            assert!(error.to_string().contains(part), "{error}");
        }
    }
}
