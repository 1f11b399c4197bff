//! Files of deleted segments, kept to become new ones.
//!
//! Writing where a file has been written before costs a file system neither allocation nor, at each sync, a change of its
//! metadata. A file is kept only while nobody has it open, so that open readers keep reading, and while the device has
//! plenty of room. What it held stays in it: bytes of another segment never pass the checksums of the new one.

use std::collections::HashMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use volume::ids::SegmentId;

use crate::blob::SegmentFile;

/// Files kept at most: what one checkpoint frees while a device is written at full speed.
const KEPT_MAX: usize = 16;

/// Files are kept while the device has room for so many more.
const PLENTY: u64 = 4 * KEPT_MAX as u64;

/// Prefix of their names, which are not those of segments.
const PREFIX: &str = "free-";

/// The segment files of a volume that are open, and those that are kept.
#[derive(Default)]
pub(crate) struct SegmentFilePool {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Who has a segment open; those that nobody has any more are swept when there are many.
    open: HashMap<SegmentId, Vec<Weak<SegmentFile>>>,
    /// Kept files and their lengths.
    kept: Vec<(PathBuf, u64)>,
    next: u64,
}

impl SegmentFilePool {
    /// Deletes what an earlier process kept in `directory`.
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

    /// Gives a kept file of `capacity` bytes the name `path`; false if there is none.
    pub(crate) fn take(&self, path: &Path, capacity: u64) -> bool {
        let mut state = self.state();
        let Some(index) = state.kept.iter().position(|(_, length)| *length == capacity) else { return false };
        let (file, _) = state.kept.swap_remove(index);
        fs::rename(&file, path).is_ok()
    }

    /// Opens a segment by `open`, and remembers that it is open.
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

    /// Takes a segment's file away: deletes it, or keeps it if the device has `available` bytes of room.
    pub(crate) fn delete(&self, id: SegmentId, path: &Path, available: u64) -> io::Result<()> {
        let mut state = self.state();
        let is_open =
            state.open.remove(&id).is_some_and(|files| files.iter().any(|file| file.strong_count() > 0));
        let length = fs::metadata(path)?.len();
        if is_open || state.kept.len() >= KEPT_MAX || available / PLENTY < length {
            return fs::remove_file(path);
        }
        state.next += 1;
        let kept = path.with_file_name(format!("{PREFIX}{}", state.next));
        fs::rename(path, &kept)?;
        state.kept.push((kept, length));
        Ok(())
    }

    /// Bytes of kept files, after those were deleted that the device has not plenty of room for.
    pub(crate) fn bytes(&self, available: u64) -> u64 {
        let mut state = self.state();
        state.kept.retain(|(path, length)| available / PLENTY >= *length || fs::remove_file(path).is_err());
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
