//! Media in memory that cost as little as can be: what is counted is the engine, not them.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard};

use volume::ids::SegmentId;
use volume::media::{Blob, Media, RandomFile, Space};

const LOG_BYTES: usize = 64 << 20;
const DEVICE_BYTES: u64 = 8 << 30;

/// A volume's media.
#[derive(Debug)]
pub(crate) struct Memory {
    log: Arc<File>,
    index: Arc<File>,
    blobs: Mutex<BTreeMap<SegmentId, Arc<File>>>,
}

#[derive(Debug)]
struct File(Mutex<Vec<u8>>);

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().expect("nothing panics while it holds a file")
}

/// A number of bytes in memory.
fn size(bytes: u64) -> io::Result<usize> {
    usize::try_from(bytes).map_err(|_| io::ErrorKind::InvalidInput.into())
}

impl Memory {
    pub(crate) fn new() -> Memory {
        let file = |length| Arc::new(File(Mutex::new(vec![0; length])));
        Memory { log: file(LOG_BYTES), index: file(0), blobs: Mutex::default() }
    }
}

impl Media for Memory {
    fn log(&self) -> Arc<dyn RandomFile> {
        Arc::clone(&self.log) as Arc<dyn RandomFile>
    }

    fn index(&self) -> Arc<dyn RandomFile> {
        Arc::clone(&self.index) as Arc<dyn RandomFile>
    }

    fn create_blob(&self, id: SegmentId, capacity: u64) -> io::Result<Arc<dyn Blob>> {
        let blob = Arc::new(File(Mutex::new(vec![0; size(capacity)?])));
        match lock(&self.blobs).insert(id, Arc::clone(&blob)) {
            None => Ok(blob),
            Some(_) => Err(io::ErrorKind::AlreadyExists.into()),
        }
    }

    fn open_blob(&self, id: SegmentId) -> io::Result<Arc<dyn Blob>> {
        let blob = lock(&self.blobs).get(&id).cloned();
        blob.map(|blob| blob as Arc<dyn Blob>).ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn delete_blob(&self, id: SegmentId) -> io::Result<()> {
        lock(&self.blobs).remove(&id).map(|_| ()).ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn list_blobs(&self) -> io::Result<Vec<SegmentId>> {
        Ok(lock(&self.blobs).keys().copied().collect())
    }

    fn space(&self) -> io::Result<Space> {
        Ok(Space { total: DEVICE_BYTES, available: DEVICE_BYTES / 2 })
    }

    fn lease_held(&self) -> bool {
        true
    }
}

impl File {
    fn read(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        let (offset, bytes) = (size(offset)?, lock(&self.0));
        let found = bytes.get(offset..offset + buffer.len()).ok_or(io::ErrorKind::UnexpectedEof)?;
        buffer.copy_from_slice(found);
        Ok(())
    }

    fn write(&self, offset: u64, new: &[u8]) -> io::Result<()> {
        let (offset, mut bytes) = (size(offset)?, lock(&self.0));
        let place = bytes.get_mut(offset..offset + new.len()).ok_or(io::ErrorKind::UnexpectedEof)?;
        place.copy_from_slice(new);
        Ok(())
    }
}

impl RandomFile for File {
    fn len(&self) -> io::Result<u64> {
        Ok(lock(&self.0).len() as u64)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        lock(&self.0).resize(size(len)?, 0);
        Ok(())
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        self.read(offset, buffer)
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.write(offset, bytes)
    }

    fn sync(&self) -> io::Result<()> {
        Ok(())
    }

    fn reserve(&self, _: u64) -> io::Result<()> {
        Ok(())
    }
}

impl Blob for File {
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        self.read(offset, buffer)
    }

    fn append(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.write(offset, bytes)
    }

    fn sync(&self) -> io::Result<()> {
        Ok(())
    }
}
