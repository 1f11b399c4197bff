//! Media in memory that keep everything, until they are told to fail. Crashes are the simulator's business.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use volume::ids::SegmentId;
use volume::media::{Blob, Media, RandomFile, Space};

const LOG_BYTES: usize = 16 << 20;
const DEVICE_BYTES: u64 = 4 << 30;

/// A volume's media.
#[derive(Debug)]
pub(crate) struct Memory {
    broken: Arc<AtomicBool>,
    log: Arc<File>,
    index: Arc<File>,
    blobs: Mutex<BTreeMap<SegmentId, Arc<File>>>,
}

impl Memory {
    pub(crate) fn new() -> Arc<Memory> {
        let broken = Arc::new(AtomicBool::new(false));
        let file =
            |length| Arc::new(File { broken: Arc::clone(&broken), bytes: Mutex::new(vec![0; length]) });
        let (log, index) = (file(LOG_BYTES), file(0));
        Arc::new(Memory { broken, log, index, blobs: Mutex::default() })
    }

    /// From now on nothing can be written or synced.
    pub(crate) fn break_down(&self) {
        self.broken.store(true, Ordering::SeqCst);
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
        let bytes = Mutex::new(vec![0; usize::try_from(capacity).unwrap()]);
        let blob = Arc::new(File { broken: Arc::clone(&self.broken), bytes });
        match self.blobs.lock().insert(id, Arc::clone(&blob)) {
            None => Ok(blob),
            Some(_) => Err(io::ErrorKind::AlreadyExists.into()),
        }
    }

    fn open_blob(&self, id: SegmentId) -> io::Result<Arc<dyn Blob>> {
        let blob = self.blobs.lock().get(&id).cloned();
        blob.map(|blob| blob as Arc<dyn Blob>).ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn delete_blob(&self, id: SegmentId) -> io::Result<()> {
        self.blobs.lock().remove(&id).map(|_| ()).ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn list_blobs(&self) -> io::Result<Vec<SegmentId>> {
        Ok(self.blobs.lock().keys().copied().collect())
    }

    fn space(&self) -> io::Result<Space> {
        let blobs: usize = self.blobs.lock().values().map(|blob| blob.bytes.lock().len()).sum();
        Ok(Space { total: DEVICE_BYTES, available: DEVICE_BYTES - blobs as u64 })
    }

    fn lease_held(&self) -> bool {
        true
    }
}

#[derive(Debug)]
struct File {
    broken: Arc<AtomicBool>,
    bytes: Mutex<Vec<u8>>,
}

impl File {
    fn check(&self) -> io::Result<()> {
        if self.broken.load(Ordering::SeqCst) { Err(io::Error::other("broken")) } else { Ok(()) }
    }

    fn read(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        let offset = usize::try_from(offset).unwrap();
        let bytes = self.bytes.lock();
        let found = bytes.get(offset..offset + buffer.len()).ok_or(io::ErrorKind::UnexpectedEof)?;
        buffer.copy_from_slice(found);
        Ok(())
    }

    fn write(&self, offset: u64, new: &[u8]) -> io::Result<()> {
        self.check()?;
        let offset = usize::try_from(offset).unwrap();
        let mut bytes = self.bytes.lock();
        bytes.get_mut(offset..offset + new.len()).ok_or(io::ErrorKind::UnexpectedEof)?.copy_from_slice(new);
        Ok(())
    }
}

impl RandomFile for File {
    fn len(&self) -> io::Result<u64> {
        Ok(self.bytes.lock().len() as u64)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.check()?;
        self.bytes.lock().resize(usize::try_from(len).unwrap(), 0);
        Ok(())
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        self.read(offset, buffer)
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.write(offset, bytes)
    }

    fn sync(&self) -> io::Result<()> {
        self.check()
    }

    fn reserve(&self, _: u64) -> io::Result<()> {
        self.check()
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
        self.check()
    }
}
