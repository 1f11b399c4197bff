//! The index file: random reads and writes, and growth into space that is allocated.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::fs::{Advice, FallocateFlags, fadvise, fallocate, fstatvfs};
use volume::media::RandomFile;

use crate::error::in_context;

mod current;

pub(crate) use current::{CurrentIndex, INDEX};

/// The size of one write, in bytes, where space can only be allocated by writing.
const FILL_BYTES: usize = 1 << 20;

/// The index of an open pool. It uses the page cache: the engine verifies its blocks, and the kernel can cache those that
/// the engine's own memory cannot.
pub(crate) struct IndexFile {
    file: File,
    path: PathBuf,
    /// The bytes from the start of the file that this process has allocated, possibly beyond its length. To allocate them
    /// again would make the kernel walk over all of them.
    allocated: Mutex<u64>,
}

impl IndexFile {
    pub(crate) fn open(path: &Path) -> io::Result<IndexFile> {
        IndexFile::open_with(OpenOptions::new().read(true).write(true), path)
    }

    /// Creates an empty file, which must not exist.
    fn create(path: &Path) -> io::Result<IndexFile> {
        IndexFile::open_with(OpenOptions::new().read(true).write(true).create_new(true), path)
    }

    fn open_with(options: &OpenOptions, path: &Path) -> io::Result<IndexFile> {
        let file = options.open(path)?;
        Ok(IndexFile { file, path: path.to_owned(), allocated: Mutex::new(0) })
    }

    fn allocated(&self) -> MutexGuard<'_, u64> {
        self.allocated.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns how many bytes up to `end` are not allocated yet. Reserved ones are, and must not be demanded again on a full
    /// device.
    fn missing_up_to(&self, end: u64) -> io::Result<u64> {
        /// `st_blocks` counts in these units.
        const BLOCK_UNIT: u64 = 512;
        Ok(end.saturating_sub(self.file.metadata()?.blocks().saturating_mul(BLOCK_UNIT)))
    }

    fn in_context(&self, action: &str, error: &io::Error) -> io::Error {
        in_context(action, &self.path, error)
    }
}

/// Allocates `length` bytes at `offset`, and extends the file over them if `extend`. Fails before it uses up the rest of a
/// device that has too little space.
pub(crate) fn allocate(file: &File, offset: u64, length: u64, extend: bool) -> io::Result<()> {
    allocate_missing(file, offset, length, length, extend).map(|_| ())
}

/// The same where all but `missing` bytes are allocated already. Returns false if the file system cannot reserve space.
fn allocate_missing(file: &File, offset: u64, length: u64, missing: u64, extend: bool) -> io::Result<bool> {
    if length == 0 {
        return Ok(true);
    }
    let status = fstatvfs(file)?;
    if missing > status.f_bavail.saturating_mul(status.f_frsize) {
        return Err(io::ErrorKind::StorageFull.into());
    }
    let flags = if extend { FallocateFlags::empty() } else { FallocateFlags::KEEP_SIZE };
    match fallocate(file, flags, offset, length).map_err(io::Error::from) {
        // Such a file system promises no more than the comparison above.
        Err(error) if error.kind() == io::ErrorKind::Unsupported && !extend => Ok(false),
        Err(error) if error.kind() == io::ErrorKind::Unsupported => fill(file, offset, length).map(|()| true),
        result => result.map(|()| true),
    }
}

fn fill(file: &File, offset: u64, length: u64) -> io::Result<()> {
    let zeros = vec![0; FILL_BYTES];
    let mut done = 0;
    while done < length {
        let count = zeros.len().min(usize::try_from(length - done).unwrap_or(usize::MAX));
        file.write_all_at(&zeros[..count], offset + done)?;
        done += u64::try_from(count).expect("a buffer's length fits 64 bits");
    }
    Ok(())
}

impl RandomFile for IndexFile {
    fn len(&self) -> io::Result<u64> {
        Ok(self.file.metadata().map_err(|error| self.in_context("examine", &error))?.len())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        let mut allocated = self.allocated();
        let old = self.len()?;
        if len < old {
            // Truncation frees reserved space, too.
            *allocated = 0;
            return self.file.set_len(len).map_err(|error| self.in_context("shorten", &error));
        }
        if len <= *allocated {
            return self.file.set_len(len).map_err(|error| self.in_context("grow", &error));
        }
        let missing = self.missing_up_to(len).map_err(|error| self.in_context("examine", &error))?;
        let grown = allocate_missing(&self.file, old, len - old, missing, true).map_err(|error| {
            // A device that filled up on the way has left the file longer. If truncation fails, the file keeps unreferenced
            // zeros at its end. An unchanged length needs no truncation, which would free reserved space.
            if self.len().is_ok_and(|now| now != old) {
                *allocated = 0;
                let _ = self.file.set_len(old);
            }
            self.in_context("grow", &error)
        });
        grown.map(|_| ())
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        self.file.read_exact_at(buffer, offset).map_err(|error| self.in_context("read", &error))
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.file.write_all_at(bytes, offset).map_err(|error| self.in_context("write", &error))
    }

    fn sync(&self) -> io::Result<()> {
        self.file.sync_data().map_err(|error| {
            // The page cache now holds as clean what the media may not hold. Drop it, so that reads go to the media.
            let _ = fadvise(&self.file, 0, None, Advice::DontNeed);
            self.in_context("sync", &error)
        })
    }

    fn reserve(&self, bytes: u64) -> io::Result<()> {
        let mut allocated = self.allocated();
        let len = self.len()?;
        let end = len.saturating_add(bytes);
        if end <= *allocated {
            return Ok(());
        }
        let missing = self.missing_up_to(end).map_err(|error| self.in_context("examine", &error))?;
        let promised = allocate_missing(&self.file, len, bytes, missing, false)
            .map_err(|error| self.in_context("reserve space for", &error))?;
        if promised {
            *allocated = end;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scratch::Scratch;

    #[test]
    fn growing_and_reserving_allocate_and_shrinking_frees() {
        let scratch = Scratch::new();
        let path = scratch.path().join("index");
        File::create(&path).unwrap();
        let index = IndexFile::open(&path).unwrap();
        index.set_len(1 << 20).unwrap();
        assert_eq!(index.len().unwrap(), 1 << 20);
        let allocated = |path: &Path| std::fs::metadata(path).unwrap().blocks() * 512;
        assert!(allocated(&path) >= 1 << 20);
        index.reserve(2 << 20).unwrap();
        assert_eq!(index.len().unwrap(), 1 << 20);
        assert!(allocated(&path) >= 3 << 20);
        index.write_at(123, b"here").unwrap();
        index.sync().unwrap();
        let mut back = [1; 6];
        index.read_at(122, &mut back).unwrap();
        assert_eq!(&back, b"\0here\0");
        index.set_len(2 << 20).unwrap();
        index.reserve(1 << 20).unwrap();
        assert!(allocated(&path) >= 3 << 20, "what was reserved is still there after growing into it");
        index.set_len(4096).unwrap();
        assert_eq!(index.read_at(4093, &mut back).unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
        index.reserve(1 << 20).unwrap();
        assert!(allocated(&path) >= 1 << 20, "shortening gave it back, reserving takes it again");
    }

    #[test]
    fn a_size_beyond_the_device_is_storage_full_and_changes_nothing() {
        let scratch = Scratch::new();
        let path = scratch.path().join("index");
        File::create(&path).unwrap();
        let index = IndexFile::open(&path).unwrap();
        index.set_len(4096).unwrap();
        index.reserve(1 << 20).unwrap();
        let error = index.set_len(1 << 60).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::StorageFull);
        assert!(error.to_string().contains("free some space"), "{error}");
        assert_eq!(index.len().unwrap(), 4096);
        let allocated = std::fs::metadata(&path).unwrap().blocks() * 512;
        assert!(allocated >= 1 << 20, "what was reserved is kept: {allocated}");
        assert_eq!(index.reserve(1 << 60).unwrap_err().kind(), io::ErrorKind::StorageFull);
    }
}
