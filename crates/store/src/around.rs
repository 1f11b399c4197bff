//! Media whose accesses something watches: one that makes syncs take time, or one that learns from errors.

use std::io::{self, IoSlice};
use std::path::PathBuf;
use std::sync::Arc;

use volume::ids::SegmentId;
use volume::media::{Blob, Media, RandomFile, Space, Tenure};

/// What runs around each access. Each method makes the access and returns its result, or another.
pub(crate) trait Around: Send + Sync + 'static {
    /// Reads bytes or facts.
    fn read<R>(&self, access: impl FnOnce() -> io::Result<R>) -> io::Result<R> {
        access()
    }

    /// Writes, creates or deletes something.
    fn change<R>(&self, access: impl FnOnce() -> io::Result<R>) -> io::Result<R> {
        access()
    }

    /// Makes earlier writes durable.
    fn sync<R>(&self, access: impl FnOnce() -> io::Result<R>) -> io::Result<R> {
        self.change(access)
    }

    /// Returns the tenure of media that have this one by themselves.
    fn tenure(&self, own: Tenure) -> Tenure {
        own
    }
}

/// Wraps `media`: `around` runs around each access.
pub(crate) fn wrap<A: Around>(media: Arc<dyn Media>, around: Arc<A>) -> Arc<dyn Media> {
    Arc::new(Wrapped { inner: media, around })
}

/// The wrapped media, file or blob.
struct Wrapped<T: ?Sized, A> {
    around: Arc<A>,
    inner: Arc<T>,
}

impl<T: ?Sized, A> Wrapped<T, A> {
    /// Wraps something that `self` gives access to.
    fn part<U: ?Sized>(&self, inner: Arc<U>) -> Wrapped<U, A> {
        Wrapped { around: Arc::clone(&self.around), inner }
    }
}

impl<A: Around> Media for Wrapped<dyn Media, A> {
    fn log(&self) -> Arc<dyn RandomFile> {
        Arc::new(self.part(self.inner.log()))
    }

    fn index(&self) -> Arc<dyn RandomFile> {
        Arc::new(self.part(self.inner.index()))
    }

    fn create_index(&self) -> io::Result<Arc<dyn RandomFile>> {
        let file = self.around.change(|| self.inner.create_index())?;
        Ok(Arc::new(self.part(file)))
    }

    fn replace_index(&self) -> io::Result<Option<PathBuf>> {
        self.around.sync(|| self.inner.replace_index())
    }

    fn discard_index(&self) -> io::Result<()> {
        self.around.change(|| self.inner.discard_index())
    }

    fn free_damaged_indexes(&self, bytes: u64) -> io::Result<u64> {
        self.around.change(|| self.inner.free_damaged_indexes(bytes))
    }

    fn create_blob(&self, id: SegmentId, capacity: u64) -> io::Result<Arc<dyn Blob>> {
        let blob = self.around.change(|| self.inner.create_blob(id, capacity))?;
        Ok(Arc::new(self.part(blob)))
    }

    fn open_blob(&self, id: SegmentId) -> io::Result<Arc<dyn Blob>> {
        let blob = self.around.read(|| self.inner.open_blob(id))?;
        Ok(Arc::new(self.part(blob)))
    }

    fn delete_blob(&self, id: SegmentId) -> io::Result<()> {
        self.around.change(|| self.inner.delete_blob(id))
    }

    fn list_blobs(&self) -> io::Result<Vec<SegmentId>> {
        self.around.read(|| self.inner.list_blobs())
    }

    fn space(&self) -> io::Result<Space> {
        self.around.read(|| self.inner.space())
    }

    fn tenure(&self) -> Tenure {
        self.around.tenure(self.inner.tenure())
    }
}

impl<A: Around> RandomFile for Wrapped<dyn RandomFile, A> {
    fn len(&self) -> io::Result<u64> {
        self.around.read(|| self.inner.len())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.around.change(|| self.inner.set_len(len))
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        self.around.read(|| self.inner.read_at(offset, buffer))
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.around.change(|| self.inner.write_at(offset, bytes))
    }

    fn sync(&self) -> io::Result<()> {
        self.around.sync(|| self.inner.sync())
    }

    fn reserve(&self, bytes: u64) -> io::Result<()> {
        self.around.change(|| self.inner.reserve(bytes))
    }
}

impl<A: Around> Blob for Wrapped<dyn Blob, A> {
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        self.around.read(|| self.inner.read_at(offset, buffer))
    }

    fn read_all(&self, pieces: &mut [(u64, &mut [u8])]) -> io::Result<()> {
        self.around.read(|| self.inner.read_all(pieces))
    }

    fn append(&self, offset: u64, parts: &[IoSlice<'_>]) -> io::Result<()> {
        self.around.change(|| self.inner.append(offset, parts))
    }

    fn sync(&self) -> io::Result<()> {
        self.around.sync(|| self.inner.sync())
    }
}
