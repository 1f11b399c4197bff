//! A volume's media in memory, which can be copied, damaged and made to fail.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;

use crate::ids::SegmentId;
use crate::media::memory::MemoryFile;
use crate::media::{Blob, Media, RandomFile, Space};

/// Bytes of the journal.
const LOG_BYTES: usize = 1 << 20;

#[derive(Debug)]
pub(crate) struct MemoryBlob {
    pub bytes: Mutex<Vec<u8>>,
    refuses: Arc<AtomicBool>,
}

impl Blob for MemoryBlob {
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        let bytes = self.bytes.lock();
        let offset = usize::try_from(offset).unwrap();
        let bytes = bytes.get(offset..offset + buffer.len()).ok_or(io::ErrorKind::UnexpectedEof)?;
        buffer.copy_from_slice(bytes);
        Ok(())
    }

    fn append(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        if self.refuses.load(Ordering::Relaxed) {
            return Err(io::Error::other("the device is gone"));
        }
        let offset = usize::try_from(offset).unwrap();
        self.bytes.lock()[offset..offset + bytes.len()].copy_from_slice(bytes);
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        Ok(())
    }
}

#[derive(Debug)]
pub(crate) struct MemoryMedia {
    pub log: Arc<MemoryFile>,
    pub index: Arc<MemoryFile>,
    pub blobs: Mutex<BTreeMap<SegmentId, Arc<MemoryBlob>>>,
    refuses: Arc<AtomicBool>,
}

impl MemoryMedia {
    pub(crate) fn new() -> Arc<MemoryMedia> {
        MemoryMedia::holding(vec![0; LOG_BYTES], Vec::new(), BTreeMap::new())
    }

    fn holding(log: Vec<u8>, index: Vec<u8>, blobs: BTreeMap<SegmentId, Vec<u8>>) -> Arc<MemoryMedia> {
        let refuses = Arc::new(AtomicBool::new(false));
        let blob = |bytes| Arc::new(MemoryBlob { bytes: Mutex::new(bytes), refuses: Arc::clone(&refuses) });
        Arc::new(MemoryMedia {
            log: MemoryFile::holding(log),
            index: MemoryFile::holding(index),
            blobs: Mutex::new(blobs.into_iter().map(|(id, bytes)| (id, blob(bytes))).collect()),
            refuses: Arc::clone(&refuses),
        })
    }

    /// What media hold now, as after the server was killed.
    pub(crate) fn copy(&self) -> Arc<MemoryMedia> {
        MemoryMedia::holding(self.log.bytes(), self.index.bytes(), self.blob_bytes())
    }

    /// All that can change.
    pub(crate) fn bytes(&self) -> (Vec<u8>, Vec<u8>, BTreeMap<SegmentId, Vec<u8>>) {
        (self.log.bytes(), self.index.bytes(), self.blob_bytes())
    }

    fn blob_bytes(&self) -> BTreeMap<SegmentId, Vec<u8>> {
        self.blobs.lock().iter().map(|(id, blob)| (*id, blob.bytes.lock().clone())).collect()
    }

    /// Makes segments refuse to be written, or take writes again.
    pub(crate) fn refuse_appends(&self, refuses: bool) {
        self.refuses.store(refuses, Ordering::Relaxed);
    }
}

impl Media for MemoryMedia {
    fn log(&self) -> Arc<dyn RandomFile> {
        Arc::clone(&self.log) as Arc<dyn RandomFile>
    }

    fn index(&self) -> Arc<dyn RandomFile> {
        Arc::clone(&self.index) as Arc<dyn RandomFile>
    }

    fn create_blob(&self, id: SegmentId, capacity: u64) -> io::Result<Arc<dyn Blob>> {
        let bytes = Mutex::new(vec![0; usize::try_from(capacity).unwrap()]);
        let blob = Arc::new(MemoryBlob { bytes, refuses: Arc::clone(&self.refuses) });
        match self.blobs.lock().insert(id, Arc::clone(&blob)) {
            None => Ok(blob),
            Some(_) => Err(io::ErrorKind::AlreadyExists.into()),
        }
    }

    fn open_blob(&self, id: SegmentId) -> io::Result<Arc<dyn Blob>> {
        let blob = self.blobs.lock().get(&id).cloned().ok_or(io::ErrorKind::NotFound)?;
        Ok(blob)
    }

    fn delete_blob(&self, id: SegmentId) -> io::Result<()> {
        self.blobs.lock().remove(&id).map(drop).ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn list_blobs(&self) -> io::Result<Vec<SegmentId>> {
        Ok(self.blobs.lock().keys().copied().collect())
    }

    fn space(&self) -> io::Result<Space> {
        Ok(Space { total: 1 << 40, available: 1 << 39 })
    }

    fn lease_held(&self) -> bool {
        true
    }
}

/// Changes bytes of a file behind everybody's back.
pub(crate) fn damage(file: &MemoryFile, change: impl FnOnce(&mut Vec<u8>)) {
    let mut bytes = file.bytes();
    change(&mut bytes);
    file.write_at(0, &bytes).unwrap();
    file.sync().unwrap();
}
