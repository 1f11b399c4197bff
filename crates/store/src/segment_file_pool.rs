//! Reuses the files of deleted segments for new ones.
//!
//! A file system neither allocates blocks nor changes metadata at each sync for a write to a range that was written before.
//! A file is kept only if no reader has it open and the device has ample free space. Its old contents stay in it: bytes of
//! another segment never pass the checksums of the new one.

use std::collections::HashMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use volume::ids::SegmentId;

use crate::blob::SegmentFile;

/// The most files kept: as many as one checkpoint frees while the device is written at full speed.
const KEPT_MAX: usize = 16;

/// A file is kept only while the device has free space for this many files of its size.
const FREE_FILES_MIN: u64 = 4 * KEPT_MAX as u64;

/// Prefix of the names of kept files, which segments never have.
const PREFIX: &str = "free-";

/// The open segment files of a pool, and the kept ones.
#[derive(Default)]
pub(crate) struct SegmentFilePool {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// The open files of each segment. Entries without open files are removed when there are many.
    open: HashMap<SegmentId, Vec<Weak<SegmentFile>>>,
    /// Kept files and their lengths.
    kept: Vec<(PathBuf, u64)>,
    next: u64,
}

impl SegmentFilePool {
    /// Deletes the files that an earlier process kept in `directory`.
    pub(crate) fn sweep(directory: &Path) -> io::Result<()> {
        for entry in fs::read_dir(directory)? {
            let entry = entry?;
            if entry.file_name().to_str().is_some_and(|name| name.starts_with(PREFIX)) {
                fs::remove_file(entry.path())?;
            }
        }
        Ok(())
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Renames a kept file of `capacity` bytes to `path`. Returns false if none is kept.
    pub(crate) fn take(&self, path: &Path, capacity: u64) -> bool {
        let mut state = self.state();
        let Some(index) = state.kept.iter().position(|(_, length)| *length == capacity) else { return false };
        let (file, _) = state.kept.swap_remove(index);
        fs::rename(&file, path).is_ok()
    }

    /// Opens a segment with `open` and records it as open.
    pub(crate) fn open(
        &self,
        id: SegmentId,
        open: impl FnOnce() -> io::Result<SegmentFile>,
    ) -> io::Result<Arc<SegmentFile>> {
        let mut state = self.state();
        let file = Arc::new(open()?);
        if state.open.len() > 1024 {
            state.open.retain(|_, files| files.iter().any(|file| file.strong_count() > 0));
        }
        state.open.entry(id).or_default().push(Arc::downgrade(&file));
        Ok(file)
    }

    /// Deletes the file of a segment, or keeps it for reuse. `available` is the free space of the device in bytes.
    pub(crate) fn delete(&self, id: SegmentId, path: &Path, available: u64) -> io::Result<()> {
        let mut state = self.state();
        let is_open =
            state.open.remove(&id).is_some_and(|files| files.iter().any(|file| file.strong_count() > 0));
        let length = fs::metadata(path)?.len();
        if is_open || state.kept.len() >= KEPT_MAX || available / FREE_FILES_MIN < length {
            return fs::remove_file(path);
        }
        state.next += 1;
        let kept = path.with_file_name(format!("{PREFIX}{}", state.next));
        fs::rename(path, &kept)?;
        state.kept.push((kept, length));
        Ok(())
    }

    /// Deletes the kept files for which `available` bytes of free space are too little; returns the size of the others.
    pub(crate) fn bytes(&self, available: u64) -> u64 {
        let mut state = self.state();
        state
            .kept
            .retain(|(path, length)| available / FREE_FILES_MIN >= *length || fs::remove_file(path).is_err());
        state.kept.iter().map(|(_, length)| length).sum()
    }
}

impl Drop for SegmentFilePool {
    fn drop(&mut self) {
        for (path, _) in std::mem::take(&mut self.state().kept) {
            let _ = fs::remove_file(path);
        }
    }
}
