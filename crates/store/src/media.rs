//! The media of one pool: its log, index, segments and lease.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::statvfs;
use volume::ids::SegmentId;
use volume::media::{Blob, Media, RandomFile, Space, Tenure};

use crate::aligned::Pool;
use crate::blob::SegmentFile;
use crate::durable::sync_directory;
use crate::error::{Error, in_context};
use crate::index::CurrentIndex;
use crate::lease::Lease;
use crate::log::Log;
use crate::segment_file_pool::SegmentFilePool;

/// Names in a pool's directory.
pub(crate) mod names {
    pub(crate) const FORMAT: &str = "format";
    pub(crate) const LOCK: &str = "lock";
    pub(crate) const JOURNAL: &str = "journal";
    pub(crate) const JOURNAL_LOCATION: &str = "journal.location";
    pub(crate) use crate::index::INDEX;
    pub(crate) const SEGMENTS: &str = "segments";
    pub(crate) const ALL: [&str; 6] = [FORMAT, LOCK, JOURNAL, JOURNAL_LOCATION, INDEX, SEGMENTS];
}

/// Digits in the name of a segment's file.
const SEGMENT_DIGITS: usize = 16;

/// A pool in a local directory, open and leased.
pub struct LocalMedia {
    lease: Lease,
    log: Arc<Log>,
    index: CurrentIndex,
    segments: PathBuf,
    journal: PathBuf,
    pool: Arc<Pool>,
    segment_files: SegmentFilePool,
}

impl LocalMedia {
    /// Opens the pool in `directory`, whose journal consists of `files` files in `journal`.
    pub(crate) fn open(
        directory: &Path,
        journal: &Path,
        files: u64,
        lease: Lease,
    ) -> Result<LocalMedia, Error> {
        let pool = Arc::new(Pool::default());
        let log = Arc::new(Log::open(journal, files, &pool)?);
        let index = CurrentIndex::open(directory, lease.permits_changes())
            .map_err(|error| Error::io("open the index", &directory.join(names::INDEX), &error))?;
        let segments = directory.join(names::SEGMENTS);
        if lease.permits_changes() {
            SegmentFilePool::sweep(&segments)
                .map_err(|error| Error::io("list and sweep the segments in", &segments, &error))?;
        }
        let journal = journal.to_owned();
        Ok(LocalMedia {
            lease,
            log,
            index,
            segments,
            journal,
            pool,
            segment_files: SegmentFilePool::default(),
        })
    }

    /// Returns the directory of its journal.
    pub fn journal(&self) -> &Path {
        &self.journal
    }

    fn device_space(&self) -> io::Result<Space> {
        let status = statvfs(&self.segments)
            .map_err(|error| in_context("ask for the free space of", &self.segments, &error.into()))?;
        Ok(Space {
            total: status.f_blocks.saturating_mul(status.f_frsize),
            available: status.f_bavail.saturating_mul(status.f_frsize),
        })
    }

    fn blob_path(&self, id: SegmentId) -> PathBuf {
        self.segments.join(format!("{:016x}", id.0))
    }
}

/// Returns the segment of which `name` is the file name; `None` for other files.
pub(crate) fn segment_of(name: &str) -> Option<SegmentId> {
    let digits =
        name.len() == SEGMENT_DIGITS && name.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    if digits { u64::from_str_radix(name, 16).ok().map(SegmentId) } else { None }
}

impl Media for LocalMedia {
    fn log(&self) -> Arc<dyn RandomFile> {
        Arc::clone(&self.log) as Arc<dyn RandomFile>
    }

    fn index(&self) -> Arc<dyn RandomFile> {
        self.index.current()
    }

    fn create_index(&self) -> io::Result<Arc<dyn RandomFile>> {
        Ok(self.index.create()?)
    }

    fn replace_index(&self) -> io::Result<Option<PathBuf>> {
        self.index.replace()
    }

    fn discard_index(&self) -> io::Result<()> {
        self.index.discard()
    }

    fn free_damaged_indexes(&self, bytes: u64) -> io::Result<u64> {
        self.index.free_damaged(bytes)
    }

    fn create_blob(&self, id: SegmentId, capacity: u64) -> io::Result<Arc<dyn Blob>> {
        let path = self.blob_path(id);
        let is_reused =
            path.try_exists().is_ok_and(|exists| !exists) && self.segment_files.take(&path, capacity);
        let file = self.segment_files.open(id, || {
            if is_reused {
                SegmentFile::reuse(&path, &self.pool)
            } else {
                SegmentFile::create(&path, capacity, &self.pool)
            }
        })?;
        Ok(file)
    }

    fn open_blob(&self, id: SegmentId) -> io::Result<Arc<dyn Blob>> {
        Ok(self.segment_files.open(id, || SegmentFile::open(&self.blob_path(id), &self.pool))?)
    }

    fn delete_blob(&self, id: SegmentId) -> io::Result<()> {
        let path = self.blob_path(id);
        let available = self.device_space()?.available;
        self.segment_files
            .delete(id, &path, available)
            .map_err(|error| in_context("delete", &path, &error))?;
        sync_directory(&self.segments).map_err(|error| in_context("sync", &self.segments, &error))
    }

    fn list_blobs(&self) -> io::Result<Vec<SegmentId>> {
        let list = || -> io::Result<Vec<SegmentId>> {
            let mut ids = Vec::new();
            for entry in fs::read_dir(&self.segments)? {
                ids.extend(entry?.file_name().to_str().and_then(segment_of));
            }
            ids.sort_unstable();
            Ok(ids)
        };
        list().map_err(|error| in_context("list the segments in", &self.segments, &error))
    }

    fn space(&self) -> io::Result<Space> {
        let space = self.device_space()?;
        Ok(Space {
            available: space.available.saturating_add(self.segment_files.bytes(space.available)),
            ..space
        })
    }

    fn tenure(&self) -> Tenure {
        if self.lease.is_held() { Tenure::Held } else { Tenure::Lost }
    }
}

#[cfg(test)]
mod tests {
    use std::io::IoSlice;

    use std::fs::File;

    use super::*;
    use crate::scratch::Scratch;

    fn open(scratch: &Scratch) -> LocalMedia {
        let path = scratch.path();
        if !path.join(names::INDEX).exists() {
            fs::create_dir(path.join(names::JOURNAL)).unwrap();
            crate::log::create(&path.join(names::JOURNAL), 1, "me").unwrap();
            File::create(path.join(names::INDEX)).unwrap();
            fs::create_dir(path.join(names::SEGMENTS)).unwrap();
        }
        let lease = Lease::take(&path.join(names::LOCK), "the test").unwrap();
        LocalMedia::open(path, &path.join(names::JOURNAL), 1, lease).unwrap()
    }

    #[test]
    fn blobs_are_written_reopened_listed_and_deleted() {
        let scratch = Scratch::new();
        let media = open(&scratch);
        let blob = media.create_blob(SegmentId(0xabc), 1 << 20).unwrap();
        let again = media.create_blob(SegmentId(0xabc), 1 << 20).err().unwrap();
        assert_eq!(again.kind(), io::ErrorKind::AlreadyExists);
        let block: Vec<u8> = (0..8192_u32).map(|i| u8::try_from(i % 253).unwrap()).collect();
        blob.append(0, &[IoSlice::new(&block)]).unwrap();
        blob.append(8192, &[IoSlice::new(&block[..4096])]).unwrap();
        blob.sync().unwrap();
        drop((blob, media));

        fs::write(scratch.path().join(names::SEGMENTS).join("not-a-segment"), b"").unwrap();
        let media = open(&scratch);
        assert_eq!(media.tenure(), Tenure::Held);
        assert_eq!(media.list_blobs().unwrap(), [SegmentId(0xabc)]);
        let blob = media.open_blob(SegmentId(0xabc)).unwrap();
        let mut back = vec![0; 5000];
        blob.read_at(8000, &mut back[..]).unwrap_or_else(|error| panic!("{error}"));
        assert!(back[..192] == block[8000..] && back[192..192 + 4096] == block[..4096]);

        media.delete_blob(SegmentId(0xabc)).unwrap();
        blob.read_at(0, &mut back).unwrap();
        assert!(back == block[..5000], "open readers keep reading");
        assert_eq!(media.open_blob(SegmentId(0xabc)).err().unwrap().kind(), io::ErrorKind::NotFound);
        assert_eq!(media.delete_blob(SegmentId(0xabc)).unwrap_err().kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn files_without_readers_are_reused() {
        let scratch = Scratch::new();
        let media = open(&scratch);
        let files = || fs::read_dir(scratch.path().join(names::SEGMENTS)).unwrap().count();
        let blob = media.create_blob(SegmentId(1), 1 << 20).unwrap();
        blob.append(0, &[IoSlice::new(&[1; 4096])]).unwrap();
        media.delete_blob(SegmentId(1)).unwrap();
        assert_eq!(files(), 0, "it is open");
        blob.read_at(0, &mut [0; 10]).unwrap();
        drop(media.create_blob(SegmentId(2), 1 << 20).unwrap());
        media.delete_blob(SegmentId(2)).unwrap();
        assert_eq!((files(), media.list_blobs().unwrap()), (1, Vec::new()));
        drop(media.create_blob(SegmentId(3), 2 << 20).unwrap());
        assert_eq!(files(), 2, "it has another size");
        let blob = media.create_blob(SegmentId(4), 1 << 20).unwrap();
        assert_eq!((files(), media.list_blobs().unwrap()), (2, vec![SegmentId(3), SegmentId(4)]));
        blob.append(0, &[IoSlice::new(&[4; 4096])]).unwrap();
        blob.sync().unwrap();
        drop(blob);
        media.delete_blob(SegmentId(4)).unwrap();
        fs::write(scratch.path().join(names::SEGMENTS).join("free-77"), b"").unwrap();
        drop(media);
        let media = open(&scratch);
        assert_eq!((files(), media.list_blobs().unwrap()), (1, vec![SegmentId(3)]));
    }

    #[test]
    fn a_blob_that_does_not_fit_the_device_leaves_no_file() {
        let scratch = Scratch::new();
        let media = open(&scratch);
        let space = media.space().unwrap();
        assert!(space.available > 0 && space.available <= space.total);
        let error = media.create_blob(SegmentId(1), space.total + (1 << 30)).err().unwrap();
        assert_eq!(error.kind(), io::ErrorKind::StorageFull);
        assert_eq!(media.list_blobs().unwrap(), []);
    }
}
