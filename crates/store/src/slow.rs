//! Media with a minimum duration of each sync, to measure as if on a slower device: a device whose syncs take no time does
//! not show the effect of group commit. Nothing else is slower, and nothing is less durable, since the real sync is done
//! first.

use std::io::{self, IoSlice};
use std::path::PathBuf;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use volume::ids::SegmentId;
use volume::media::{Blob, Media, RandomFile, Space};

/// Wraps `media` so that each sync of the log, the index and segments takes at least `delay`.
pub fn with_slow_syncs(media: Arc<dyn Media>, delay: Duration) -> Arc<dyn Media> {
    if delay.is_zero() { media } else { Arc::new(Slow { inner: media, delay }) }
}

/// The wrapped media or file, and the minimum duration of its syncs.
struct Slow<T: ?Sized> {
    delay: Duration,
    inner: Arc<T>,
}

impl<T: ?Sized> Slow<T> {
    fn wait_after<R>(&self, sync: impl FnOnce(&T) -> io::Result<R>) -> io::Result<R> {
        let began = Instant::now();
        let result = sync(&self.inner);
        thread::sleep(self.delay.saturating_sub(began.elapsed()));
        result
    }
}

impl Slow<dyn Media> {
    fn file(&self, inner: Arc<dyn RandomFile>) -> Arc<dyn RandomFile> {
        Arc::new(Slow { delay: self.delay, inner })
    }

    fn blob(&self, inner: Arc<dyn Blob>) -> Arc<dyn Blob> {
        Arc::new(Slow { delay: self.delay, inner })
    }
}

impl Media for Slow<dyn Media> {
    fn log(&self) -> Arc<dyn RandomFile> {
        self.file(self.inner.log())
    }

    fn index(&self) -> Arc<dyn RandomFile> {
        self.file(self.inner.index())
    }

    fn create_index(&self) -> io::Result<Arc<dyn RandomFile>> {
        self.inner.create_index().map(|file| self.file(file))
    }

    fn replace_index(&self) -> io::Result<Option<PathBuf>> {
        self.wait_after(|media| media.replace_index())
    }

    fn discard_index(&self) -> io::Result<()> {
        self.inner.discard_index()
    }

    fn free_damaged_indexes(&self, bytes: u64) -> io::Result<u64> {
        self.inner.free_damaged_indexes(bytes)
    }

    fn create_blob(&self, id: SegmentId, capacity: u64) -> io::Result<Arc<dyn Blob>> {
        self.inner.create_blob(id, capacity).map(|blob| self.blob(blob))
    }

    fn open_blob(&self, id: SegmentId) -> io::Result<Arc<dyn Blob>> {
        self.inner.open_blob(id).map(|blob| self.blob(blob))
    }

    fn delete_blob(&self, id: SegmentId) -> io::Result<()> {
        self.inner.delete_blob(id)
    }

    fn list_blobs(&self) -> io::Result<Vec<SegmentId>> {
        self.inner.list_blobs()
    }

    fn space(&self) -> io::Result<Space> {
        self.inner.space()
    }

    fn lease_held(&self) -> bool {
        self.inner.lease_held()
    }
}

impl RandomFile for Slow<dyn RandomFile> {
    fn len(&self) -> io::Result<u64> {
        self.inner.len()
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.inner.set_len(len)
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        self.inner.read_at(offset, buffer)
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.inner.write_at(offset, bytes)
    }

    fn sync(&self) -> io::Result<()> {
        self.wait_after(|file| file.sync())
    }

    fn reserve(&self, bytes: u64) -> io::Result<()> {
        self.inner.reserve(bytes)
    }
}

impl Blob for Slow<dyn Blob> {
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        self.inner.read_at(offset, buffer)
    }

    fn append(&self, offset: u64, parts: &[IoSlice<'_>]) -> io::Result<()> {
        self.inner.append(offset, parts)
    }

    fn sync(&self) -> io::Result<()> {
        self.wait_after(|blob| blob.sync())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Nothing;

    impl Blob for Nothing {
        fn read_at(&self, _offset: u64, _buffer: &mut [u8]) -> io::Result<()> {
            Ok(())
        }
        fn append(&self, _offset: u64, _parts: &[IoSlice<'_>]) -> io::Result<()> {
            Ok(())
        }
        fn sync(&self) -> io::Result<()> {
            Err(io::Error::other("no device"))
        }
    }

    #[test]
    fn a_sync_takes_the_delay_and_returns_the_real_result() {
        let delay = Duration::from_millis(20);
        let inner: Arc<dyn Blob> = Arc::new(Nothing);
        let slow = Slow { delay, inner };
        let began = Instant::now();
        assert_eq!(slow.sync().unwrap_err().to_string(), "no device");
        assert!(began.elapsed() >= delay);
        slow.append(0, &[]).unwrap();
    }
}
