//! The file of a segment.

use std::fs::OpenOptions;
use std::io::{self, IoSlice};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use volume::media::Blob;

use crate::aligned::Pool;
use crate::direct::DirectFile;
use crate::durable::{parent, private_file, sync_directory};
use crate::error::in_context;
use crate::index::allocate;

/// An open segment.
pub(crate) struct SegmentFile {
    file: DirectFile,
    /// Whether the directory was synced since the file got its name.
    named: AtomicBool,
}

impl SegmentFile {
    /// Creates `path` and allocates `capacity` bytes for it.
    pub(crate) fn create(path: &Path, capacity: u64, pool: &Arc<Pool>) -> io::Result<SegmentFile> {
        let mut options = private_file();
        let file = DirectFile::open(options.read(true).write(true).create_new(true), path, pool)
            .map_err(|error| in_context("create", path, &error))?;
        if let Err(error) = allocate(file.file(), 0, capacity, true) {
            let _ = std::fs::remove_file(path);
            return Err(in_context("allocate", path, &error));
        }
        Ok(SegmentFile { file, named: AtomicBool::new(false) })
    }

    /// Opens `path`, the file of a deleted segment, to be overwritten from the start.
    pub(crate) fn reuse(path: &Path, pool: &Arc<Pool>) -> io::Result<SegmentFile> {
        let file = DirectFile::open(OpenOptions::new().read(true).write(true), path, pool)
            .map_err(|error| in_context("open", path, &error))?;
        Ok(SegmentFile { file, named: AtomicBool::new(false) })
    }

    /// Opens `path` for reading.
    pub(crate) fn open(path: &Path, pool: &Arc<Pool>) -> io::Result<SegmentFile> {
        let file = DirectFile::open(OpenOptions::new().read(true), path, pool)
            .map_err(|error| in_context("open", path, &error))?;
        Ok(SegmentFile { file, named: AtomicBool::new(true) })
    }
}

impl Blob for SegmentFile {
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        self.file.read_at(offset, buffer)
    }

    fn append(&self, offset: u64, parts: &[IoSlice<'_>]) -> io::Result<()> {
        self.file.write_at(offset, parts)
    }

    fn sync(&self) -> io::Result<()> {
        self.file.sync()?;
        if !self.named.load(Ordering::Acquire) {
            let directory = parent(self.file.path());
            sync_directory(directory).map_err(|error| in_context("sync", directory, &error))?;
            self.named.store(true, Ordering::Release);
        }
        Ok(())
    }
}
